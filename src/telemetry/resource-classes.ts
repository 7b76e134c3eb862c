/**
 * Resources as labels: their number has no bound, that of their classes has one. A class is
 * `customer` for `customer:42`; what has no class, and every class beyond the bound, is `other`.
 */
import { integerOption, knownOptions, refuse } from '../options.ts'

/** How resources become labels. */
export interface TelemetryOptions {
  /**
   * The class of a resource. Whatever it returns becomes a label of metrics and an attribute of
   * spans; of several resources under one lease the first by name is asked for.
   * @defaultValue the part before the first `:`
   */
  readonly resourceClass?: (resource: string) => string
  /** The most classes that are told apart; all others are `other`. @defaultValue 20 */
  readonly maxResourceClasses?: number
}

const OTHER = 'other'
const MAX_CLASSES = 20
const MAX_LENGTH = 64

export class ResourceClasses {
  readonly #classOf: (resource: string) => string
  readonly #limit: number
  readonly #known = new Set<string>()

  /** @throws TypeError for a bad option. */
  constructor(options: TelemetryOptions = {}) {
    knownOptions({ ...options }, { resourceClass: true, maxResourceClasses: true })
    const { resourceClass = beforeColon, maxResourceClasses } = options
    if (typeof resourceClass !== 'function') {
      refuse('resourceClass', 'a function of the resource', resourceClass)
    }
    this.#classOf = resourceClass
    this.#limit = integerOption('maxResourceClasses', maxResourceClasses ?? MAX_CLASSES, 0, 1_000)
  }

  of(resources: readonly string[]): string {
    let found: string
    try {
      found = this.#classOf(resources[0] ?? '').slice(0, MAX_LENGTH)
    } catch {
      return OTHER // A user's function that throws must not cost a measurement.
    }
    if (this.#known.has(found)) return found
    if (found === '' || this.#known.size >= this.#limit) return OTHER
    this.#known.add(found)
    return found
  }
}

/** A resource without a `:` may be anything, a customer's name for example: it has no class. */
function beforeColon(resource: string): string {
  return resource.slice(0, Math.max(0, resource.indexOf(':')))
}
