/**
 * Asks all masters at once and counts. The only place where votes are collected: acquire, confirm,
 * extend and release differ in their question and in what counts as a vote for them.
 */
import type { CallResult, Master } from '../../redis/master.ts'
import { decide, type Verdict } from './quorum.ts'

export interface Poll<V> {
  /** By master, in the fleet's order; filled in as answers arrive, also after the verdict. */
  readonly votes: readonly (V | undefined)[]
  /** As early as the outstanding votes cannot change it. */
  readonly verdict: Promise<Verdict>
  /** When every master has answered or run into its deadline. */
  readonly complete: Promise<void>
}

/** What the masters are asked, how an answer is read, and what counts as a vote for it. None of these may throw. */
export interface Question<V> {
  ask(master: Master, index: number): Promise<CallResult>
  read(master: Master, result: CallResult): V
  isFor(vote: V): boolean
  /** May do nothing but count. */
  heard(master: Master, vote: V): void
}

export function poll<V>(masters: readonly Master[], question: Question<V>): Poll<V> {
  const votes = new Array<V | undefined>(masters.length).fill(undefined)
  let granted = 0
  let refused = 0
  let settle: (verdict: Verdict) => void = () => undefined
  let settleAll: () => void = () => undefined
  const verdict = new Promise<Verdict>((resolve) => {
    settle = resolve
  })
  const complete = new Promise<void>((resolve) => {
    settleAll = resolve
  })
  // One function for each answer and no more: every answer of every master passes here.
  for (const [index, master] of masters.entries()) {
    void question.ask(master, index).then((result) => {
      const vote = question.read(master, result)
      votes[index] = vote
      if (question.isFor(vote)) granted++
      else refused++
      const decided = decide(masters.length, granted, refused)
      if (decided !== undefined) settle(decided)
      question.heard(master, vote)
      if (granted + refused === masters.length) settleAll()
    })
  }
  return { votes, verdict, complete }
}
