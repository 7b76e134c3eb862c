/** Names of what is protected: checked and sorted. Pure. */
import { refuse } from '../options.ts'

const MAX_LENGTH = 512
const MAX_RESOURCES = 64
/**
 * A half of a surrogate pair: no server could write it down, and another name with another half
 * would be the same.
 */
const HALF_CHARACTER = /\p{Surrogate}/u

/**
 * Sorted without repetitions, so that contenders for the same resources meet at the same one first.
 */
export function resourceNames(resource: unknown): readonly string[] {
  if (!Array.isArray(resource)) return [resourceName(resource)]
  const names: unknown[] = resource
  if (names.length === 0 || names.length > MAX_RESOURCES) {
    refuse('resource', `a string or a list of 1 to ${MAX_RESOURCES} strings`, resource)
  }
  return [...new Set(names.map(resourceName))].sort()
}

function resourceName(name: unknown): string {
  if (typeof name !== 'string' || name.length === 0 || name.length > MAX_LENGTH) {
    return refuse('resource', `a string of 1 to ${MAX_LENGTH} characters`, name)
  }
  if (HALF_CHARACTER.test(name)) {
    return refuse('resource', 'a string of whole characters (well-formed Unicode)', name)
  }
  return name
}

/** Several resources under one lease, in one word for people. */
export function labelOf(resources: readonly string[]): string {
  return resources.join(' + ')
}
