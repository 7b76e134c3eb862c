/**
 * One master, as one client knows it: why it does not vote, and until when where that is known.
 *
 * The delayed restart: a master stores what is left of its quarantine and cannot count it down,
 * because its wall clock may be set. Clients do, on their monotonic clocks, and tell it: now and
 * then, at the end, and before they close. So a quarantine also ends where no client lives as long.
 *
 * A master that answers and refuses what a lease needs is asked like all others, so one that is
 * right again counts with its next answer. After an error, and now and then, a trial says whether
 * it refuses every lease, and the next ones when that is over. This is only what is told of it.
 */
import type { MasterStatus } from '../../facts.ts'
import type { Timer } from '../../clock.ts'
import { defineScript, luaText, type Script } from '../../lua.ts'
import type { MasterAddress } from '../wire/connection-settings.ts'
import { callMaster, describeState, type Master } from '../wire/master.ts'
import type { MasterState, Refusal } from '../wire/master.ts'
import { refusalBy, trialCall } from '../wire/enrolment.ts'
import { admit, knowsUsNow } from './admission.ts'
import type { LockFleet } from './fleet.ts'

export const waitedScript: Script = defineScript('waited', luaText('redlock/lua/waited'))

/** How often a client tells the master, as a fraction of a whole quarantine. */
const REPORTS = 4
/** Between two trials of a master that refuses. */
const TRIAL_MS = 1_000

/** Why a master does not vote now; `reason` is for people, with what to do. */
export type Silence = { readonly reason: string } & (
  | Exclude<MasterState, { readonly status: 'enrolled' }>
  | { readonly status: 'suspended' | 'quarantined'; readonly votesInMs: number }
)

export class Voter {
  readonly master: Master
  /** The server processes that it votes for; a second connection to one of them is refused. */
  readonly claims: Set<string> = new Set()
  /** What it said last: whether this client belongs to its fleet. */
  knowsUs: boolean | undefined
  /** No client had enrolled it before this one. */
  isFoundedHere = false
  readonly #fleet: LockFleet
  /** `name` is another one after every loss of memory; `until` is on `Clock.now()`. */
  #quarantine: { readonly name: string; readonly until: number } | undefined
  readonly #reportMs: number
  #nextReport: Timer | undefined
  /** By a trial. */
  #refusal: Refusal | undefined
  #trial: { next: Timer | undefined } | undefined

  constructor(fleet: LockFleet, index: number, address: MasterAddress, script: Script) {
    const { clock, connectTimeoutMs, masterTimeoutMs, connect } = fleet.settings
    this.#fleet = fleet
    this.#reportMs = fleet.quarantineMs / REPORTS
    this.master = connect({
      ...{ index, address, clock, script, onTime: fleet.clocks.observe },
      limits: { connectTimeoutMs, socketTimeoutMs: Math.max(1_000, 4 * masterTimeoutMs) },
      admit: (facts) => admit(fleet, this, facts),
      onState: this.#entered.bind(this),
    })
  }

  /** The first reason; undefined where it votes. */
  get silence(): Silence | undefined {
    const { clocks } = this.#fleet
    const state = this.#refusal ?? this.master.state
    if (state.status !== 'enrolled') return { ...state, reason: describeState(state) }
    const suspendedMs = clocks.suspendedMs(this.master)
    const isOutOfLine = clocks.isOutOfLine(this.master)
    if (suspendedMs > 0 && (clocks.areCompared || !isOutOfLine)) {
      const reason = isOutOfLine
        ? 'its clock is far from those of the other masters: check NTP'
        : `its clock jumped; not counted for another ${suspendedMs} ms: check NTP`
      return { status: 'suspended', reason, votesInMs: suspendedMs }
    }
    const votesInMs = this.quarantineLeftMs
    if (votesInMs === 0) return undefined
    const reason = `new or restarted: grants nothing for another ${votesInMs} ms`
    return { status: 'quarantined', reason, votesInMs }
  }

  get status(): MasterStatus {
    const { silence } = this
    const { name, state } = this.master
    const isEnrolled = state.status === 'enrolled' && silence?.status !== 'refused'
    return {
      name,
      state: silence?.status ?? 'voting',
      ...(silence !== undefined && { reason: silence.reason }),
      ...(silence !== undefined && 'votesInMs' in silence && { votesInMs: silence.votesInMs }),
      ...(isEnrolled && { clockOffsetMs: Math.round(state.facts.clockOffsetMs) }),
    }
  }

  get quarantineLeftMs(): number {
    if (this.#quarantine === undefined) return 0
    // rule: quarantine-on-a-monotonic-clock
    return Math.max(0, Math.ceil(this.#quarantine.until - this.#fleet.settings.clock.now()))
  }

  /** What the master just said; `leftMs` is 0 where no quarantine is on. */
  quarantined(name: string, leftMs: number): void {
    const known = this.#quarantine
    this.#endQuarantine()
    if (leftMs <= 0 && known !== undefined) this.#fleet.checkVotes()
    if (leftMs <= 0 || this.master.state.status === 'closed') return
    const reportedUntil = this.#fleet.settings.clock.now() + leftMs
    const until = known?.name === name ? Math.min(known.until, reportedUntil) : reportedUntil
    this.#quarantine = { name, until }
    this.#reportIn(Math.min(this.#reportMs, this.quarantineLeftMs))
  }

  /**
   * Tells the master what is left by what was counted until now, or by an operator: 0 ends the
   * quarantine for every client.
   */
  async report(countedMs: number = this.quarantineLeftMs): Promise<void> {
    const quarantine = this.#quarantine
    if (quarantine === undefined) return
    // Before it asks: a report that is never answered is not the last one.
    this.#reportIn(this.#reportMs)
    const [key, args] = [this.#fleet.keys.master, [quarantine.name, countedMs]]
    const leftMs = await this.master.eval(waitedScript, [key], args)
    if (this.#quarantine === quarantine) this.quarantined(quarantine.name, leftMs as number)
  }

  /** What a busy client notices: silence, a refusal, lost data, or a clock that was set. */
  look(): void {
    void knowsUsNow(this.#fleet, this.master)
    this.suspect()
  }

  /** It may refuse every lease: a trial says so. */
  suspect(): void {
    if (this.#trial === undefined) void this.#try()
  }

  async #try(): Promise<void> {
    const { clock, masterTimeoutMs } = this.#fleet.settings
    const trial: { next: Timer | undefined } = { next: undefined }
    this.#trial = trial
    const result = await callMaster(this.master, clock, trialCall, masterTimeoutMs)
    // Its state has changed, which says anew what it is.
    if (this.#trial !== trial) return
    const known = this.#refusal
    if (result.kind === 'replied') this.#refusal = undefined
    else if (result.reason === 'error') this.#refusal = refusalBy(result.detail)
    if (this.#refusal === undefined) this.#trial = undefined
    else trial.next = clock.after(TRIAL_MS, () => void this.#try())
    if ((this.#refusal ?? known) !== undefined) this.#fleet.tell(this)
  }

  #entered(state: MasterState): void {
    this.#trial?.next?.cancel()
    this.#trial = undefined
    this.#refusal = undefined
    if (state.status === 'closed') this.#endQuarantine()
    if (state.status !== 'enrolled') this.claims.clear()
    else this.#tellSkew(state.facts.clockOffsetMs)
    this.#fleet.entered(this)
  }

  #tellSkew(offsetMs: number): void {
    const { settings, channel } = this.#fleet
    if (Math.abs(offsetMs) <= settings.maxClockSkewMs) return
    const clockOffsetMs = Math.round(offsetMs)
    channel.tell('master:clock-skew', { master: this.master.name, clockOffsetMs })
  }

  #endQuarantine(): void {
    this.#quarantine = undefined
    this.#nextReport?.cancel()
  }

  #reportIn(delayMs: number): void {
    this.#nextReport?.cancel()
    this.#nextReport = this.#fleet.settings.clock.after(delayMs, () => {
      this.report().catch(() => undefined)
    })
  }
}
