/**
 * The lock masters as one body: who may vote, and the delayed restart.
 *
 * On every connect a master is *enrolled* before it may vote. A server process that the fleet has
 * not seen (another run id, or no record) may have forgotten leases, so it grants nothing for as
 * long as the longest lease could last; extending, healing and releasing go on. The record is kept
 * on the master itself, so that all clients agree on whether it may vote again.
 */
import { randomUUID } from 'node:crypto'
import { counted } from '../../counted.ts'
import { batchScript } from '../wire/batch-script.ts'
import { callOf } from '../wire/calls.ts'
import type { ServerFacts } from '../wire/server-facts.ts'
import {
  callMaster,
  describeState,
  type Admission,
  type Master,
  type MasterState,
  type Refusal,
} from '../wire/master.ts'
import type { MasterAnswer, MasterProblem } from '../../errors.ts'
import { keyspace, type Keyspace } from '../keyspace.ts'
import type { Channel, MasterStatus, Question } from '../../channel.ts'
import { noQuorum, quorumOf } from '../quorum.ts'
import { Deadlines, instant, withinMs } from '../../clock.ts'
import { Proposals } from '../attempt.ts'
import { constantsFor, type Settings } from '../settings.ts'
import { outcomeOf, type Vote } from '../verbs.ts'
import type { Poll } from '../poll.ts'
import { bootstrapScript, enrolScript } from './enrol-scripts.ts'
import { ClockWatch } from './clock-watch.ts'
import { MasterLog } from './master-log.ts'
import { Quarantines } from './quarantines.ts'
import { Refusals } from './refusals.ts'
import { silenceOf, type Silence } from './silence.ts'
import { LeaseRegistry } from '../../lock/held-lease.ts'
import { quarantineMs, trustFrom } from '../../lock/trust.ts'

/** Of a client that also knows the fleet before or after a resize. */
export interface ResizePart {
  readonly part: 'before' | 'after'
  /** A quorum has enrolled this client. */
  readonly enrolled?: () => void
}

type EnrolReply =
  | readonly ['enrolled', number, string, string, number]
  | readonly ['mismatch', string, string]
  | readonly ['foreign' | 'resizing' | 'retired']

/** What an operator has closed. */
const CLOSED = {
  resizing: {
    problem: 'is closed for a resize of its fleet',
    fix: 'wait, or run the same `bullmq-redlock resize` again if it was interrupted',
    fault: 'server',
  },
  retired: {
    problem: 'was taken out of its fleet by `bullmq-redlock resize`',
    fix: 'take it out of `masters`',
    fault: 'client',
  },
} as const

export class LockFleet {
  readonly settings: Settings
  readonly keys: Keyspace
  readonly masters: readonly Master[]
  /** Of the masters, `host:port`. */
  readonly names: readonly string[]
  readonly quorum: number
  readonly channel: Channel
  /** Of polls, which are open until every master has answered or run into its deadline. */
  readonly deadlines: Deadlines<Poll>
  readonly clocks: ClockWatch
  readonly leases: LeaseRegistry
  readonly proposals: Proposals
  /** The duration of the last attempt that a quorum answered; retries wait longer than this. */
  attemptMs = 0
  /** Nothing is granted any more. */
  isClosed = false
  /** The state of every master: the same array until one of them changes. */
  states: readonly MasterState[] = []
  readonly #quarantines: Quarantines
  readonly #refusals: Refusals
  /**
   * Which connection a server process votes through; a second one to the same server is refused.
   */
  readonly #voters = new Map<string, Master>()
  readonly #clientId = randomUUID()
  /** Masters that no client had enrolled before this one. */
  readonly #foundedHere = new Set<Master>()
  readonly #masterLog: MasterLog
  readonly #background = new Set<Promise<void>>()
  /** What each master said last: whether this client belongs to its fleet. */
  readonly #knownBy = new Map<Master, boolean>()

  readonly #resize: ResizePart | undefined

  /** @param resize where the client also knows the fleet before or after a resize. */
  constructor(settings: Settings, channel: Channel, resize?: ResizePart) {
    this.settings = settings
    this.#resize = resize
    this.channel = channel
    this.leases = new LeaseRegistry(settings.clock, channel)
    this.proposals = new Proposals(settings.clock, settings.maxClockSkewMs, settings.owner)
    this.keys = keyspace(settings.namespace)
    const limits = {
      connectTimeoutMs: settings.connectTimeoutMs,
      socketTimeoutMs: Math.max(1_000, 4 * settings.masterTimeoutMs),
    }
    const lengthMs = quarantineMs(settings.maxLeaseMs, settings.driftFactor)
    const { leaseMs, driftFactor } = settings
    const trusted = trustFrom({ now: 0, wallNow: 0 }, leaseMs, driftFactor)
    this.quorum = quorumOf(settings.addresses.length)
    this.clocks = new ClockWatch({
      clock: settings.clock,
      driftFactor: settings.driftFactor,
      // A smaller jump is covered by the allowance that every lease makes for drift.
      toleranceMs: Math.max(5, (leaseMs - trusted.until) / 2),
      suspensionMs: lengthMs,
      maxApartMs: settings.maxClockSkewMs,
      quorum: this.quorum,
      jumped: (master, jumpedMs) => {
        channel.tell('master:clock-jump', { master: master.name, jumpedMs })
      },
    })
    const constants = constantsFor(settings, settings.addresses.length)
    const script = batchScript(constants)
    this.deadlines = new Deadlines(settings.clock)
    this.#quarantines = new Quarantines(settings.clock, lengthMs, this.keys.master, () => {
      this.#checkVotes()
    })
    this.#masterLog = new MasterLog(channel, settings.clock)
    if (resize?.part === 'after') this.#masterLog.isSilent = true
    this.#refusals = new Refusals({
      clock: settings.clock,
      timeoutMs: settings.masterTimeoutMs,
      changed: (master) => {
        this.#tell(master)
      },
    })
    this.masters = settings.addresses.map((address, index) =>
      settings.connect({
        index,
        address,
        limits,
        clock: settings.clock,
        script,
        constants,
        admit: (master, facts) => this.#admit(master, facts),
        onState: (master, state) => {
          this.#onState(master, state)
        },
        onTime: this.clocks.observe,
      }),
    )
    this.names = this.masters.map(({ name }) => name)
    this.states = this.masters.map(({ state }) => state)
  }

  /** A master answered, or failed to. */
  voted(master: Master, question: Question, vote: Vote): void {
    if (vote.kind === 'failed' && vote.reason === 'unenrolled') {
      master.reenrol('its enrolment is gone: it restarted or lost its data')
    }
    // rule: refused-question-means-a-trial
    if (vote.kind === 'failed' && vote.reason === 'error') this.#refusals.suspect(master)
    if (this.channel.hears('master:voted')) {
      const outcome = outcomeOf(vote)
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
    return this.masters.map((master): MasterStatus => {
      const { name, state } = master
      const silence = this.#silenceOf(master)
      const isEnrolled = state.status === 'enrolled' && silence?.state !== 'refused'
      return {
        name,
        state: silence?.state ?? 'voting',
        ...(silence !== undefined && { reason: silence.reason }),
        ...(silence !== undefined && 'votesInMs' in silence && { votesInMs: silence.votesInMs }),
        ...(isEnrolled && { clockOffsetMs: Math.round(state.facts.clockOffsetMs) }),
      }
    })
  }

  /** Every master's state in words. */
  answers(): readonly MasterAnswer[] {
    return this.status().map(({ name, state, reason }) => ({
      master: name,
      answer: reason ?? state,
    }))
  }

  /** Why no lease is granted now; undefined where a quorum votes. */
  ungranted(): string | undefined {
    const status = this.status()
    const voting = status.filter(({ state }) => state === 'voting').length
    if (voting >= this.quorum) return undefined
    const others = status.flatMap(({ name, state, reason = state }) =>
      state === 'voting' ? [] : [`${name}: ${reason}`],
    )
    if (status.some(({ state }) => state === 'quarantined')) {
      others.push('If this fleet is new, run `bullmq-redlock bootstrap`')
    }
    return noQuorum(voting, status.length, others)
  }

  /** Refused masters, or only those that this client's settings are to blame for. */
  problems(fault?: Refusal['fault']): readonly MasterProblem[] {
    return this.masters.flatMap((master) => {
      const silence = this.#silenceOf(master)
      if (silence?.state !== 'refused' || (fault ?? silence.fault) !== silence.fault) return []
      return [{ master: master.name, problem: silence.problem, fix: silence.fix }]
    })
  }

  /** From now on it is the client's only fleet, and tells of its masters. */
  begin(): void {
    this.#masterLog.isSilent = false
    for (const master of this.masters) this.#masterLog.entered(master, this.#silenceOf(master))
  }

  /** From now on it tells nothing of its masters. */
  end(): void {
    this.#masterLog.isSilent = true
  }

  /** Round trips measured when the masters were enrolled, shortest first. */
  roundTripsMs(): readonly number[] {
    return this.masters
      .filter((master) => this.#silenceOf(master)?.state !== 'refused')
      .flatMap(({ state }) => (state.status === 'enrolled' ? [state.facts.roundTripMs] : []))
      .sort((a, b) => a - b)
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
    const isQuarantined = this.masters.some((master) => this.#quarantines.leftMs(master) > 0)
    if (!isQuarantined) return []
    return this.masters.flatMap((master) => {
      const { name, state } = master
      if (state.status !== 'enrolled') return [{ master: name, answer: describeState(state) }]
      const answer = 'another client has enrolled it before'
      return this.#foundedHere.has(master) ? [] : [{ master: name, answer }]
    })
  }

  /** Ends the quarantine of every enrolled master; returns their names. */
  async endQuarantine(): Promise<readonly string[]> {
    const ended: string[] = []
    for (const master of this.masters) {
      if (master.state.status !== 'enrolled') continue
      const args = [master.runId, this.settings.maxLeaseMs, this.masters.length]
      await master.eval(bootstrapScript, [this.keys.master], args)
      this.#quarantines.reported(master, '', 0)
      ended.push(master.name)
    }
    return ended
  }

  /** Releases its leases, and waits for the masters at most one `masterTimeoutMs`. */
  async close(): Promise<void> {
    const { clock, masterTimeoutMs } = this.settings
    this.isClosed = true
    await this.leases.close()
    // Quarantined masters hear how long this client has waited for them.
    this.inBackground(this.#quarantines.report())
    await withinMs(clock, masterTimeoutMs, this.#quiet())
    for (const master of this.masters) master.close()
    this.#quarantines.close()
    this.#masterLog.close()
    for (const master of this.masters) this.#refusals.forget(master)
  }

  async #admit(master: Master, facts: ServerFacts): Promise<Admission> {
    const refusal = this.#refusal(master, facts)
    if (refusal !== undefined) return { admitted: false, ...refusal }
    // Claimed before the first await, so that two connections to one server cannot both pass.
    this.#voters.set(facts.runId, master)
    const { settings } = this
    const sentAt = instant(settings.clock)
    const reply = (await master.eval(
      enrolScript,
      [this.keys.master],
      [
        facts.runId,
        settings.maxLeaseMs,
        quarantineMs(settings.maxLeaseMs, settings.driftFactor),
        facts.durable ? 1 : 0,
        settings.addresses.length,
        this.#mayBeFirst(master) ? 1 : 0,
        this.#clientId,
        randomUUID(),
        settings.fenceTtlMs,
      ],
    )) as EnrolReply
    if (reply[0] === 'resizing' || reply[0] === 'retired') {
      this.#knownBy.set(master, false)
      return { admitted: false, ...CLOSED[reply[0]] }
    }
    if (reply[0] !== 'enrolled') {
      if (reply[0] === 'mismatch') this.#knownBy.set(master, false)
      const problem = this.#difference(reply)
      return { admitted: false, problem, fix: this.#howToAgree, fault: 'client' }
    }
    this.#knownBy.set(master, true)
    const [, leftMs, quarantine, founder, serverMs] = reply
    if (founder === this.#clientId) this.#foundedHere.add(master)
    else this.#foundedHere.delete(master)
    this.#quarantines.reported(master, quarantine, leftMs)
    this.clocks.observe(master, serverMs, sentAt)
    return { admitted: true }
  }

  /** What a master says of the fleet, and this client otherwise. */
  #difference([word, name, theirs]: readonly string[]): string {
    const { maxLeaseMs, fenceTtlMs, addresses } = this.settings
    if (word === 'foreign') {
      return this.#resize === undefined
        ? 'has no memory, and other masters refuse this client'
        : 'has no memory, and a client with `previous` founds no fleet'
    }
    const own = { maxLeaseMs, fenceTtlMs }[name ?? '']
    return own !== undefined
      ? `the fleet's \`${name}\` is ${theirs}, this client's is ${own}`
      : `the fleet has ${counted(Number(theirs), 'master')}, this client's \`masters\` are ${addresses.length}`
  }

  /**
   * Only a client that more masters know than refuse may enrol a master without memory: it decides
   * for all.
   */
  #mayBeFirst(master: Master): boolean {
    const others = [...this.#knownBy].filter(([other]) => other !== master)
    const knowing = others.filter(([, isKnown]) => isKnown).length
    // rule: follower-founds-no-fleet
    if (this.#resize !== undefined) return knowing >= this.quorum
    const refusals = others.filter(([, isKnown]) => !isKnown).length
    return refusals === 0 || refusals < others.length - refusals
  }

  get #howToAgree(): string {
    return (
      'give every client the same, or another `namespace` where they lock other things; ' +
      'to change it for the fleet, run `bullmq-redlock resize`'
    )
  }

  #refusal(master: Master, facts: ServerFacts): Refusal | undefined {
    const duplicate = this.#voters.get(facts.runId)
    // rule: masters-are-distinct
    if (duplicate !== undefined && duplicate !== master) {
      return {
        problem: `is the same server as ${duplicate.name}`,
        fix: 'list distinct servers in `masters`: two addresses of one server would count as two votes',
        fault: 'client',
      }
    }
    const unfit = unfitFor(facts)
    return unfit && { ...unfit, fault: 'server' }
  }

  #onState(master: Master, state: MasterState): void {
    this.states = this.masters.map((one) => one.state)
    this.#refusals.forget(master)
    if (state.status !== 'enrolled') {
      for (const [runId, voter] of this.#voters) {
        if (voter === master) this.#voters.delete(runId)
      }
    }
    if (state.status === 'enrolled') this.#reportSkew(master.name, state.facts.clockOffsetMs)
    const enrolled = this.states.filter(({ status }) => status === 'enrolled').length
    if (enrolled >= this.quorum) this.#resize?.enrolled?.()
    this.#tell(master)
  }

  #silenceOf(master: Master): Silence | undefined {
    const [refusals, quarantines] = [this.#refusals, this.#quarantines]
    return silenceOf(master, { refusals, quarantines, clocks: this.clocks })
  }

  /** Why it does not vote may be something else now. */
  #tell(master: Master): void {
    this.#masterLog.entered(master, this.#silenceOf(master))
    this.#checkVotes()
  }

  #checkVotes(): void {
    const { masters } = this
    if (masters.some((master) => this.#silenceOf(master) !== undefined)) return
    this.#masterLog.allVote(masters.length)
  }

  #reportSkew(master: string, offsetMs: number): void {
    const { maxClockSkewMs } = this.settings
    if (Math.abs(offsetMs) <= maxClockSkewMs) return
    const clockOffsetMs = Math.round(offsetMs)
    this.channel.tell('master:clock-skew', { master, clockOffsetMs })
  }
}

/** Why such a server must not vote, and what to do. Pure. */
function unfitFor(facts: ServerFacts): Omit<Refusal, 'fault'> | undefined {
  const { runId, version, role, maxmemoryPolicy } = facts
  if (runId === '') {
    return { problem: 'does not report its run_id', fix: 'give this user the right to INFO' }
  }
  if (Number.parseInt(version, 10) < 7) {
    return { problem: `runs version ${version}`, fix: 'use Redis >= 7.0 or Valkey' }
  }
  if (role !== 'master') {
    const problem = `is a ${role === 'slave' ? 'replica' : role}`
    return { problem, fix: 'list only independent masters in `masters`' }
  }
  if (maxmemoryPolicy !== 'noeviction') {
    const problem = `may evict leases (maxmemory-policy is ${maxmemoryPolicy})`
    return { problem, fix: 'set `maxmemory-policy noeviction`' }
  }
  return undefined
}
