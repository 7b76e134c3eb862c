/**
 * The life of a lease, whatever server granted it.
 *
 *   held ──extend() answered inside the old trust──▶ held, for longer
 *    ├─ release() ───────────────────────────────▶ released
 *    ├─ endInFavour() ───────────────────────────▶ released; its successor has the resources
 *    ├─ its timer finds the trust over ───────────▶ lost, `signal` aborts
 *    ├─ the server no longer has it ──────────────▶ lost, `signal` aborts
 *    └─ its lock service closes ──────────────────▶ lost, `signal` aborts; then released
 *
 * Nothing leads back to held: another client may have held the resource since. The timer looks at
 * both clocks and needs no network, so it also ends the trust when all servers are gone.
 */
import type { LeaseEnd, LossReason } from '../facts.ts'
import { Expiring, instant, leave, type Instant } from '../clock.ts'
import { LeaseLostError, RedlockClosedError, type MasterAnswer } from '../lock-errors.ts'
import type { LeaseTerms } from './lease-options.ts'
import type { Slots } from '../slots.ts'
import type { ExtendOutcome, Lease } from './lease.ts'
import type { LeaseRegistry } from './lease-registry.ts'
import { labelOf } from '../names.ts'
import { firstRenewalMs, longer, remainingMs, RENEWED_AT, retryAfterMs } from './trust.ts'
import type { Trust } from './trust.ts'

/** What a server answered to an extension. */
export type Renewed =
  | { readonly status: 'extended'; readonly trust: Trust }
  | { readonly status: 'gone'; readonly reason: string; readonly answers: readonly MasterAnswer[] }
  | { readonly status: 'unreachable'; readonly answers: readonly MasterAnswer[] }

/** How often a lease's timer checks both clocks, as a fraction of the lease. */
const CHECKS_PER_LEASE = 3
/** Renewals are due at so few moments of a lease that those of all leases share timers. */
const RENEWALS_PER_LEASE = 30

/** What a server granted. */
export interface Grant {
  /** Sorted, without repetitions. */
  readonly resources: readonly string[]
  readonly token: string
  readonly fencingToken: number
  readonly terms: LeaseTerms
  /** Before the first command left. */
  readonly start: Instant
  readonly trust: Trust
}

export abstract class HeldLease extends Expiring implements Lease {
  readonly resources: readonly string[]
  readonly fencingToken: number
  readonly leaseMs: number
  readonly #registry: LeaseRegistry
  readonly #grant: Grant
  protected trust: Trust
  /** On the monotonic clock. */
  #renewAt = Infinity
  /** Made when the signal is first read; most leases are over before. */
  #abort: AbortController | undefined
  #loss: LeaseLostError | undefined
  #extensions = 0
  #extending: Promise<ExtendOutcome> | undefined
  #released: Promise<void> | undefined
  #isOver = false
  #limitReached: 'maxHoldMs' | 'maxExtensions' | undefined

  protected constructor(registry: LeaseRegistry, grant: Grant) {
    super()
    this.#registry = registry
    this.#grant = grant
    this.resources = grant.resources
    this.fencingToken = grant.fencingToken
    this.trust = grant.trust
    const { leaseMs, slots, autoExtend } = grant.terms
    this.leaseMs = leaseMs
    const { channel } = registry
    if (channel.hears('lease:granted')) channel.tell('lease:granted', { lease: this, slots })
    const leftMs = remainingMs(grant.trust, instant(registry.clock))
    if (autoExtend) this.#renewIn(firstRenewalMs(leaseMs, leftMs))
    this.#checkIn(leftMs)
  }

  /** Extends it at the server. Never rejects. */
  protected abstract renew(startedAt: Instant, leftMs: number): Promise<Renewed>
  /** Releases it at the server, whatever became of it. Never rejects. */
  protected abstract free(): Promise<void>
  /** After a loss was reported. */
  protected lost(): void {}

  get resource(): string {
    return labelOf(this.resources)
  }

  get token(): string {
    return this.#grant.token
  }

  get slots(): Slots {
    return this.#grant.terms.slots
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#loss !== undefined) this.#abort.abort(this.#loss)
    }
    return this.#abort.signal
  }

  get trustedUntil(): number {
    return this.trust.until
  }

  remainingMs(): number {
    if (this.#released !== undefined || this.#loss !== undefined) return 0
    return remainingMs(this.trust, instant(this.#registry.clock))
  }

  assertHeld(): void {
    if (this.remainingMs() > 0) return
    if (this.#released === undefined) throw this.#lapse()
    throw new LeaseLostError(this.resource, this.fencingToken, 'it was released')
  }

  async extend(): Promise<ExtendOutcome> {
    this.assertHeld()
    return (this.#extending ??= this.#extend().finally(() => (this.#extending = undefined)))
  }

  release(): Promise<void> {
    if (this.#released !== undefined) return this.#released
    const { clock, channel } = this.#registry
    const startedAt = clock.now()
    this.#end('released', undefined)
    this.#released = this.free()
    if (channel.hears('lease:freed')) {
      this.#released = this.#released.then(() => {
        channel.tell('lease:freed', { lease: this, tookMs: clock.now() - startedAt })
      })
    }
    return this.#released
  }

  /** Its lock service closes: work must stop before another client may be granted. */
  close(): Promise<void> {
    if (this.remainingMs() > 0) {
      this.#lose('its lock service was closed while it was held', 'closed')
    }
    return this.release()
  }

  /**
   * Ends the lease here without telling the server: its successor has the same keys there.
   * @throws LeaseLostError when it is over.
   */
  protected endInFavour(): void {
    this.assertHeld()
    // rule: old-holder-stops-before-it-hands-over
    this.#end('handed-over', undefined)
    this.#released = Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  /** For logs: without the leases beside it, and without its token. */
  toJSON(): Partial<Lease> {
    const { resources, fencingToken, leaseMs, trustedUntil } = this
    return { resources, fencingToken, leaseMs, trustedUntil }
  }

  /** Looks at the clocks: its timer is over. */
  expire(): void {
    if (this.#isOver) return
    const leftMs = this.remainingMs()
    if (leftMs <= 0) {
      this.#lapse()
      return
    }
    if (this.#registry.clock.now() >= this.#renewAt) this.#renew()
    this.#checkIn(leftMs)
  }

  /**
   * Keeps it alive. Each renewal is scheduled by the one before it, so that two never overlap. This
   * ends by itself when the lease is over or may not be extended any more.
   */
  #renew(): void {
    this.#renewAt = Infinity
    const { leaseMs } = this
    this.extend().then(
      ({ status, remainingMs: leftMs }) => {
        if (status === 'extended') this.#renewIn(leaseMs * RENEWED_AT)
        if (status === 'unreachable') this.#renewIn(retryAfterMs(leaseMs, leftMs))
        if (!this.#isOver) this.#checkIn(this.remainingMs())
      },
      () => undefined, // It is over: its signal and `assertHeld` say so to who works under it.
    )
  }

  #renewIn(delayMs: number): void {
    const step = this.leaseMs / RENEWALS_PER_LEASE
    const steps = Math.floor(delayMs / step + 0.01)
    this.#renewAt = this.#registry.clock.now() + (steps > 0 ? steps * step : delayMs)
  }

  async #extend(): Promise<ExtendOutcome> {
    const { clock, channel } = this.#registry
    const startedAt = instant(clock)
    let outcome: ExtendOutcome | undefined
    try {
      const option = this.#limit()
      if (option !== undefined) {
        this.#limitReached = option
        return (outcome = { status: 'limit', remainingMs: this.remainingMs(), option })
      }
      const answer = await this.renew(startedAt, remainingMs(this.trust, startedAt))
      // rule: reply-inside-the-old-trust
      this.assertHeld() // An answer counts only inside the old trust.
      if (answer.status === 'gone') throw this.#lose(answer.reason, 'majority-gone', answer.answers)
      if (answer.status === 'unreachable') {
        const { answers } = answer
        return (outcome = { status: 'unreachable', remainingMs: this.remainingMs(), answers })
      }
      // rule: only-a-confirmed-extension-counts
      this.#extensions++
      this.trust = longer(this.trust, answer.trust)
      this.assertHeld()
      return (outcome = { status: 'extended', remainingMs: this.remainingMs() })
    } finally {
      // At once: the lease may end in the same turn.
      const told = { lease: this, outcome: outcome?.status ?? 'lost' } as const
      channel.tell('lease:extended', { ...told, tookMs: clock.now() - startedAt.now })
    }
  }

  #limit(): 'maxHoldMs' | 'maxExtensions' | undefined {
    const heldMs = this.#registry.clock.now() - this.#grant.start.now
    if (heldMs + this.leaseMs > this.#grant.terms.maxHoldMs) return 'maxHoldMs'
    return this.#extensions >= this.#grant.terms.maxExtensions ? 'maxExtensions' : undefined
  }

  /** Both clocks, until the lease is over; an extension only moves the next check. */
  #checkIn(leftMs: number): void {
    // rule: timer-checks-both-clocks
    const checkMs = Math.min(leftMs, this.leaseMs / CHECKS_PER_LEASE)
    const renewMs = this.#renewAt - this.#registry.clock.now()
    this.#registry.in(Math.ceil(Math.min(checkMs, renewMs)), this)
  }

  #lapse(): LeaseLostError {
    const limit = this.#limitReached
    if (limit === undefined) {
      return this.#lose(`it was not extended within its ${this.leaseMs} ms`, 'lapsed')
    }
    const kind = limit === 'maxHoldMs' ? 'max-hold' : 'max-extensions'
    return this.#lose(`it was held as long as \`${limit}\` allows`, kind)
  }

  /** The only way to lose a lease: the signal first, then who listens. */
  #lose(reason: string, kind: LossReason, answers?: readonly MasterAnswer[]): LeaseLostError {
    if (this.#loss !== undefined) return this.#loss
    const loss = new LeaseLostError(this.resource, this.fencingToken, reason, answers)
    if (kind === 'closed') loss.cause = new RedlockClosedError()
    if (this.#released !== undefined) return loss
    this.#loss = loss
    this.#abort?.abort(loss)
    this.#end('lost', kind)
    this.lost()
    return loss
  }

  #end(how: LeaseEnd, reason: LossReason | undefined): void {
    const { clock, channel } = this.#registry
    leave(this)
    if (this.#isOver) return
    this.#isOver = true
    if (!channel.hears('lease:ended')) return
    const heldMs = clock.now() - this.#grant.start.now
    channel.tell('lease:ended', { lease: this, how, reason, heldMs })
  }
}
