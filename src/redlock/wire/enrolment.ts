/**
 * Whether the server at the other end of a connection may vote, and who changes that:
 *
 *   connecting ──connected()──▶ enrolling ──admitted──▶ enrolled
 *       ▲                         │  ▲                     │
 *       │                         │  └── reenrol(): NOSCRIPT, READONLY, or a reply that says
 *       │                      refused   the server is not the one this connection enrolled
 *       └── disconnected(), from any state ────────────────┘           close() ends them all
 *
 * Only `enrolled` may vote. On every connect the server's facts are read and `admit` (given by
 * the layer above, which knows about leases) decides; scripts are loaded *after* that, so a
 * missing script shows that the server has not been enrolled since it started.
 * A refused master is asked again once a second: an operator may have repaired it.
 */
import { messageOf } from '../../message-of.ts'
import type { Timer } from '../../clock.ts'
import { callOf, type Call } from './calls.ts'
import { isErrorReply } from './master.ts'
import type { MasterConnectionOptions, MasterState, Refusal } from './master.ts'
import type { ServerFacts } from './server-facts.ts'

const REFUSED_RETRY_MS = 1_000

/** Error replies of a server that may not be the one enrolled any more. */
const REENROL_ON = /^(NOSCRIPT|READONLY|MASTERDOWN)/

export type EnrolmentOptions = Pick<MasterConnectionOptions, 'clock' | 'admit' | 'onState'> & {
  readFacts(): Promise<ServerFacts>
  /** And tries what a lease needs. */
  loadScripts(): Promise<void>
}

export class Enrolment {
  state: MasterState = { status: 'connecting', detail: 'connecting for the first time' }
  readonly firstAnswer: Promise<void>
  readonly #options: EnrolmentOptions
  readonly #waiters: ((enrolled: boolean) => void)[] = []
  #answerFirst!: () => void
  /** Raised at every connect and disconnect: an enrolment that began before is void. */
  #epoch = 0
  #retry: Timer | undefined

  constructor(options: EnrolmentOptions) {
    this.#options = options
    this.firstAnswer = new Promise((resolve) => {
      this.#answerFirst = resolve
    })
  }

  get runId(): string {
    return this.state.status === 'enrolled' ? this.state.facts.runId : ''
  }

  /** Also after a close: a connection that is being opened still becomes ready. */
  connected(): void {
    if (this.state.status === 'closed') return
    this.#enrol('connected')
  }

  disconnected(detail: string): void {
    if (this.state.status === 'closed') return
    this.#epoch++
    this.#enter({ status: 'connecting', detail })
  }

  reenrol(why: string): void {
    if (this.state.status === 'enrolled') this.#enrol(why)
  }

  /** To be told of every error that the server replies. */
  onErrorReply(message: string): void {
    if (REENROL_ON.test(message)) this.reenrol(message)
  }

  /** False where it is closed before. */
  whenEnrolled(): Promise<boolean> {
    if (this.state.status === 'enrolled') return Promise.resolve(true)
    if (this.state.status === 'closed') return Promise.resolve(false)
    return new Promise((resolve) => this.#waiters.push(resolve))
  }

  close(): void {
    this.#epoch++
    this.#enter({ status: 'closed' })
  }

  #enter(state: MasterState): void {
    this.#retry?.cancel()
    this.#retry = undefined
    this.state = state
    this.#options.onState(state)
    if (state.status !== 'enrolling') this.#answerFirst()
    if (state.status === 'enrolled' || state.status === 'closed') {
      for (const settle of this.#waiters.splice(0)) settle(state.status === 'enrolled')
    }
  }

  #enrol(why: string): void {
    const epoch = ++this.#epoch
    this.#enter({ status: 'enrolling', detail: why })
    void this.#tryEnrol().then((state) => {
      if (epoch !== this.#epoch) return
      this.#enter(state)
      if (state.status === 'enrolled') return
      this.#retry = this.#options.clock.after(REFUSED_RETRY_MS, () => {
        this.#enrol('asking again')
      })
    })
  }

  async #tryEnrol(): Promise<MasterState> {
    try {
      const facts = await this.#options.readFacts()
      const refusal = await this.#options.admit(facts)
      if (refusal !== undefined) return refusal
      await this.#options.loadScripts()
      return { status: 'enrolled', facts }
    } catch (error) {
      if (isErrorReply(error)) return refusalBy(error.message)
      return { status: 'connecting', detail: `could not be enrolled: ${messageOf(error)}` }
    }
  }
}

/**
 * `lua/trial.lua`: whether a server does what a lease needs. Only commands that may write show a
 * right that its user lacks, a full memory, a missing replica or a failing disk.
 */
export const trialCall: Call = callOf({ verb: 'trial' })

/** A managed server may not have them. */
export const ALLOW_COMMANDS = 'use a server that allows INFO, TIME, SCRIPT LOAD, EVAL and EVALSHA'

/** What to do about what a server says instead of doing it; the first that fits. */
const FIXES: readonly (readonly [RegExp, string])[] = [
  [
    /^NOPERM|^ERR The user executing|can't run this command|can't access/,
    'give its user the rights that deploy/redis/lock-master.acl lists',
  ],
  [/unknown command/, ALLOW_COMMANDS],
  [
    /cluster node|same slot/,
    'use a server without cluster mode: a lease has keys of several slots',
  ],
  [/^NOREPLICAS/, 'set `min-replicas-to-write 0`: a master has no replicas to wait for'],
  [/^OOM/, 'raise its `maxmemory`'],
  [/^MISCONF/, 'read its log and free disk space'],
]

/** Of a server that said so. */
export function refusalBy(message: string): Refusal {
  const [, fix = 'read its log'] = FIXES.find(([said]) => said.test(message)) ?? []
  const [said = ''] = message.split(', with args beginning') // They may be a whole script.
  const problem = `refuses what a lease needs: ${said}`
  return { status: 'refused', problem, fix, fault: 'server' }
}
