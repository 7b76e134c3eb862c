/** How many holders resources may have at once. Pure. */
import { integerOption } from './options.ts'

/** How many holders a resource may have at once: a number for all, or one for each by its name. */
export type Slots = number | Readonly<Record<string, number>>

export const MAX_SLOTS = 1_000

/** @throws TypeError for what is no number of slots, and no map of them. */
export function checkedSlots(slots: unknown): Slots {
  const isObject = typeof slots === 'object' && slots !== null
  // A promise or a `Map` has no entries.
  if (!isObject || Object.prototype.toString.call(slots) !== '[object Object]') {
    return integerOption('slots', slots, 1, MAX_SLOTS)
  }
  return Object.fromEntries(
    Object.entries(slots).map(([name, count]) => [
      name,
      integerOption(`slots[${JSON.stringify(name)}]`, count, 1, MAX_SLOTS),
    ]),
  )
}

/** 1 for a resource that a map does not name. */
export function slotsOf(slots: Slots, resource: string): number {
  return slotsSetFor(slots, resource) ?? 1
}

/** Undefined for a resource that a map does not name. */
export function slotsSetFor(slots: Slots, resource: string): number | undefined {
  if (typeof slots === 'number') return slots
  return Object.hasOwn(slots, resource) ? slots[resource] : undefined
}
