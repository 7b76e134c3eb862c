/**
 * Asks all masters at once and counts. The only place where votes are collected: acquire, confirm,
 * extend and release differ in their question and in what counts as a vote for them.
 */
import type { Master } from '../redis/master.ts'
import { decide, type Verdict } from './quorum.ts'

export interface Poll<V> {
  /** By master, in the fleet's order; filled in as answers arrive, also after the verdict. */
  readonly votes: readonly (V | undefined)[]
  /** As early as the outstanding votes cannot change it. */
  readonly verdict: Promise<Verdict>
  /** When every master has answered or run into its deadline. */
  readonly complete: Promise<void>
}

/** `ask` must not reject: a master that fails is a vote that says so. `heard` may do nothing but count. */
export function poll<V>(
  masters: readonly Master[],
  ask: (master: Master, index: number) => Promise<V>,
  isFor: (vote: V) => boolean,
  heard: (master: Master, vote: V) => void,
): Poll<V> {
  const votes = new Array<V | undefined>(masters.length).fill(undefined)
  let granted = 0
  let refused = 0
  let settle: (verdict: Verdict) => void = () => undefined
  const verdict = new Promise<Verdict>((resolve) => {
    settle = resolve
  })
  const answers = masters.map(async (master, index) => {
    const vote = await ask(master, index)
    votes[index] = vote
    if (isFor(vote)) granted++
    else refused++
    const decided = decide(masters.length, granted, refused)
    if (decided !== undefined) settle(decided)
    heard(master, vote)
  })
  return { votes, verdict, complete: Promise.all(answers).then(() => undefined) }
}
