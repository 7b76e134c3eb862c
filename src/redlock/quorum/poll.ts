/**
 * Asks all masters at once and counts. The only place where votes are collected: the verbs differ
 * in what they ask, how they read an answer, and what counts as a vote for.
 */
import type { Deadline, Expiring } from '../../clock.ts'
import type { Call } from '../wire/batch.ts'
import { noReply, type Asker, type CallResult, type Master, type Request } from '../wire/master.ts'
import type { Question } from '../../channel.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Vote } from '../verbs/votes.ts'

export type Verdict = 'for' | 'against'

/** None of these may throw. */
export interface Verb<V extends Vote> {
  readonly question: Question
  readonly timeoutMs: number
  /** What this master is asked; or, without asking it, its answer. */
  ask(master: Master, index: number): Call | CallResult
  read(master: Master, result: CallResult): V
  isFor(vote: V): boolean
}

export class Poll<V extends Vote> implements Asker, Expiring {
  /** In the fleet's order; filled in as answers arrive, also after the verdict. */
  readonly votes: readonly (V | undefined)[]
  /** As early as the outstanding votes cannot change it. */
  readonly verdict: Promise<Verdict>
  readonly #fleet: LockFleet
  readonly #verb: Verb<V>
  readonly #deadline: Deadline
  readonly #isHeard: boolean
  readonly #requests: Request[] = []
  #for = 0
  #against = 0
  #settle: (verdict: Verdict) => void = () => undefined
  #complete: Promise<void> | undefined
  #completed: (() => void) | undefined

  constructor(fleet: LockFleet, verb: Verb<V>) {
    const { masters, deadlines, channel, polls } = fleet
    this.#fleet = fleet
    this.#verb = verb
    this.#isHeard = channel.hears('master:voted')
    this.votes = new Array<V | undefined>(masters.length).fill(undefined)
    this.verdict = new Promise((resolve) => {
      this.#settle = resolve
    })
    polls.add(this)
    this.#deadline = deadlines.in(verb.timeoutMs, this)
    for (const [index, master] of masters.entries()) {
      const call = verb.ask(master, index)
      if ('ok' in call) this.hear({ index, isSettled: false }, call)
      else {
        const request = { call, asker: this, index, isSettled: false, isSent: false }
        this.#requests.push(request)
        master.ask(request)
      }
    }
  }

  /** When every master has answered or run into its deadline. */
  get complete(): Promise<void> {
    this.#complete ??= new Promise((resolve) => {
      if (this.#for + this.#against === this.votes.length) resolve()
      else this.#completed = resolve
    })
    return this.#complete
  }

  hear(request: Pick<Request, 'index' | 'isSettled'>, result: CallResult): void {
    const { index } = request
    const { masters, quorum, polls } = this.#fleet
    const master = masters[index]
    if (request.isSettled || master === undefined) return
    request.isSettled = true
    const vote = this.#verb.read(master, result)
    const votes = this.votes as (V | undefined)[]
    votes[index] = vote
    if (this.#verb.isFor(vote)) this.#for++
    else this.#against++
    const verdict = decide(votes.length, quorum, this.#for, this.#against)
    if (verdict !== undefined) this.#settle(verdict)
    if (this.#isHeard || vote.kind === 'failed') {
      this.#fleet.voted(master, this.#verb.question, vote)
    }
    if (this.#for + this.#against < votes.length) return
    polls.delete(this)
    this.#deadline.leave(this)
    this.#completed?.()
  }

  expire(timeoutMs: number): void {
    for (const request of this.#requests) this.hear(request, noReply(timeoutMs, request.isSent))
  }
}

/** As early as the remaining votes can no longer change it, both ways; else undefined. Pure. */
export function decide(
  masters: number,
  quorum: number,
  granted: number,
  refused: number,
): Verdict | undefined {
  if (granted >= quorum) return 'for'
  return refused > masters - quorum ? 'against' : undefined
}
