/** A resource with several places: what is tried, and what it comes to when none is free. */
import { integerOption, refuse } from '../options.ts'
import type { AcquireOutcome, Split, Taken } from './outcome.ts'

const MAX_SLOTS = 1_000

/**
 * What to try, in order: the resources themselves, or the slots of one resource from a random one
 * on, so that callers do not all begin at the same slot. `random` is in [0, 1).
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

/** Tries one claim after the other until one is granted, or no quorum can be reached. */
export async function tryEach(
  claims: readonly (readonly string[])[],
  tryOne: (claim: readonly string[]) => Promise<AcquireOutcome>,
): Promise<AcquireOutcome> {
  let best: Taken | Split | undefined
  for (const claim of claims) {
    const outcome = await tryOne(claim)
    if (outcome.status === 'granted' || outcome.status === 'unreachable') return outcome
    // Of several refusals the one that may end first: a split soon, a taken slot when its holder's
    // lease does.
    if (outcome.status === 'split') best = outcome
    else if (best?.status !== 'split') best = sooner(best, outcome)
  }
  return best ?? refuse('resource', 'at least one name', claims)
}

function sooner(best: Taken | undefined, taken: Taken): Taken {
  return best !== undefined && best.retryAfterMs <= taken.retryAfterMs ? best : taken
}
