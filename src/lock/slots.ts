/** Resources with several places: what is tried, and what it comes to when none is free. */
import { slotsOf, type Slots } from '../slots.ts'
import type { AcquireOutcome, Split, Taken } from './outcome.ts'

/** Names of the slots of a resource: its own name where it has one. */
export function slotNames(resource: string, slots: Slots): readonly string[] {
  const count = slotsOf(slots, resource)
  if (count === 1) return [resource]
  return Array.from({ length: count }, (_, index) => `${resource}#${index + 1}`)
}

/**
 * Tries one slot of each resource, all or nothing, until that is granted, a resource has no slot
 * left, or no quorum can be reached. It begins at a random slot, so that callers spread.
 * @param names of the slots of each resource.
 * @param random in [0, 1).
 */
export async function trySlots(
  names: readonly (readonly string[])[],
  random: () => number,
  tryOne: (claim: readonly string[]) => Promise<AcquireOutcome>,
): Promise<AcquireOutcome> {
  const left = names.map((slots) => {
    const first = slots.length === 1 ? 0 : Math.floor(random() * slots.length)
    return [...slots.slice(first), ...slots.slice(0, first)]
  })
  let best: Taken | Split | undefined
  for (;;) {
    // A slot may also be asked for by its name.
    // rule: lease-has-each-key-once
    const claim = [...new Set(left.map(([slot = '']) => slot))].sort()
    const outcome = await tryOne(claim)
    if (outcome.status === 'granted' || outcome.status === 'unreachable') return outcome
    // Of several refusals the one that may end first: a split soon, a taken slot with its lease.
    if (outcome.status === 'split' || best === undefined) best = outcome
    else if (best.status === 'taken' && outcome.retryAfterMs < best.retryAfterMs) best = outcome
    // rule: taken-slot-is-passed-over
    const taken = left.find(([slot]) => outcome.status === 'taken' && slot === outcome.resource)
    const next = taken ?? left.find((slots) => slots.length > 1)
    next?.shift()
    if (next === undefined || next.length === 0) return best
  }
}
