/**
 * The lease as a processor sees it. A step is what a lease protects: it begins with nearly a whole
 * lease ahead of it, and its result counts only if the lease stands when it ends.
 */
import { RateLimitError } from 'bullmq'
import { StepNotAwaitedError } from '../../errors.ts'
import type { ExtendOutcome, Lease } from '../../lock/lease.ts'
import { isFresh } from '../../lock/trust.ts'
import type { Channel } from '../../channel.ts'
import { systemClock } from '../../clock.ts'
import { ofJob } from '../../log.ts'
import { childLogger, type Logger } from '../../logger.ts'
import { integerOption } from '../../options.ts'
import type { Checkpoints } from './checkpoints.ts'
import { asError } from './failure.ts'
import type { Visit } from './visit.ts'

/** What a step's function is given. Pass both on: the signal to I/O, the token to the store. */
export interface StepContext {
  /** Aborts when the step must stop. */
  readonly signal: AbortSignal
  /** For the store, which refuses a smaller one than it has seen. */
  readonly fencingToken: number
}

/** The lease of a job, as its processor sees it. */
export interface JobLease {
  /** The resource's name, or several joined by ` + `. */
  readonly resource: string
  /** What the lease covers, sorted. */
  readonly resources: readonly string[]
  /** Larger than that of every earlier lease on the resource. */
  readonly fencingToken: number
  /** The length of the lease from its grant or its last extension. */
  readonly leaseMs: number
  /**
   * Aborts when the lease or BullMQ's lock on the job is lost, or the job is cancelled; the reason
   * says which.
   */
  readonly signal: AbortSignal
  /** The end of trust on the monotonic clock, comparable with `performance.now()`. */
  readonly trustedUntil: number
  /** Milliseconds for which the lease may still be trusted. */
  remainingMs(): number
  /**
   * Renews the lease for its full length. It is also renewed while the job runs.
   * @throws LeaseLostError when the lease is over.
   */
  extend(): Promise<ExtendOutcome>
  /** BullMQ's token for the job, so `job.moveToDelayed(timestamp, lease)` works as with a token. */
  toString(): string
  /**
   * Checks the lease, extends it, runs `fn`, and checks again. With `checkpoints`, a step that an
   * earlier run of the job completed is not run again: its result comes back as JSON keeps it. So a
   * `Date` comes back as a string, and `undefined` as null.
   * @throws the signal's reason (a LeaseLostError, …) when the job must stop; else what `fn`
   * throws.
   * @example
   * ```ts
   * const receipt = await jobLease.step('charge', (context) => charge(job.data, context))
   * ```
   */
  step<Result>(
    name: string,
    fn: (context: StepContext) => Promise<Result> | Result,
  ): Promise<Result>
  /**
   * Puts the resource to sleep, after a 429 for example: none of its jobs starts for `delayMs`.
   * Jobs of other resources run. Throw what it returns, and this job comes back then, first in
   * its line and without using an attempt.
   * @throws Error in a worker that keeps no lines.
   * @example
   * ```ts
   * if (response.status === 429) throw await jobLease.rateLimit(60_000)
   * ```
   */
  rateLimit(delayMs: number): Promise<RateLimitError>
  /** The step that runs now, or ran last. */
  readonly currentStep: string | undefined
  /** The worker's logger; adds `queue`, `job`, `resource` and `fencingToken` to every line. */
  readonly logger: Logger
}

/** Runs a job under its lease. Shared results, checkpoints and batches wrap it. */
export type Process = (visit: Visit, lease: SteppedLease) => Promise<unknown>

/**
 * A processor as it runs a job. One that asks for the signal is given it. A step that still runs
 * when its processor ends holds the lease, and fails the job.
 */
export function processOf(processor: (...args: never) => unknown): Process {
  const run = processor as (...args: unknown[]) => unknown
  const asksForSignal = processor.length > 2
  return async ({ job, stop }, lease) => {
    let result: unknown
    let open: readonly string[] = []
    try {
      result = await (asksForSignal ? run(job, lease, stop.signal) : run(job, lease))
    } finally {
      if (lease.openSteps.size > 0) open = await lease.untilStepsEnd()
    }
    // rule: open-step-fails-the-job
    if (open.length > 0) throw new StepNotAwaitedError(open)
    return result
  }
}

/** What the leases of a worker's jobs use. */
export interface LeaseHost {
  readonly channel: Channel
  readonly logger: Logger
  /** Puts the resources of a job to sleep. */
  readonly sleep: (visit: Visit, delayMs: number) => Promise<void>
}

/** A String, so that it stands for BullMQ's token where BullMQ's methods take one. */
export class SteppedLease extends String implements JobLease {
  checkpoints: Checkpoints | undefined
  currentStep: string | undefined
  readonly #visit: Visit
  readonly #lease: Lease
  /** Those that have not ended, with their names. */
  readonly openSteps: Map<Promise<unknown>, string> = new Map()
  readonly #host: LeaseHost
  #logger: Logger | undefined

  constructor(visit: Visit, lease: Lease, host: LeaseHost) {
    super(visit.job.token ?? '')
    this.#visit = visit
    this.#lease = lease
    this.#host = host
  }

  get signal(): AbortSignal {
    return this.#visit.stop.signal
  }

  get resource(): string {
    return this.#lease.resource
  }

  get resources(): readonly string[] {
    return this.#lease.resources
  }

  get fencingToken(): number {
    return this.#lease.fencingToken
  }

  get leaseMs(): number {
    return this.#lease.leaseMs
  }

  get trustedUntil(): number {
    return this.#lease.trustedUntil
  }

  get logger(): Logger {
    const { job } = this.#visit
    this.#logger ??= childLogger(this.#host.logger, ofJob({ job, lease: this.#lease }))
    return this.#logger
  }

  remainingMs(): number {
    return this.#lease.remainingMs()
  }

  extend(): Promise<ExtendOutcome> {
    const extended = this.#lease.extend()
    // Who forgets to wait for it is told of a loss by `signal`.
    // rule: forgotten-extension-ends-no-process
    extended.catch(() => undefined)
    return extended
  }

  async rateLimit(delayMs: number): Promise<RateLimitError> {
    integerOption('delayMs', delayMs, 1, Number.MAX_SAFE_INTEGER)
    await this.#host.sleep(this.#visit, delayMs)
    return new RateLimitError()
  }

  step<Result>(
    name: string,
    fn: (context: StepContext) => Promise<Result> | Result,
  ): Promise<Result> {
    if (name === '') throw new TypeError('Expected a step to have a name, got an empty one')
    const { channel } = this.#host
    const about = { job: this.#visit.job, lease: this.#lease, step: name }
    channel.tell('step:started', about)
    const startedAt = systemClock.now()
    const running = channel.within({ kind: 'step', ...about }, () => this.#step(name, fn))
    this.openSteps.set(running, name)
    const end = (): boolean => this.openSteps.delete(running)
    running.then(end, end)
    if (!channel.hears('step:ended')) return running
    const ended = (outcome: 'done' | 'failed') => (): void => {
      channel.tell('step:ended', { ...about, outcome, tookMs: systemClock.now() - startedAt })
    }
    running.then(ended('done'), ended('failed'))
    return running
  }

  /** Waits for steps that still run. @returns their names */
  async untilStepsEnd(): Promise<readonly string[]> {
    const names = [...this.openSteps.values()]
    // rule: open-step-holds-the-lease
    while (this.openSteps.size > 0) await Promise.allSettled(this.openSteps.keys())
    return names
  }

  async #step<Result>(
    name: string,
    fn: (context: StepContext) => Promise<Result> | Result,
  ): Promise<Result> {
    this.currentStep = name
    this.#assertMayGoOn()
    // Where no quorum answers, what is left of the lease stands, and its renewal is tried again.
    const lease = this.#lease
    if (!isFresh(lease.remainingMs(), lease.leaseMs)) await lease.extend()
    const earlier = await this.checkpoints?.completed(name)
    this.#assertMayGoOn()
    if (earlier !== undefined) return earlier.value as Result
    const { stop } = this.#visit
    const result = await fn({
      // Made for those who take it.
      get signal() {
        return stop.signal
      },
      fencingToken: lease.fencingToken,
    })
    this.#assertMayGoOn()
    if (this.checkpoints === undefined) return result
    return (await this.checkpoints.save(name, result)) as Result
  }

  #assertMayGoOn(): void {
    const { stop } = this.#visit
    if (stop.isAborted) throw asError(stop.reason)
    this.#lease.assertHeld()
  }
}
