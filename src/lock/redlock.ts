/**
 * The public face of the quorum lock. Knows the fleet, hands out leases, and looks after what outlives a
 * call: releases that a master has not confirmed yet, and the leases that are still held.
 */
import pRetry from 'p-retry'
import { jitteredMs } from '../backoff.ts'
import { sleep } from '../clock.ts'
import {
  LeaseExistsError,
  LeaseTooShortError,
  MasterRefusedError,
  QuorumUnreachableError,
  RedlockClosedError,
} from '../errors.ts'
import { integerOption, refuse } from '../options.ts'
import { attempt } from './attempt.ts'
import { Fleet, type MasterStatus } from './fleet.ts'
import type { Lease } from './lease.ts'
import type { LeaseOptions, LockService } from './lock-service.ts'
import { outcomeError, type AcquireOutcome } from './outcome.ts'
import { ProposalClock } from './proposal.ts'
import { QuorumLease } from './quorum-lease.ts'
import { leaseOption, resolveSettings, type RedlockOptions, type Settings } from './settings.ts'

export interface AcquireOptions extends LeaseOptions {
  /**
   * How long to go on trying. 0 tries once.
   * @defaultValue one lease length: a dead holder's lease is over by then
   */
  readonly waitMs?: number
  /** Ends the waiting; a lease that was granted meanwhile is released. */
  readonly signal?: AbortSignal
}

export interface RedlockStatus {
  readonly quorum: number
  readonly masters: readonly MasterStatus[]
  /** Leases this instance holds now. */
  readonly leases: number
}

const MAX_RESOURCE_LENGTH = 512
/** Retries of `acquire`: at least a round trip apart, at most this far. */
const MIN_RETRY_MS = 2
const MAX_RETRY_MS = 200
/** A lease shorter than this many round trips is spent on talking to the masters. */
const ROUND_TRIPS_PER_LEASE = 4

export class Redlock implements LockService, AsyncDisposable {
  readonly #settings: Settings
  readonly #fleet: Fleet
  readonly #proposals: ProposalClock
  readonly #leases = new Set<QuorumLease>()
  readonly #background = new Set<Promise<void>>()
  #closed: Promise<void> | undefined
  /** Of the last attempt that a quorum answered; retries wait longer than this. */
  #roundTripMs = 0

  /** @throws TypeError for a bad option, naming it. Connects in the background: see {@link Redlock.ready}. */
  constructor(options: RedlockOptions) {
    this.#settings = resolveSettings(options)
    this.#proposals = new ProposalClock(this.#settings.clock, this.#settings.maxClockSkewMs)
    this.#fleet = new Fleet(this.#settings)
  }

  get leaseMs(): number {
    return this.#settings.leaseMs
  }

  get quorum(): number {
    return this.#fleet.quorum
  }

  /**
   * Resolves when a quorum of the masters is connected, checked and enrolled (they may still be quarantined:
   * see `status()`), and all others have been tried.
   * @throws MasterRefusedError when a master must not be used: a replica, an evicting policy, the same server twice, …
   * @throws QuorumUnreachableError when fewer than a quorum answered.
   * @throws LeaseTooShortError when `leaseMs` leaves no room for the round trips.
   */
  async ready(): Promise<RedlockStatus> {
    this.#assertOpen()
    await Promise.all(this.#fleet.masters.map(({ firstAnswer }) => firstAnswer))
    this.#assertOpen()
    const problems = this.#fleet.problems()
    if (problems.length > 0) throw new MasterRefusedError(problems)
    const roundTripsMs = this.#fleet.roundTripsMs()
    const roundTripMs = roundTripsMs[this.quorum - 1]
    if (roundTripMs === undefined) {
      throw new QuorumUnreachableError(undefined, this.quorum, 0, this.#fleet.answers())
    }
    const neededMs = Math.ceil(roundTripMs * ROUND_TRIPS_PER_LEASE)
    if (this.leaseMs < neededMs) {
      throw new LeaseTooShortError(this.leaseMs, Math.ceil(roundTripMs), neededMs)
    }
    return this.status()
  }

  /** Who votes, who does not and why, and how many leases this instance holds. */
  status(): RedlockStatus {
    return { quorum: this.quorum, masters: this.#fleet.status(), leases: this.#leases.size }
  }

  /**
   * States that this fleet is new and holds no leases, so that its masters vote at once instead of after one
   * `maxLeaseMs`. Safe only when no worker has run on it within the last `maxLeaseMs`.
   * @returns the names of the masters that vote now.
   * @throws LeaseExistsError when a connected master holds a lease; and what {@link Redlock.ready} throws.
   */
  async bootstrap(): Promise<readonly string[]> {
    await this.ready()
    const found = await this.#fleet.findLease()
    if (found !== undefined) throw new LeaseExistsError(found.master, found.key)
    return this.#fleet.endQuarantine()
  }

  /**
   * One attempt, no waiting. Never throws for anything the masters say or do not say.
   * @throws TypeError for a bad resource or option; RedlockClosedError.
   */
  async tryAcquire(resource: string, options: LeaseOptions = {}): Promise<AcquireOutcome> {
    this.#assertOpen()
    const settings = this.#settings
    const leaseMs = leaseOption(options.leaseMs ?? settings.leaseMs, settings.maxLeaseMs)
    const terms = {
      autoExtend: options.autoExtend ?? false,
      maxHoldMs: integerOption(
        'maxHoldMs',
        options.maxHoldMs ?? settings.maxHoldMs,
        leaseMs,
        Number.MAX_SAFE_INTEGER,
      ),
      maxExtensions: integerOption(
        'maxExtensions',
        options.maxExtensions ?? settings.maxExtensions,
        0,
        Number.MAX_SAFE_INTEGER,
      ),
    }
    const startedAt = settings.clock.now()
    const outcome = await attempt(
      this.#fleet,
      this.#proposals,
      resourceName(resource),
      leaseMs,
      this.#inBackground,
    )
    if (outcome.status !== 'unreachable') this.#roundTripMs = settings.clock.now() - startedAt
    if (outcome.status !== 'granted') return outcome
    const lease = new QuorumLease(this.#fleet, outcome, terms, {
      background: this.#inBackground,
      ended: (ended) => this.#leases.delete(ended),
    })
    if (lease.remainingMs() > 0) this.#leases.add(lease)
    if (this.#closed !== undefined) await lease.release()
    return { status: 'granted', lease }
  }

  /**
   * Tries until granted or `waitMs` is over, with random delays in between.
   * @throws ResourceTakenError, SplitVoteError, QuorumUnreachableError: why the last attempt failed.
   * @throws the signal's reason when it aborts; TypeError for a bad option; RedlockClosedError.
   */
  async acquire(resource: string, options: AcquireOptions = {}): Promise<Lease> {
    const { clock } = this.#settings
    const { signal } = options
    const defaultWaitMs = options.leaseMs ?? this.leaseMs
    const waitMs = integerOption(
      'waitMs',
      options.waitMs ?? defaultWaitMs,
      0,
      Number.MAX_SAFE_INTEGER,
    )
    const deadline = clock.now() + waitMs
    const tryOnce = async (): Promise<Lease> => {
      signal?.throwIfAborted()
      const outcome = await this.tryAcquire(resource, options)
      if (outcome.status !== 'granted') throw outcomeError(outcome)
      if (signal?.aborted !== true) return outcome.lease
      await outcome.lease.release()
      throw signal.reason
    }
    return pRetry(tryOnce, {
      retries: Infinity, // Bounded by the deadline.
      minTimeout: 0, // The delay is ours: it depends on the round trip and runs on our clock.
      shouldRetry: ({ error }) => isRetryable(error) && clock.now() < deadline,
      onFailedAttempt: async ({ error, attemptNumber }) => {
        const leftMs = deadline - clock.now()
        if (!isRetryable(error) || leftMs <= 0) return
        await sleep(clock, Math.min(leftMs, this.#retryDelayMs(attemptNumber)), signal)
      },
    })
  }

  /**
   * Runs `routine` under a lease that is kept alive, and releases it afterwards. When the lease is lost its `signal`
   * aborts; what the routine returns or throws is passed on as it is.
   */
  async using<Result>(
    resource: string,
    options: AcquireOptions,
    routine: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result> {
    const lease = await this.acquire(resource, { autoExtend: true, ...options })
    try {
      return await routine(lease)
    } finally {
      await lease.release()
    }
  }

  /** Releases every lease, waits for the masters at most one `masterTimeoutMs`, and disconnects. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    const { clock, masterTimeoutMs } = this.#settings
    await Promise.all([...this.#leases].map((lease) => lease.release()))
    await new Promise<void>((resolve) => {
      const timer = clock.after(masterTimeoutMs, resolve)
      void Promise.all(this.#background).then(() => {
        timer.cancel()
        resolve()
      })
    })
    this.#fleet.close()
  }

  readonly #inBackground = (work: Promise<void>): void => {
    this.#background.add(work)
    void work.finally(() => this.#background.delete(work))
  }

  #retryDelayMs(attemptNumber: number): number {
    const minMs = Math.max(MIN_RETRY_MS, this.#roundTripMs)
    return jitteredMs(
      attemptNumber,
      minMs,
      Math.max(minMs, MAX_RETRY_MS),
      this.#settings.clock.random(),
    )
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new RedlockClosedError()
  }
}

function resourceName(resource: unknown): string {
  if (
    typeof resource !== 'string' ||
    resource.length === 0 ||
    resource.length > MAX_RESOURCE_LENGTH
  ) {
    return refuse('resource', `a string of 1 to ${MAX_RESOURCE_LENGTH} characters`, resource)
  }
  return resource
}

function isRetryable(error: Error): boolean {
  return (
    'code' in error &&
    ['RESOURCE_TAKEN', 'SPLIT_VOTE', 'QUORUM_UNREACHABLE'].includes(String(error.code))
  )
}
