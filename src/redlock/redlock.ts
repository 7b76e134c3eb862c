/** The public face of the quorum lock: hands out leases, and follows its fleet through a resize. */
import { RedlockClosedError } from '../lock-errors.ts'
import type { Timer } from '../clock.ts'
import { knownOptions, refuse } from '../options.ts'
import { acquireTerms, callOptions, leaseTerms } from '../lock/lease-options.ts'
import type { AcquireOptions, LeaseOptions, LeaseTerms } from '../lock/lease-options.ts'
import { Announcements } from './announcements.ts'
import { Attempt, QuorumLease, type Demand } from './attempt.ts'
import { bootstrapFleet, type BootstrapOptions } from './fleet/bootstrap.ts'
import { LockFleet } from './fleet/fleet.ts'
import { assertReady } from './fleet/readiness.ts'
import type { Inspection } from '../lock/inspection.ts'
import { inspect, waitedFor } from './inspect.ts'
import type { Lease } from '../lock/lease.ts'
import type { LockService } from '../lock/lock-service.ts'
import type { Channel } from '../channel.ts'
import type { MasterStatus } from '../facts.ts'
import { leaseLog, loggedChannel } from '../log.ts'
import type { AcquireOutcome } from '../lock/outcome.ts'
import { HeldLeases } from '../lock/reentrancy.ts'
import { resourceName, resourceNames } from '../names.ts'
import { resolveSettings, type RedlockOptions } from './settings.ts'
import { slotNames, trySlots } from '../lock/slots.ts'
import { waitFor } from '../lock/waiting.ts'

/** The state of a fleet as one client sees it. */
export interface RedlockStatus {
  /** How many masters must grant a lease. */
  readonly quorum: number
  /** One entry for each master, in the order of the option. */
  readonly masters: readonly MasterStatus[]
  /** Leases this instance holds now. */
  readonly leases: number
}

/** An `acquire`. */
interface Waiter extends Demand {
  readonly startedAt: number
  readonly signal: AbortSignal | undefined
}

/**
 * Leases on a quorum of independent Redis masters ([the
 * algorithm](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)), with
 * fencing tokens
 * ([why](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html)).
 * @example
 * ```ts
 * const redlock = new Redlock({ masters: ['redis://lock-1:6379'] })
 * await redlock.using('customer:42', { waitMs: 2_000 }, async ({ signal, fencingToken }) => {
 *   await charge({ customerId: 42 }, { signal, fencingToken })
 * })
 * const outcome = await redlock.tryAcquire('gpu', { slots: 4 })
 * if (outcome.status === 'granted') await outcome.lease.release()
 * await redlock.close()
 * ```
 */
export class Redlock implements LockService, AsyncDisposable {
  readonly #channel: Channel
  #fleet: LockFleet
  /** The fleet after `resize`, for which this client waits. */
  #next: LockFleet | undefined
  /** The fleet before it: some of its leases may still be held. */
  #before: LockFleet | undefined
  #endsBefore: Timer | undefined
  /** Of a call without options. */
  #usualTerms: LeaseTerms
  /** Of options that cannot change. */
  #knownTerms = new WeakMap<LeaseOptions, LeaseTerms>()
  readonly #held = new HeldLeases()
  /** When the last caller came, in µs: no two have the same. */
  #calledUs = 0
  /** Random, at the end of the names of its waiters: it tells clients apart. */
  readonly #nameEnd: string
  #closed: Promise<void> | undefined

  /**
   * @throws TypeError for a bad option, naming it. Connects in the background: see
   * {@link Redlock.ready}.
   */
  constructor(options: RedlockOptions) {
    const settings = resolveSettings(options)
    const { clock, log, namespace, previous } = settings
    this.#nameEnd = clock.random().toString(36).slice(2, 7).padEnd(5, '0')
    this.#channel = loggedChannel(log, namespace, [leaseLog(settings)])
    this.#fleet = new LockFleet(previous ?? settings, this.#channel, previous !== undefined)
    if (previous !== undefined) {
      const follow = this.#follow.bind(this)
      this.#next = new LockFleet(settings, this.#channel, true, follow)
    }
    const { masters } = this.#fleet
    this.#channel.tell('lock:opened', this)
    this.#usualTerms = leaseTerms({}, this.#fleet.settings)
    if (masters.length % 2 === 0) this.#channel.tell('fleet:even', { masters: masters.length })
  }

  get namespace(): string {
    return this.#fleet.settings.namespace
  }

  get leaseMs(): number {
    return this.#fleet.settings.leaseMs
  }

  /** The longest lease that a call may ask for, also after a resize that this client follows. */
  get maxLeaseMs(): number {
    const { maxLeaseMs } = this.#fleet.settings
    return Math.min(maxLeaseMs, this.#next?.settings.maxLeaseMs ?? maxLeaseMs)
  }

  /** How many masters must grant a lease: more than half of them. */
  get quorum(): number {
    return this.#fleet.quorum
  }

  get servers(): readonly string[] {
    return this.#fleet.names
  }

  /**
   * Resolves when all masters have been tried and a quorum of them is connected, checked and
   * enrolled. They may still be quarantined, and some of the others refused: see `status()`.
   * @throws MasterRefusedError when the client's own settings are wrong (the same server twice,
   * another `maxLeaseMs` than the fleet's). Also when refused masters leave no quorum.
   * @throws QuorumUnreachableError when fewer than a quorum answered.
   * @throws LeaseTooShortError when `leaseMs` leaves no room for the round trips.
   * @throws ClockAheadError when a quorum refuses this machine's clock.
   */
  async ready(): Promise<RedlockStatus> {
    this.#assertOpen()
    const asked = [...this.#fleet.masters, ...(this.#next?.masters ?? [])]
    await Promise.all(asked.map(({ enrolment }) => enrolment.firstAnswer))
    this.#assertOpen()
    assertReady(this.#fleet)
    return this.status()
  }

  /** Who votes, who does not and why, and how many leases this instance holds. */
  status(): RedlockStatus {
    const leases = [this.#fleet, this.#before].flatMap((fleet) => fleet?.leases.members() ?? [])
    return { quorum: this.quorum, masters: this.#fleet.status(), leases: leases.length }
  }

  /**
   * States that this fleet is new, so that its masters vote at once instead of after one
   * `maxLeaseMs`. A fleet that restarted without its memory is not new: its leases may still be
   * trusted. So this is refused unless this client was the first to enrol every master. Does
   * nothing where no master is quarantined.
   * @returns the names of the masters that vote now.
   * @throws NotNewFleetError when a client has used the fleet before, or a master cannot be asked.
   * @throws LeaseExistsError when a connected master holds a lease.
   * @throws what {@link Redlock.ready} throws; TypeError without `newFleet: true`.
   */
  async bootstrap(options: BootstrapOptions): Promise<readonly string[]> {
    const { newFleet } = (options as Partial<BootstrapOptions> | undefined) ?? {}
    if (newFleet !== true) {
      refuse('newFleet', 'true, which says that no client has ever used this fleet', newFleet)
    }
    knownOptions({ ...options }, { newFleet: true, confirmed: false })
    await this.ready()
    return this.#answer(bootstrapFleet(this.#fleet, options))
  }

  /**
   * One attempt, no waiting. Several resources are granted together or not at all, under one
   * fencing token. Never throws for anything the masters say or do not say.
   * @throws TypeError for a bad resource or option; RedlockClosedError.
   */
  async tryAcquire(
    resource: string | readonly string[],
    options?: LeaseOptions,
  ): Promise<AcquireOutcome> {
    const [names, terms] = [resourceNames(resource), this.#termsOf(options)]
    return this.#try({ names, terms, waitMs: 0, waiter: '' })
  }

  /**
   * Tries until granted or `waitMs` is over. Those who wait go one after the other, in the order of
   * arrival plus patience (`waitMs`, at most `maxLeaseMs`). Those who wait longer stay in front, in
   * about this order. This is advice to the waiters, and no promise when masters fail, or when a
   * waiter's process stands still at its turn.
   * @throws ResourceTakenError, SplitVoteError, QuorumUnreachableError: why the last attempt
   * failed.
   * @throws the signal's reason when it aborts; TypeError for a bad option; RedlockClosedError.
   */
  async acquire(resource: string | readonly string[], options?: AcquireOptions): Promise<Lease> {
    const waiter = this.#waiter(resourceNames(resource), options)
    let granted = false
    try {
      // The first attempt takes a place among the waiters, if it has to wait, in the same call.
      const first = await this.#try(waiter)
      const isOver = first.status === 'granted' && waiter.signal?.aborted !== true
      const lease = isOver ? first.lease : await this.#wait(waiter, first)
      granted = true
      return lease
    } finally {
      if (this.#channel.hears('lease:waited')) {
        const waitMs = this.#fleet.settings.clock.now() - waiter.startedAt
        this.#channel.tell('lease:waited', { resources: waiter.names, granted, waitMs })
      }
    }
  }

  /**
   * Runs `routine` under a lease that is kept alive, and releases it afterwards. When the lease is
   * lost its `signal` aborts; what the routine returns or throws is passed on as it is. Inside
   * another `using` on the same resource, in the same asynchronous context, it joins that lease.
   * @throws what {@link Redlock.acquire} throws; TypeError when an outer lease covers only some of
   * the resources; LeaseLostError when that lease is over.
   */
  async using<Result>(
    resource: string | readonly string[],
    options: AcquireOptions,
    routine: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result> {
    return this.#held.using(this, this.#fleet.settings, resource, options, routine)
  }

  /**
   * Ends `lease` and goes on with a successor, for the next piece of work on the same resource. No
   * master is asked. The successor has the next fencing token and what is left of the trust. A
   * grant has 64 fencing tokens. Undefined when they are used up, when less than half of `lease` is
   * left, or when `leaseMs` is another: then `lease` is as it was. Release it and acquire anew.
   * @throws LeaseLostError when `lease` is over; TypeError when it is not a lease of this Redlock.
   */
  handOver(lease: Lease, options?: Omit<LeaseOptions, 'slots'>): Lease | undefined {
    this.#assertOpen()
    const terms = this.#termsOf(options)
    const fleet = lease instanceof QuorumLease ? lease.fleet : undefined
    if (fleet !== undefined && fleet === this.#before) return undefined // It has been resized.
    if (!(lease instanceof QuorumLease) || fleet !== this.#fleet) {
      return refuse('lease', 'a lease of this Redlock', lease)
    }
    const next = lease.handOver({ ...terms, slots: lease.slots })
    if (next !== undefined && this.#channel.hears('lease:attempted')) {
      const { resources, fencingToken } = next
      const attempt = { resources, durationMs: 0, handOver: true, fencingToken }
      this.#channel.tell('lease:attempted', { ...attempt, status: 'granted' })
    }
    return next
  }

  /**
   * For which of these resources other clients wait, as one master knows. Slots as in
   * `lease.resources`.
   * @throws TypeError for a bad resource.
   */
  async waitedFor(resources: readonly string[]): Promise<readonly string[] | undefined> {
    this.#assertOpen()
    return waitedFor(this.#fleet, resources.map(resourceName))
  }

  /**
   * Who holds a resource, and what every master says about it.
   * @throws QuorumUnreachableError when fewer than a quorum answer; TypeError for a bad resource;
   * RedlockClosedError.
   */
  async inspect(resource: string): Promise<Inspection> {
    this.#assertOpen()
    return this.#answer(inspect(this.#fleet, resourceName(resource)))
  }

  /**
   * Loses every lease that is still held, so that its `signal` aborts, and then releases it. Waits
   * for the masters at most one `masterTimeoutMs`, and disconnects.
   */
  close(): Promise<void> {
    return (this.#closed ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#endsBefore?.cancel()
    const fleets = [this.#fleet, this.#next, this.#before].filter((each) => each !== undefined)
    for (const fleet of fleets) fleet.isClosed = true
    await Promise.all(fleets.map((fleet) => fleet.close()))
    this.#channel.tell('lock:closed', this)
  }

  /** The fleet has been resized. Nothing is granted by the one before it any more. */
  #follow(): void {
    if (this.#next === undefined || this.#closed !== undefined) return
    const before = this.#fleet
    this.#before = before
    this.#fleet = this.#next
    this.#next = undefined
    before.isInUse = false
    this.#fleet.isInUse = true
    const { masters, settings } = this.#fleet
    const { clock, maxLeaseMs } = settings
    // rule: resized-fleet-has-its-own-terms
    this.#usualTerms = leaseTerms({}, settings)
    this.#knownTerms = new WeakMap()
    this.#channel.tell('fleet:resized', { masters: masters.length, maxLeaseMs })
    // Its leases end by themselves until then.
    this.#endsBefore = clock.after(before.settings.maxLeaseMs, () => {
      if (this.#closed === undefined) void before.close()
    })
  }

  #waiter(names: readonly string[], options: AcquireOptions | undefined): Waiter {
    const { clock, leaseMs } = this.#fleet.settings
    const startedAt = clock.now()
    // Of two that a master meets in one millisecond, the smaller name is first.
    this.#calledUs = Math.max(Math.floor(clock.wallNow() * 1_000), this.#calledUs + 1)
    const name = `${this.#calledUs}${this.#nameEnd}`
    const terms = this.#usualTerms
    const usual = { names, terms, waitMs: leaseMs, waiter: name, startedAt, signal: undefined }
    if (options === undefined) return usual
    const own = acquireTerms(options, this.#fleet.settings)
    return { ...usual, ...own, waiter: own.waitMs > 0 ? name : '' }
  }

  /** Goes on where the first attempt was not granted. */
  async #wait(waiter: Waiter, first: AcquireOutcome): Promise<Lease> {
    const { names, terms, startedAt, waitMs, signal } = waiter
    const fleet = this.#fleet
    const all = names.flatMap((name) => slotNames(name, terms.slots))
    const told = waitMs > 0 ? (fleet.announcements ??= new Announcements(fleet)) : undefined
    const turns = told?.listen(waiter.waiter, all, startedAt)
    let hasPlaces = waitMs > 0
    try {
      const lease = await waitFor(first, {
        ...{ clock: fleet.settings.clock, startedAt, waitMs, signal, turns },
        attempt: (leftMs) => this.#try({ ...waiter, waitMs: leftMs }, true),
        tripMs: () => fleet.attemptMs,
      })
      hasPlaces = false
      return lease
    } finally {
      turns?.stop()
      if (hasPlaces) fleet.withdraw(all, waiter.waiter)
    }
  }

  /**
   * The resources, or one slot of each. A place among the waiters for what is granted ends with the
   * lease.
   * @param hasPlaces it has tried before.
   */
  #try(demand: Demand, hasPlaces = false): Promise<AcquireOutcome> {
    const { names, terms, waiter } = demand
    if (terms.slots === 1) return new Attempt(this.#fleet, names, demand).take()
    const slots = names.map((name) => slotNames(name, terms.slots))
    const random = (): number => this.#fleet.settings.clock.random()
    let mayWait = hasPlaces && waiter !== ''
    return trySlots(slots, random, async (claim) => {
      // The fleet may be resized between two of them.
      const outcome = await new Attempt(this.#fleet, claim, demand).take()
      // rule: holder-of-a-slot-waits-for-no-other
      if (mayWait && outcome.status === 'granted') this.#fleet.withdraw(slots.flat(), waiter)
      mayWait = waiter !== ''
      return outcome
    })
  }

  #termsOf(options: LeaseOptions | undefined): LeaseTerms {
    if (options === undefined) return this.#usualTerms
    const known = this.#knownTerms.get(options)
    if (known !== undefined) return known
    callOptions(options, false)
    const terms = leaseTerms(options, this.#fleet.settings)
    if (Object.isFrozen(options) && terms.slots === 1) this.#knownTerms.set(options, terms)
    return terms
  }

  /** Masters that were left say nothing of what is wrong with them. */
  #answer<Value>(promise: Promise<Value>): Promise<Value> {
    return promise.finally(() => {
      this.#assertOpen()
    })
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new RedlockClosedError()
  }
}
