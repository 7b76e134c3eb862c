/** Names of what is protected: checked, sorted, and split into slots. Pure. */
import { integerOption, refuse } from '../options.ts'

const MAX_LENGTH = 512
const MAX_RESOURCES = 64
const MAX_SLOTS = 1_000

/** Sorted without repetitions, so that contenders for the same resources meet at the same one first. */
export function resourceNames(resource: unknown): readonly string[] {
  const names: unknown[] = Array.isArray(resource) ? resource : [resource]
  if (names.length === 0 || names.length > MAX_RESOURCES) {
    refuse('resource', `a string or a list of 1 to ${MAX_RESOURCES} strings`, resource)
  }
  return [...new Set(names.map(checkedName))].sort()
}

function checkedName(name: unknown): string {
  if (typeof name !== 'string' || name.length === 0 || name.length > MAX_LENGTH) {
    return refuse('resource', `a string of 1 to ${MAX_LENGTH} characters`, name)
  }
  return name
}

/**
 * What to try, in order: the resources themselves, or the slots of one resource from a random one on, so that
 * callers do not all begin at the same slot. `random` is in [0, 1).
 */
export function claimsFor(
  names: readonly string[],
  slots: unknown,
  random: number,
): readonly (readonly string[])[] {
  const count = integerOption('slots', slots, 1, MAX_SLOTS)
  const [name] = names
  if (count === 1 || name === undefined) return [names]
  if (names.length > 1) refuse('slots', '1 where several resources are taken at once', slots)
  const first = Math.floor(random * count)
  return Array.from({ length: count }, (_, index) => [`${name}#${((first + index) % count) + 1}`])
}

/** Several resources under one lease, in one word for people. */
export function labelOf(resources: readonly string[]): string {
  return resources.join(' + ')
}
