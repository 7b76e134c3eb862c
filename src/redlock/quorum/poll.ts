/**
 * Asks all masters at once and counts. The only place where votes are collected: the verbs differ
 * in what they ask, how they read an answer, and what counts as a vote for.
 */
import type { Deadline, Expiring } from '../../deadlines.ts'
import type { Call } from '../../redis/batch.ts'
import { noReply, type CallResult, type Master, type PendingCall } from '../../redis/master.ts'
import type { Question } from '../../telemetry/lock-observer.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { Vote } from '../verbs/votes.ts'
import { decide, type Verdict } from './quorum.ts'

/** None of these may throw. */
export interface Verb<V extends Vote> {
  readonly question: Question
  readonly timeoutMs: number
  /** What this master is asked; or, without asking it, its answer. */
  ask(master: Master, index: number): Call | CallResult
  read(master: Master, result: CallResult): V
  isFor(vote: V): boolean
}

export class Poll<V extends Vote> implements Expiring {
  /** In the fleet's order; filled in as answers arrive, also after the verdict. */
  readonly votes: readonly (V | undefined)[]
  /** As early as the outstanding votes cannot change it. */
  readonly verdict: Promise<Verdict>
  readonly #fleet: Fleet
  readonly #verb: Verb<V>
  readonly #deadline: Deadline
  readonly #requests: PolledMaster<V>[] = []
  #granted = 0
  #refused = 0
  #settle: (verdict: Verdict) => void = () => undefined
  #complete: Promise<void> | undefined
  #completed: (() => void) | undefined

  constructor(fleet: Fleet, verb: Verb<V>) {
    this.#fleet = fleet
    this.#verb = verb
    this.votes = new Array<V | undefined>(fleet.masters.length).fill(undefined)
    this.verdict = new Promise((resolve) => {
      this.#settle = resolve
    })
    this.#deadline = fleet.pollBegins(verb.timeoutMs, this)
    for (const [index, master] of fleet.masters.entries()) {
      const asked = verb.ask(master, index)
      if ('ok' in asked) this.hear(index, asked)
      else {
        const request = new PolledMaster(this, index, asked)
        this.#requests.push(request)
        master.ask(request)
      }
    }
  }

  /** When every master has answered or run into its deadline. */
  get complete(): Promise<void> {
    this.#complete ??= this.#isComplete
      ? Promise.resolve()
      : new Promise((resolve) => {
          this.#completed = resolve
        })
    return this.#complete
  }

  hear(index: number, result: CallResult): void {
    const votes = this.votes as (V | undefined)[]
    const master = this.#fleet.masters[index]
    if (votes[index] !== undefined || master === undefined) return
    const vote = this.#verb.read(master, result)
    votes[index] = vote
    if (this.#verb.isFor(vote)) this.#granted++
    else this.#refused++
    const verdict = decide(votes.length, this.#granted, this.#refused)
    if (verdict !== undefined) this.#settle(verdict)
    this.#fleet.voted(master, this.#verb.question, vote)
    if (!this.#isComplete) return
    this.#fleet.pollEnds(this.#deadline)
    this.#completed?.()
  }

  expire(timeoutMs: number): void {
    for (const { settled, index, left } of this.#requests) {
      if (!settled) this.hear(index, noReply(timeoutMs, left))
    }
  }

  get #isComplete(): boolean {
    return this.#granted + this.#refused === this.votes.length
  }
}

/** One master's part of a poll. */
class PolledMaster<V extends Vote> implements PendingCall {
  readonly call: Call
  readonly index: number
  left = false
  readonly #poll: Poll<V>

  constructor(poll: Poll<V>, index: number, call: Call) {
    this.#poll = poll
    this.index = index
    this.call = call
  }

  get settled(): boolean {
    return this.#poll.votes[this.index] !== undefined
  }

  hear(result: CallResult): void {
    this.#poll.hear(this.index, result)
  }
}
