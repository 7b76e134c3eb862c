/** A lease at one lock server, and the deadlines of what is asked there. */
import pRetry from 'p-retry'
import { withinMs, type Instant } from '../clock.ts'
import type { MasterStatus } from '../facts.ts'
import type { MasterAnswer } from '../lock-errors.ts'
import { messageOf } from '../message-of.ts'
import { HeldLease, type Grant, type Renewed } from '../lock/held-lease.ts'
import type { LeaseRegistry } from '../lock/lease-registry.ts'
import type { Claim, ClaimOutcome, LockDriver, Wish } from './lock-driver.ts'
import type { LockSettings } from './service-settings.ts'
import { trustFrom, type Trust } from '../lock/trust.ts'

const NO_ANSWER = 'no answer in time'
const REPEATS = { retries: Infinity, minTimeout: 50, maxTimeout: 500, randomize: true }

/** A driver whose requests have a deadline, and may go on behind it. */
export class BoundedDriver<Granted extends Claim> {
  readonly driver: LockDriver<Granted>
  readonly #settings: LockSettings
  readonly #background = new Set<Promise<void>>()
  #hasEnded = false
  /** Why it grants none, until it grants or renews a lease. */
  problem: string | undefined

  constructor(driver: LockDriver<Granted>, settings: LockSettings) {
    this.driver = driver
    this.#settings = settings
  }

  /** What `request` resolves to, or undefined at its deadline. Rejects as it does. */
  within<Value>(request: Promise<Value>, limitMs: number = Infinity): Promise<Value | undefined> {
    const { clock, requestTimeoutMs } = this.#settings
    return withinMs(clock, Math.min(requestTimeoutMs, limitMs), request)
  }

  /** As of the last time that it was asked for a lease, or to renew one. */
  get status(): MasterStatus {
    const { name } = this.driver
    return this.problem === undefined
      ? { name, state: 'voting' }
      : { name, state: 'connecting', reason: this.problem }
  }

  /** {@link within}, of a request that grants or renews. */
  granting<Value>(request: Promise<Value>, limitMs?: number): Promise<Value | undefined> {
    return this.noting(this.within(request, limitMs))
  }

  /** Notes whether it grants. Undefined for no answer in time. */
  async noting<Value>(request: Promise<Value>): Promise<Value> {
    try {
      const answer = await request
      this.problem = answer === undefined ? NO_ANSWER : undefined
      return answer
    } catch (error) {
      this.problem = messageOf(error)
      throw error
    }
  }

  release(claim: Granted): Promise<void> {
    return this.#undo(() => this.driver.release(claim), claim.leaseMs)
  }

  /**
   * What is granted behind the deadline is released; what has not arrived yet is refused there.
   * @param request where it goes on: a server that is late for it is asked once meanwhile.
   */
  abandon(wish: Wish, request?: Promise<ClaimOutcome<Granted>>): void {
    let goesOn = request !== undefined
    // rule: attempt-that-goes-on-is-abandoned-once
    const abandon = (): Promise<void> =>
      this.#undo(
        () => this.driver.abandon(wish),
        wish.leaseMs,
        () => !goesOn,
      )
    void abandon()
    request?.then(
      (late) => (late.status === 'granted' ? this.release(late.claim) : undefined),
      () => {
        goesOn = false
        // It may have been granted after the first look.
        // rule: attempt-that-fails-late-is-abandoned-again
        return abandon()
      },
    )
  }

  /**
   * Repeats it until the server confirms it. A failure is not reported: a server that counts time
   * forgets the lease after `leaseMs`, and a driver with sessions goes on as long as its session.
   */
  #undo(act: () => Promise<void>, leaseMs: number, isRepeated = () => true): Promise<void> {
    const limits = {
      maxRetryTime: leaseMs,
      shouldRetry: () => !this.#hasEnded && isRepeated(),
    }
    // rule: refused-release-is-repeated
    const done = pRetry(act, { ...REPEATS, ...limits }).catch(() => undefined)
    this.#background.add(done)
    void done.then(() => this.#background.delete(done))
    return done
  }

  /** When all is undone, or at the deadline of a request. Then nothing is repeated any more. */
  async ended(): Promise<void> {
    await this.within(Promise.all(this.#background))
    this.#hasEnded = true
  }

  /** How long a lease may be trusted that the server counts from `ageMs` before `startedAt`. */
  trust({ now, wallNow }: Instant, leaseMs: number, ageMs = 0): Trust {
    const since = { now: now - ageMs, wallNow: wallNow - ageMs }
    return trustFrom(since, leaseMs, this.#settings.driftFactor)
  }

  says(answer: string): readonly MasterAnswer[] {
    return [{ master: this.driver.name, answer }]
  }
}

export class DriverLease<Granted extends Claim> extends HeldLease {
  readonly claim: Granted
  readonly #server: BoundedDriver<Granted>

  /** @internal */
  constructor(
    registry: LeaseRegistry,
    grant: Grant,
    server: BoundedDriver<Granted>,
    claim: Granted,
  ) {
    super(registry, grant)
    this.claim = claim
    this.#server = server
  }

  protected async renew(startedAt: Instant, leftMs: number): Promise<Renewed> {
    const { claim } = this
    const server = this.#server
    try {
      const renewal = await server.granting(server.driver.extend(claim), leftMs)
      if (renewal === undefined) {
        return { status: 'unreachable', answers: server.says(NO_ANSWER) }
      }
      if (renewal === 'gone') {
        const answers = server.says('it has no such lease')
        return { status: 'gone', reason: 'the server no longer has it', answers }
      }
      const trust = server.trust(startedAt, claim.leaseMs, renewal.ageMs)
      return { status: 'extended', trust }
    } catch (error) {
      return { status: 'unreachable', answers: server.says(messageOf(error)) }
    }
  }

  protected async free(): Promise<void> {
    await this.#server.within(this.#server.release(this.claim))
  }

  /** A server that knows sessions keeps the lease as long as this process lives. */
  protected override lost(): void {
    void this.#server.release(this.claim)
  }
}
