/**
 * The record of leases in the log: granted, extended, and how each ended. `bullmq-redlock verify`
 * judges it. Each line has the clocks of its process, and a number that shows whether lines are
 * missing. All its events have one level, so they are all heard, or none is.
 */
import { randomUUID } from 'node:crypto'
import { machineId, machineOffsetMs, type Clock } from '../clock.ts'
import type { EventLog } from '../event-log.ts'

/** A lease as the log shows it. Its token is secret. */
export interface LoggedLease {
  readonly resource: string
  readonly resources: readonly string[]
  readonly fencingToken: number
  remainingMs(): number
}

export interface LeaseLogOptions {
  readonly log: EventLog
  readonly clock: Clock
  readonly namespace: string
  readonly owner: string
}

export class LeaseLog {
  readonly #options: LeaseLogOptions
  /** Names this instance in the log. */
  readonly #lock = randomUUID()
  readonly #numbers = new WeakMap<LoggedLease, number>()
  #leases = 0
  #lines = 0

  constructor(options: LeaseLogOptions) {
    this.#options = options
  }

  /** `slots`: how many holders its resource may have at once. */
  granted(lease: LoggedLease, slots: number): void {
    const { log, namespace, owner } = this.#options
    const { resources } = lease
    const about = { namespace, owner, slots, machine: machineId() }
    const several = resources.length > 1 ? { resources } : {}
    log.event('lease:granted', this.#line(lease), about, several, this.#trust(lease))
  }

  /** It is trusted for longer. */
  extended(lease: LoggedLease): void {
    this.#options.log.event('lease:extended', this.#line(lease), this.#trust(lease))
  }

  /** Its holder stops, before the masters hear of it. */
  released(lease: LoggedLease): void {
    this.#options.log.event('lease:released', this.#line(lease))
  }

  /** The next piece of work continues it under its own fencing token. */
  handedOver(lease: LoggedLease): void {
    this.#options.log.event('lease:handed-over', this.#line(lease))
  }

  lost(lease: LoggedLease, reason: string): void {
    this.#options.log.event('lease:lost', this.#line(lease), { reason })
  }

  #line(lease: LoggedLease) {
    const { clock } = this.#options
    const { resource, fencingToken } = lease
    return {
      ...{ resource, fencingToken, lock: this.#lock, lease: this.#numberOf(lease) },
      seq: ++this.#lines,
      monotonicMs: rounded(clock.now() + machineOffsetMs()),
      wallMs: rounded(clock.wallNow()),
    }
  }

  /** Read after the clocks of the line, so that the end of trust is never later than it was. */
  #trust(lease: LoggedLease) {
    return { trustedForMs: rounded(lease.remainingMs()) }
  }

  #numberOf(lease: LoggedLease): number {
    const number = this.#numbers.get(lease) ?? ++this.#leases
    this.#numbers.set(lease, number)
    return number
  }
}

/** To the microsecond. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
