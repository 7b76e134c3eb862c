/**
 * Asks all masters at once and counts: the only place where votes are collected. `verbs.ts` says
 * how an answer reads and which vote counts, and the fleet which masters do not vote now.
 */
import { endOverdue, Expiring, leave } from '../clock.ts'
import type { Question } from '../facts.ts'
import type { Attempt } from './attempt.ts'
import type { ClockWatch } from './fleet/clock-watch.ts'
import { ASKED, ASKS_THE_TIME, readReply, USUAL_VOTES, type About, type Vote } from './verbs.ts'
import { USUAL, type Call } from './wire/calls.ts'
import { failed, noReply, type Asker, type CallResult, type Master } from './wire/master.ts'

export type Verdict = 'for' | 'against'

/** What one master is asked; undefined where its answer is known to be the usual one. */
type CallOn = (attempt: Attempt, master: Master, call: Call) => Call | undefined

const NOT_ASKED: CallResult = { kind: 'replied', reply: USUAL }

export class Poll extends Expiring implements Asker {
  /** In the fleet's order; filled in as answers arrive, also after the verdict. */
  readonly votes: (Vote | undefined)[]
  /** Once it is decided: as early as the outstanding votes cannot change it. */
  verdict: Verdict | undefined
  readonly decided: Promise<void>
  readonly attempt: Attempt
  readonly #question: Question
  readonly #call: Call
  readonly #callOn: CallOn | undefined
  /** Masters that are asked nothing else. */
  #askedTheTime: Set<Master> | undefined
  readonly #isHeard: boolean
  #for = 0
  #against = 0
  #decide!: () => void
  #complete: Promise<void> | undefined
  #completed: (() => void) | undefined

  /** Asks every master at once. @param callOn where not all of them are asked the same. */
  constructor(
    attempt: Attempt,
    question: Question,
    call: Call,
    timeoutMs: number,
    callOn?: CallOn,
  ) {
    super()
    const { fleet } = attempt
    const { masters } = fleet
    this.attempt = attempt
    this.#question = question
    this.#call = call
    this.#callOn = callOn
    this.#isHeard = fleet.channel.hears('master:voted')
    this.votes = new Array<Vote | undefined>(masters.length).fill(undefined)
    this.decided = new Promise((resolve) => {
      this.#decide = resolve
    })
    fleet.deadlines.in(timeoutMs, this)
    const { clocks } = fleet
    for (const master of masters) {
      if (clocks.distrusts && question === 'acquire' && clocks.suspendedMs(master) > 0) {
        // Its clock is known by its replies: else it would stay suspended when its clock is right.
        this.#askedTheTime = (this.#askedTheTime ?? new Set()).add(master)
      }
      // rule: suspended-master-is-asked-the-time
      master.ask(this)
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

  leaving(master: Master): Call | undefined {
    const { index } = master
    if (this.votes[index] !== undefined) return undefined
    this.votes[index] = ASKED
    if (this.#askedTheTime?.has(master) === true) return ASKS_THE_TIME
    const call = this.#callOn ? this.#callOn(this.attempt, master, this.#call) : this.#call
    if (call === undefined) this.hear(master, NOT_ASKED)
    return call
  }

  hear(master: Master, result: CallResult): void {
    const { votes } = this
    const { fleet } = this.attempt
    const { index } = master
    if ((votes[index] ?? ASKED) !== ASKED) return
    const question = this.#question
    const said = voteOf(question, result, this.attempt)
    const asked = this.#askedTheTime?.has(master) === true ? 'time' : question
    const isSure = asked !== 'time' && !fleet.clocks.distrusts
    const vote = isSure ? said : counted(asked, said, master, fleet.clocks)
    votes[index] = vote
    if (vote.kind === USUAL_VOTES[question].kind) this.#for++
    else this.#against++
    if (this.verdict === undefined) {
      this.verdict = decide(votes.length, fleet.quorum, this.#for, this.#against)
      if (this.verdict !== undefined) this.#decide()
    }
    const isTold = this.#isHeard && result !== NOT_ASKED
    if (isTold || vote.kind === 'failed') fleet.voted(master, question, vote)
    if (vote.kind === 'failed' && question === 'release') this.attempt.releaseLater(master)
    if (this.#for + this.#against < votes.length) return
    leave(this)
    this.#completed?.()
  }

  expire(timeoutMs: number): void {
    const { masters, settings } = this.attempt.fleet
    endOverdue(settings.clock, this.endsAt, () => {
      for (const master of masters) {
        this.hear(master, noReply(timeoutMs, this.votes[master.index] === ASKED))
      }
    })
  }
}

/** What a master answered, as a vote. Never throws. */
export function voteOf(question: Question, result: CallResult, about: About): Vote {
  if (result.kind === 'failed') return result
  const { reply } = result
  if (reply === USUAL) return USUAL_VOTES[question]
  const vote = Array.isArray(reply) ? readReply(reply, about) : undefined
  return (
    vote ?? failed('malformed', `unexpected reply ${JSON.stringify(reply)}`.slice(0, 200), true)
  )
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

/**
 * The largest counter that a master granted, and how many masters granted exactly it.
 * @param proposal is the counter of a vote without one.
 */
export function highest(
  votes: readonly (Vote | undefined)[],
  proposal: number,
): { readonly counter: number; readonly masters: number } {
  let counter = 0
  let masters = 0
  for (const vote of votes) {
    if (vote?.kind !== 'granted') continue
    const granted = vote.counter ?? proposal
    if (granted < counter) continue
    masters = granted > counter ? 1 : masters + 1
    counter = granted
  }
  return { counter, masters }
}
