/** The lock masters as one body: what they are asked, and who of them votes. */
import { randomUUID } from 'node:crypto'
import type { Channel } from '../../channel.ts'
import type { MasterStatus, Question } from '../../facts.ts'
import { Deadlines, withinMs, type Timer } from '../../clock.ts'
import { LeaseRegistry } from '../../lock/lease-registry.ts'
import { slotNames } from '../../lock/slots.ts'
import { quarantineMs } from '../../lock/trust.ts'
import type { Announcements } from '../announcements.ts'
import { Proposals } from '../attempt.ts'
import { keyspace, type Keyspace } from '../keyspace.ts'
import type { Poll } from '../poll.ts'
import { quorumOf } from '../quorum.ts'
import type { Settings } from '../settings.ts'
import type { Vote } from '../verbs.ts'
import { batchScript } from '../wire/batch-script.ts'
import { callOf } from '../wire/calls.ts'
import { callMaster, type Master, type MasterState } from '../wire/master.ts'
import { ClockWatch } from './clock-watch.ts'
import { MasterLog } from './master-log.ts'
import { Voter } from './voter.ts'

/** An alarm waits longer, and each look costs a master as much as an extension. */
export const LOOK_MS = 5_000

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
  /** Once a call has waited. */
  announcements: Announcements | undefined
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
  /** Its client also knows the fleet before or after a resize. */
  readonly isOneOfTwo: boolean
  readonly #enrolled: (() => void) | undefined
  readonly #log: MasterLog
  readonly #background = new Set<Promise<void>>()
  #nextLook: Timer | undefined

  /** @param enrolled of a fleet not yet in use: called when a quorum has enrolled this client. */
  constructor(settings: Settings, channel: Channel, isOneOfTwo: boolean, enrolled?: () => void) {
    const { clock, addresses, maxLeaseMs, driftFactor } = settings
    this.settings = settings
    this.channel = channel
    this.isOneOfTwo = isOneOfTwo
    this.#enrolled = enrolled
    this.keys = keyspace(settings.namespace)
    this.quorum = quorumOf(addresses.length)
    this.quarantineMs = quarantineMs(maxLeaseMs, driftFactor)
    this.clocks = new ClockWatch(this)
    this.deadlines = new Deadlines(clock)
    this.leases = new LeaseRegistry(clock, channel)
    this.proposals = new Proposals(clock, settings.maxClockSkewMs, settings.owner)
    this.#log = new MasterLog(channel, clock)
    this.#log.isSilent = enrolled !== undefined
    const script = batchScript({ ...settings, fleetSize: addresses.length })
    this.voters = addresses.map((address, index) => new Voter(this, index, address, script))
    this.masters = this.voters.map(({ master }) => master)
    this.names = this.masters.map(({ name }) => name)
    this.states = this.masters.map(({ state }) => state)
    this.#lookLater()
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
    const call = callOf({ verb: 'release', resources, waiter })
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

  /** Only a fleet that is in use tells of its masters. */
  set isInUse(isInUse: boolean) {
    this.#log.isSilent = !isInUse
    for (const voter of this.voters) this.#log.entered(voter)
  }

  /** Releases its leases, and waits for the masters at most one `masterTimeoutMs`. */
  async close(): Promise<void> {
    const { clock, masterTimeoutMs } = this.settings
    // The first request of a waiter, which takes a place, may be under way.
    for (const { attempt } of this.deadlines.members()) {
      const { names, terms, waiter } = attempt.demand
      const all = names.flatMap((name) => slotNames(name, terms.slots))
      // rule: place-that-is-asked-for-ends-with-its-client
      if (waiter !== '') this.withdraw(all, waiter)
    }
    this.announcements?.close()
    await this.leases.close()
    // Quarantined masters hear how long this client has waited for them.
    for (const voter of this.voters) this.inBackground(voter.report().catch(() => undefined))
    await withinMs(clock, masterTimeoutMs, this.#quiet())
    this.#nextLook?.cancel()
    for (const master of this.masters) master.close()
    this.#log.close()
  }

  /** A master has entered another state. */
  entered(voter: Voter): void {
    this.states = this.masters.map(({ state }) => state)
    const enrolled = this.states.filter(({ status }) => status === 'enrolled').length
    if (enrolled >= this.quorum) this.#enrolled?.()
    this.tell(voter)
  }

  /** Why it does not vote may be something else now. */
  tell(voter: Voter): void {
    this.#log.entered(voter)
    this.checkVotes()
  }

  /** An idle client asks nothing, so it would not notice what becomes of the masters. */
  #lookLater(): void {
    this.#nextLook = this.settings.clock.after(LOOK_MS, () => {
      // rule: idle-client-looks-at-its-masters
      for (const voter of this.voters) voter.look()
      this.#lookLater()
    })
    this.#nextLook.unref?.() // It is no reason to keep a process alive.
  }

  checkVotes(): void {
    if (this.voters.some(({ silence }) => silence !== undefined)) return
    this.#log.allVote(this.voters.length)
  }
}
