/**
 * Asks all masters at once and counts: the only place where votes are collected. The verbs say how
 * an answer reads and which vote counts, and the fleet which masters do not vote now.
 */
import type { Deadline, Expiring } from '../clock.ts'
import type { Question } from '../channel.ts'
import type { Attempt } from './attempt.ts'
import type { ClockWatch } from './fleet/clock-watch.ts'
import type { LockFleet } from './fleet/fleet.ts'
import { ASKS_THE_TIME, type Verb } from './verbs/verbs.ts'
import type { Vote } from './verbs/votes.ts'
import type { Call } from './wire/batch.ts'
import { noReply, type Asker, type CallResult, type Master, type Request } from './wire/master.ts'

export type Verdict = 'for' | 'against'

/** What every master is asked, or each of them. */
export type Calls = Call | ((index: number) => Call)

export function ask<V extends Vote>(
  attempt: Attempt,
  verb: Verb<V>,
  calls: Calls,
  timeoutMs: number,
): Poll<V> {
  return new Poll(attempt, verb, calls, timeoutMs)
}

export class Poll<V extends Vote = Vote> implements Asker, Expiring {
  pollPlace = -1
  deadlinePlace = -1
  /** In the fleet's order; filled in as answers arrive, also after the verdict. */
  readonly votes: readonly (V | undefined)[]
  /** Once it is decided: as early as the outstanding votes cannot change it. */
  verdict: Verdict | undefined
  readonly decided: Promise<void>
  readonly #fleet: LockFleet
  readonly #attempt: Attempt
  readonly #verb: Verb<V>
  readonly #deadline: Deadline
  readonly #requests: Request[]
  readonly #isHeard: boolean
  #for = 0
  #against = 0
  #decide!: () => void
  #complete: Promise<void> | undefined
  #completed: (() => void) | undefined

  constructor(attempt: Attempt, verb: Verb<V>, calls: Calls, timeoutMs: number) {
    const { fleet } = attempt
    const { masters, deadlines, polls } = fleet
    this.#fleet = fleet
    this.#attempt = attempt
    this.#verb = verb
    this.#isHeard = fleet.channel.hears('master:voted')
    this.votes = new Array<V | undefined>(masters.length).fill(undefined)
    this.#requests = new Array<Request>(masters.length)
    this.decided = new Promise((resolve) => {
      this.#decide = resolve
    })
    polls.add(this)
    this.#deadline = deadlines.in(timeoutMs, this)
    for (let index = 0; index < masters.length; index++) {
      const master = masters[index] as Master
      const call = typeof calls === 'function' ? calls(index) : calls
      const request: Request = {
        // Its clock is known by its replies: else it would stay suspended when its clock is right.
        call:
          verb.question === 'acquire' && fleet.clocks.suspendedMs(master) > 0
            ? ASKS_THE_TIME
            : call,
        asker: this,
        index,
        isSettled: false,
        isSent: false,
      }
      this.#requests[index] = request
      // rule: suspended-master-is-asked-the-time
      master.ask(request)
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

  hear(request: Request, result: CallResult): void {
    const { call, index } = request
    const { masters, quorum, polls } = this.#fleet
    const master = masters[index]
    if (request.isSettled || master === undefined) return
    request.isSettled = true
    const { question } = this.#verb
    const said = this.#verb.read(result, this.#attempt)
    const asked = call === ASKS_THE_TIME ? 'time' : question
    const vote = counted(asked, said, master, this.#fleet.clocks) as V
    const votes = this.votes as (V | undefined)[]
    votes[index] = vote
    if (this.#verb.isFor(vote, this.#attempt)) this.#for++
    else this.#against++
    this.verdict ??= decide(votes.length, quorum, this.#for, this.#against)
    if (this.verdict !== undefined) this.#decide()
    if (this.#isHeard || vote.kind === 'failed') this.#fleet.voted(master, question, vote)
    if (vote.kind === 'failed' && question === 'release') this.#attempt.releaseLater(master)
    if (this.#for + this.#against < votes.length) return
    polls.delete(this)
    this.#deadline.leave(this)
    this.#completed?.()
  }

  expire(timeoutMs: number): void {
    for (const request of this.#requests) this.hear(request, noReply(timeoutMs, request.isSent))
  }
}

/**
 * A vote as it counts: a master whose clock is not trusted has none.
 * @param asked `time`: a suspended master, which was asked nothing else.
 */
export function counted(
  asked: Question | 'time',
  vote: Vote,
  master: Master,
  clocks: Pick<ClockWatch, 'suspendedMs' | 'isOutOfLine'>,
): Vote {
  if (asked === 'acquire' || asked === 'time') {
    // This very reply may have shown that the master's clock jumped.
    const waitMs = Math.max(asked === 'time' ? 1 : 0, clocks.suspendedMs(master))
    // rule: suspended-master-grants-nothing
    if (waitMs > 0) return { kind: 'suspended', waitMs }
  }
  // rule: master-out-of-line-extends-nothing
  if (vote.kind === 'extended' && clocks.isOutOfLine(master)) {
    return { kind: 'suspended', waitMs: clocks.suspendedMs(master) }
  }
  return vote
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
