/**
 * A lock service over one lock server. The driver knows the server; what is the same for all
 * servers stands here: late answers, waiting, slots, reentrancy. `HeldLease` has the life of a
 * lease.
 */
import { randomBytes } from 'node:crypto'
import type { Channel } from '../channel.ts'
import type { ToldLock } from '../facts.ts'
import { instant, mustAnswer, type Instant } from '../clock.ts'
import { RedlockClosedError } from '../lock-errors.ts'
import { loggedChannel, leaseLog } from '../log.ts'
import { messageOf, withoutStop } from '../message-of.ts'
import { acquireTerms, callOptions, leaseTerms } from '../lock/lease-options.ts'
import type { AcquireOptions, LeaseOptions, LeaseTerms } from '../lock/lease-options.ts'
import { BoundedDriver, DriverLease } from './driver-lease.ts'
import { LeaseRegistry } from '../lock/lease-registry.ts'
import type { Inspection } from '../lock/inspection.ts'
import type { ListedLease, ServiceHealth } from './service-health.ts'
import type { Lease } from '../lock/lease.ts'
import { heardChanges, type HeardChanges } from './heard-changes.ts'
import type { Claim, LockDriver, Wish } from './lock-driver.ts'
import type { LockSettings } from './service-settings.ts'
import type { Capability, LockService } from '../lock/lock-service.ts'
import type { AcquireOutcome, Unreachable } from '../lock/outcome.ts'
import { HeldLeases } from '../lock/reentrancy.ts'
import { labelOf, resourceName, resourceNames } from '../names.ts'
import { slotNames, trySlots } from '../lock/slots.ts'
import { waitFor } from '../lock/waiting.ts'

/** About how long an attempt takes. */
const TRIP_MS = 5
/** A server that has just started has this long for its first lease. */
const READY_MS = 5_000
/** What no other client can name. */
const PROBE = ''

export class LockClient implements LockService, AsyncDisposable {
  readonly namespace: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly lacks: readonly Capability[]
  readonly #settings: LockSettings
  readonly #driver: LockDriver
  readonly #server: BoundedDriver<Claim>
  readonly #channel: Channel
  readonly #told: ToldLock
  readonly #leases: LeaseRegistry
  readonly #held = new HeldLeases()
  readonly #waiting = new Set<HeardChanges>()
  #closed: Promise<void> | undefined

  constructor(settings: LockSettings, driver: LockDriver) {
    this.#settings = settings
    this.#driver = driver
    this.#server = new BoundedDriver(driver, settings)
    this.namespace = settings.namespace
    this.leaseMs = settings.leaseMs
    this.maxLeaseMs = settings.maxLeaseMs
    this.lacks = driver.listen === undefined ? ['announcements'] : []
    this.#channel = loggedChannel(settings.log, this.namespace, [leaseLog(settings)])
    this.#told = { namespace: this.namespace, quorum: 1, status: () => this.status() }
    this.#leases = new LeaseRegistry(settings.clock, this.#channel)
    this.#channel.tell('lock:opened', this.#told)
  }

  /** Takes and frees one lease. Rejects, saying why, when none can be had. */
  async ready(): Promise<void> {
    this.#assertOpen()
    const limitMs = Math.max(READY_MS, this.leaseMs)
    await this.#server.noting(this.#answer(this.#probe(), limitMs, 'granted no lease'))
  }

  /** What this process sees: the service as one master, and how many leases are held here. */
  status(): ReturnType<ToldLock['status']> {
    const closed = { name: this.#driver.name, state: 'closed' } as const
    const master = this.#closed === undefined ? this.#server.status : closed
    return { masters: [master], leases: this.#leases.members().length }
  }

  /**
   * One attempt, no waiting. Several resources are granted together or not at all.
   * @throws TypeError for a bad resource or option; RedlockClosedError.
   */
  async tryAcquire(
    resource: string | readonly string[],
    options: LeaseOptions = {},
  ): Promise<AcquireOutcome> {
    const names = this.namesOf(resource)
    callOptions(options, false)
    return this.#try(names, leaseTerms(options, this.#settings))
  }

  /**
   * Tries until granted or `waitMs` is over.
   * @throws ResourceTakenError, SplitVoteError, QuorumUnreachableError: why the last attempt
   * failed.
   * @throws the signal's reason when it aborts; TypeError for a bad option; RedlockClosedError.
   */
  async acquire(
    resource: string | readonly string[],
    options: AcquireOptions = {},
  ): Promise<Lease> {
    const names = this.namesOf(resource)
    const { terms, waitMs, signal } = acquireTerms(options, this.#settings)
    const { clock } = this.#settings
    const startedAt = clock.now()
    const waiter = waitMs > 0 && terms.slots === 1 ? randomBytes(10).toString('hex') : undefined
    const turns = heardChanges((wake) =>
      waiter === undefined ? undefined : this.#driver.listen?.(names, waiter, wake),
    )
    this.#waiting.add(turns)
    const attempt = (): Promise<AcquireOutcome> => this.#try(names, terms, waiter)
    let granted = false
    try {
      const waiting = { clock, startedAt, waitMs, signal, turns, attempt, tripMs: () => TRIP_MS }
      const lease = await waitFor(await attempt(), waiting)
      granted = true
      return lease
    } finally {
      this.#waiting.delete(turns)
      turns.stop()
      const waited = { resources: names, granted, waitMs: clock.now() - startedAt }
      this.#channel.tell('lease:waited', waited)
    }
  }

  /**
   * Runs `routine` under a lease that is kept alive, and releases it afterwards. Inside another
   * `using` on the same resource, in the same asynchronous context, it joins that lease.
   * @throws what {@link LockClient.acquire} throws; TypeError when an outer lease covers only some
   * of the resources; LeaseLostError when that lease is over.
   */
  async using<Result>(
    resource: string | readonly string[],
    options: AcquireOptions,
    routine: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result> {
    return this.#held.using(this, this.#settings, resource, options, routine)
  }

  /** Who holds a resource. @throws RedlockClosedError; what the server's client throws. */
  async inspect(resource: string): Promise<Inspection> {
    this.#assertOpen()
    const [name = ''] = this.namesOf(resourceName(resource))
    const inspection = await this.#answer(this.#driver.inspect(name))
    const { problem } = this.#server
    // rule: inspection-tells-why-none-is-granted
    if (problem === undefined) return inspection
    return { ...inspection, ungranted: `${this.#driver.name} says: ${withoutStop(problem)}` }
  }

  /**
   * Live leases of the namespace, at most `limit`. @throws RedlockClosedError; what the server's
   * client throws.
   */
  async leases(limit: number): Promise<readonly ListedLease[]> {
    this.#assertOpen()
    const leases = await this.#answer(this.#driver.leases?.(limit) ?? Promise.resolve([]))
    return leases.filter(({ resource }) => resource !== PROBE)
  }

  /** How the servers are, each by itself. Changes nothing. */
  async health(): Promise<ServiceHealth> {
    const { name } = this.#driver
    return (await this.#driver.health?.()) ?? { service: name, servers: [], findings: [] }
  }

  /**
   * Loses every lease that is still held, so that its `signal` aborts, releases it, and
   * disconnects.
   */
  close(): Promise<void> {
    return (this.#closed ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Checked. @throws TypeError for what no lease can be had on. */
  protected namesOf(resource: string | readonly string[]): readonly string[] {
    return resourceNames(resource)
  }

  async #close(): Promise<void> {
    // rule: closed-service-wakes-its-waiters
    for (const { wake } of this.#waiting) wake()
    await this.#leases.close()
    await this.#server.ended()
    await this.#driver.close()
    this.#channel.tell('lock:closed', this.#told)
  }

  async #try(
    names: readonly string[],
    terms: LeaseTerms,
    waiter?: string,
  ): Promise<AcquireOutcome> {
    this.#assertOpen()
    const slots = names.map((name) => slotNames(name, terms.slots))
    const random = (): number => this.#settings.clock.random()
    return trySlots(slots, random, (resources) => {
      const token = this.#freshToken()
      return this.#attempt({ resources, token, leaseMs: terms.leaseMs, waiter }, terms)
    })
  }

  async #probe(): Promise<true> {
    await this.#driver.ready()
    const wish = { resources: [PROBE], token: this.#freshToken(), leaseMs: this.leaseMs }
    try {
      // rule: ready-takes-a-lease
      await this.#driver.acquire(wish)
    } catch (error) {
      this.#server.abandon(wish)
      throw error
    }
    await this.#driver.abandon(wish)
    return true
  }

  #freshToken(): string {
    return `${randomBytes(20).toString('hex')}@${this.#settings.owner}`
  }

  /** One request. What it grants too late is released, not handed out. */
  async #attempt(wish: Wish, terms: LeaseTerms): Promise<AcquireOutcome> {
    const { clock } = this.#settings
    const startedAt = instant(clock)
    const { resources } = wish
    let outcome: AcquireOutcome
    try {
      const request = this.#driver.acquire(wish)
      const answer = await this.#server.granting(request)
      if (answer === undefined) {
        this.#server.abandon(wish, request)
        outcome = this.#unreachable(wish, `no answer within ${this.#settings.requestTimeoutMs} ms`)
      } else if (answer.status === 'granted') {
        outcome = this.#granted(wish, answer.claim, terms, startedAt)
      } else {
        outcome = { ...answer, answers: [] }
      }
    } catch (error) {
      this.#server.abandon(wish)
      outcome = this.#unreachable(wish, messageOf(error))
    }
    const { status } = outcome
    const fencingToken = outcome.status === 'granted' ? outcome.lease.fencingToken : undefined
    const durationMs = clock.now() - startedAt.now
    const attempt = { resources, status, durationMs, handOver: false, fencingToken }
    this.#channel.tell('lease:attempted', attempt)
    if (this.#closed !== undefined && outcome.status === 'granted') await outcome.lease.release()
    // rule: call-that-outlives-its-client-says-so
    this.#assertOpen()
    return outcome
  }

  #granted(wish: Wish, claim: Claim, terms: LeaseTerms, startedAt: Instant): AcquireOutcome {
    const { fencingToken, leaseMs, ageMs = 0 } = claim
    // The server may have granted more than was asked for.
    // rule: granted-lease-is-within-its-limit
    const trust = this.#server.trust(startedAt, Math.min(leaseMs, terms.maxHoldMs + ageMs), ageMs)
    const isLate = trust.until <= this.#settings.clock.now()
    if (isLate || !Number.isSafeInteger(fencingToken)) {
      void this.#server.release(claim)
      const bad = `fencing token ${fencingToken} is not a safe integer`
      return this.#unreachable(wish, isLate ? 'the lease was over before it was granted' : bad)
    }
    const { resources, token } = wish
    const granted = { terms: { ...terms, leaseMs }, start: startedAt, trust }
    const grant = { resources, token, fencingToken, ...granted }
    const lease = new DriverLease(this.#leases, grant, this.#server, claim)
    return { status: 'granted', lease }
  }

  #unreachable({ resources }: Wish, why: string): Unreachable {
    const resource = labelOf(resources)
    this.#server.problem = why
    const answers = this.#server.says(why)
    return { status: 'unreachable', answers, resource, retryAfterMs: 0, quorum: 1 }
  }

  async #answer<Value>(
    promise: Promise<Value>,
    limitMs: number = this.#settings.requestTimeoutMs,
    what = 'did not answer',
  ): Promise<Value> {
    const late = `${this.#driver.name} ${what} within ${limitMs} ms`
    try {
      return await mustAnswer(this.#settings.clock, limitMs, promise, late)
    } finally {
      this.#assertOpen() // A server that was left says nothing of what is wrong with it.
    }
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new RedlockClosedError()
  }
}
