/** The lock masters as one body: what they are asked, and who of them votes. */
import { randomUUID } from 'node:crypto'
import type { Channel } from '../../channel.ts'
import type { MasterStatus, Question } from '../../facts.ts'
import { Deadlines, withinMs } from '../../clock.ts'
import type { MasterAnswer, MasterProblem } from '../../lock-errors.ts'
import { LeaseRegistry } from '../../lock/held-lease.ts'
import { quarantineMs } from '../../lock/trust.ts'
import { Announcements } from '../announcements.ts'
import { Proposals } from '../attempt.ts'
import { keyspace, type Keyspace } from '../keyspace.ts'
import type { Poll } from '../poll.ts'
import { noQuorum, quorumOf } from '../quorum.ts'
import type { Settings } from '../settings.ts'
import type { Vote } from '../verbs.ts'
import { batchScript } from '../wire/batch-script.ts'
import { callOf } from '../wire/calls.ts'
import { callMaster, describeState, type Master } from '../wire/master.ts'
import type { MasterState, Refusal } from '../wire/master.ts'
import { ClockWatch } from './clock-watch.ts'
import { MasterLog } from './master-log.ts'
import { Voter } from './voter.ts'

/** Of a client that also knows the fleet before or after a resize. */
export interface ResizePart {
  readonly part: 'before' | 'after'
  /** A quorum has enrolled this client. */
  readonly enrolled?: () => void
}

export class LockFleet {
  readonly settings: Settings
  readonly keys: Keyspace
  readonly voters: readonly Voter[]
  readonly masters: readonly Master[]
  /** Of the masters, `host:port`. */
  readonly names: readonly string[]
  readonly quorum: number
  readonly channel: Channel
  /** Of polls, which are open until every master has answered or run into its deadline. */
  readonly deadlines: Deadlines<Poll>
  readonly clocks: ClockWatch
  readonly leases: LeaseRegistry
  readonly announcements: Announcements = new Announcements(this)
  readonly proposals: Proposals
  /** The duration of the last attempt that a quorum answered; retries wait longer than this. */
  attemptMs = 0
  /** Its Redlock is closed: nothing is granted any more. */
  isClosed = false
  /** The state of every master: the same array until one of them changes. */
  states: readonly MasterState[] = []
  readonly clientId: string = randomUUID()
  /** How long a master that lost its memory grants nothing. */
  readonly quarantineMs: number
  readonly resize: ResizePart | undefined
  readonly #log: MasterLog
  readonly #background = new Set<Promise<void>>()

  /** @param resize where the client also knows the fleet before or after a resize. */
  constructor(settings: Settings, channel: Channel, resize?: ResizePart) {
    const { clock, addresses, maxLeaseMs, driftFactor } = settings
    this.settings = settings
    this.channel = channel
    this.resize = resize
    this.keys = keyspace(settings.namespace)
    this.quorum = quorumOf(addresses.length)
    this.quarantineMs = quarantineMs(maxLeaseMs, driftFactor)
    this.clocks = new ClockWatch(this)
    this.deadlines = new Deadlines(clock)
    this.leases = new LeaseRegistry(clock, channel)
    this.proposals = new Proposals(clock, settings.maxClockSkewMs, settings.owner)
    this.#log = new MasterLog(channel, clock, ({ index }) => this.voters[index]?.silence)
    this.#log.isSilent = resize?.part === 'after'
    const script = batchScript({ ...settings, fleetSize: addresses.length })
    this.voters = addresses.map((address, index) => new Voter(this, index, address, script))
    this.masters = this.voters.map(({ master }) => master)
    this.names = this.masters.map(({ name }) => name)
    this.states = this.masters.map(({ state }) => state)
  }

  /** A master answered, or failed to. */
  voted(master: Master, question: Question, vote: Vote): void {
    if (vote.kind === 'failed' && vote.reason === 'unenrolled') {
      master.enrolment.reenrol('its enrolment is gone: it restarted or lost its data')
    }
    // rule: refused-question-means-a-trial
    if (vote.kind === 'failed' && vote.reason === 'error') this.voters[master.index]?.suspect()
    if (this.channel.hears('master:voted')) {
      const outcome = vote.kind === 'failed' ? vote.reason : vote.kind
      this.channel.tell('master:voted', { master: master.name, question, outcome })
    }
  }

  /** A waiter that stops leaves its places; where a master does not hear it, its place expires. */
  withdraw(resources: readonly string[], waiter: string): void {
    const call = callOf({ verb: 'withdraw', resources, waiter })
    const { clock, masterTimeoutMs } = this.settings
    for (const master of this.masters) {
      this.inBackground(callMaster(master, clock, call, masterTimeoutMs).then(() => undefined))
    }
  }

  /** What `close` waits for. */
  readonly inBackground = (work: Promise<void>): void => {
    this.#background.add(work)
    void work.finally(() => this.#background.delete(work))
  }

  /** When no poll is open and the background work of this moment is done. */
  async #quiet(): Promise<void> {
    for (let polls; (polls = this.deadlines.members()).length > 0;) {
      await Promise.all(polls.map(({ complete }) => complete))
    }
    await Promise.all(this.#background)
  }

  status(): readonly MasterStatus[] {
    return this.voters.map(({ status }) => status)
  }

  /** Every master's state in words. */
  answers(): readonly MasterAnswer[] {
    return this.status().map((one) => ({ master: one.name, answer: one.reason ?? one.state }))
  }

  /** Why no lease is granted now; undefined where a quorum votes. */
  ungranted(): string | undefined {
    const silent = this.status().filter(({ state }) => state !== 'voting')
    const voting = this.masters.length - silent.length
    if (voting >= this.quorum) return undefined
    const others = silent.map(({ name, state, reason = state }) => `${name}: ${reason}`)
    if (silent.some(({ state }) => state === 'quarantined')) {
      others.push('If this fleet is new, run `bullmq-redlock bootstrap`')
    }
    return noQuorum(voting, this.masters.length, others)
  }

  /** Refused masters, or only those that this client's settings are to blame for. */
  problems(fault?: Refusal['fault']): readonly MasterProblem[] {
    return this.voters.flatMap(({ master, silence }) => {
      if (silence?.status !== 'refused' || (fault ?? silence.fault) !== silence.fault) return []
      return [{ master: master.name, problem: silence.problem, fix: silence.fix }]
    })
  }

  /** Only a fleet that is in use tells of its masters. */
  set isInUse(isInUse: boolean) {
    this.#log.isSilent = !isInUse
    for (const { master, silence } of this.voters) this.#log.entered(master, silence)
  }

  /** Round trips measured when the masters were enrolled, shortest first. */
  roundTripsMs(): readonly number[] {
    const usable = this.voters.filter(({ silence }) => silence?.status !== 'refused')
    const states = usable.map(({ master }) => master.state)
    const trips = states.flatMap((state) => ('facts' in state ? [state.facts.roundTripMs] : []))
    return trips.sort((a, b) => a - b)
  }

  /**
   * How far this client's clock is ahead, where enrolled masters refuse it for that and the others
   * are no quorum.
   */
  refusedAheadMs(): number | undefined {
    const enrolled = this.masters.filter(({ state }) => state.status === 'enrolled')
    const ahead = enrolled.map((master) => this.clocks.aheadMs(master) ?? 0).sort((a, b) => b - a)
    const refusing = ahead.filter((ms) => ms > this.settings.maxClockSkewMs).length
    // rule: clock-ahead-is-not-ready
    return enrolled.length - refusing < this.quorum ? ahead[refusing - 1] : undefined
  }

  /** The first lease key found on any connected master. */
  async findLease(): Promise<{ readonly master: string; readonly key: string } | undefined> {
    for (const master of this.masters) {
      if (master.state.status !== 'enrolled') continue
      const key = await master.findKey(this.keys.leasePattern)
      if (key !== undefined) return { master: master.name, key }
    }
    return undefined
  }

  /**
   * Why this fleet is not new, one line for each master that says so: this client was not the first
   * to enrol it, or it cannot be asked. Empty also where no master is quarantined.
   */
  signsOfUse(): readonly MasterAnswer[] {
    if (this.voters.every(({ quarantineLeftMs }) => quarantineLeftMs === 0)) return []
    return this.voters.flatMap(({ isFoundedHere, master: { name, state } }) => {
      if (state.status !== 'enrolled') return [{ master: name, answer: describeState(state) }]
      const answer = 'another client has enrolled it before'
      return isFoundedHere ? [] : [{ master: name, answer }]
    })
  }

  /** Ends the quarantine of every enrolled master; returns their names. */
  async endQuarantine(): Promise<readonly string[]> {
    const ended: string[] = []
    for (const voter of this.voters) {
      if (voter.master.state.status !== 'enrolled') continue
      await voter.bootstrap()
      ended.push(voter.master.name)
    }
    return ended
  }

  /** Releases its leases, and waits for the masters at most one `masterTimeoutMs`. */
  async close(): Promise<void> {
    const { clock, masterTimeoutMs } = this.settings
    await this.leases.close()
    // Quarantined masters hear how long this client has waited for them.
    for (const voter of this.voters) this.inBackground(voter.report())
    await withinMs(clock, masterTimeoutMs, this.#quiet())
    for (const master of this.masters) master.close()
    this.#log.close()
  }

  /** A master has entered another state. */
  entered(voter: Voter): void {
    this.states = this.masters.map(({ state }) => state)
    const enrolled = this.states.filter(({ status }) => status === 'enrolled').length
    if (enrolled >= this.quorum) this.resize?.enrolled?.()
    this.tell(voter)
  }

  /** Why it does not vote may be something else now. */
  tell({ master, silence }: Voter): void {
    this.#log.entered(master, silence)
    this.checkVotes()
  }

  checkVotes(): void {
    if (this.voters.some(({ silence }) => silence !== undefined)) return
    this.#log.allVote(this.voters.length)
  }
}
