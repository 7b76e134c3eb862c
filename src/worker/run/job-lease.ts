/**
 * The lease as a processor sees it. A step is what a lease protects: it begins with nearly a whole
 * lease ahead of it, and its result counts only if the lease stands when it ends.
 */
import { RateLimitError } from 'bullmq'
import { setMaxListeners } from 'node:events'
import { LineLimits } from '../../line/limits.ts'
import type { ExtendOutcome, Lease } from '../../lock/lease.ts'
import { FRESH } from '../../lock/trust.ts'
import { systemClock } from '../../clock.ts'
import { LeaseLostError } from '../../lock-errors.ts'
import { ofJob } from '../../log.ts'
import { childLogger, type Logger } from '../../logger.ts'
import { integerOption, refuse } from '../../options.ts'
import type { Checkpoints } from './results.ts'
import { asError } from './failure.ts'
import type { Visit } from './visits.ts'

/** What a step's function is given. Pass both on: the signal to I/O, the token to the store. */
export interface StepContext {
  /** Aborts when the step must stop. */
  readonly signal: AbortSignal
  /** For the store, which refuses a smaller one than it has seen. */
  readonly fencingToken: number
}

/**
 * The lease of a job, as its processor sees it. Of a {@link Lease} it has `resource`, `resources`,
 * `fencingToken`, `leaseMs`, `trustedUntil` and `remainingMs`.
 */
export interface JobLease extends Pick<
  Lease,
  'resource' | 'resources' | 'fencingToken' | 'leaseMs' | 'trustedUntil' | 'remainingMs'
> {
  /**
   * Aborts when the lease or BullMQ's lock on the job is lost, or the job is cancelled; the reason
   * says which.
   */
  readonly signal: AbortSignal
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

/**
 * The one signal of a running job. It aborts for the first of: the lease is lost, BullMQ's own lock
 * on the job is lost, the job is cancelled, or the worker shuts down past its limit. The reason
 * says which. The signal is made when it is asked for: many jobs end before, and it costs as much
 * as a command. So does BullMQ's own, which `LockedWorker` therefore does not ask for.
 */
export class JobSignal {
  /** BullMQ's, of a worker that asks for it. */
  readonly #given: AbortSignal | undefined
  #lease: Pick<Lease, 'signal'> | undefined
  #abort: AbortController | undefined
  #early: { readonly reason: unknown } | undefined
  #isOver = false

  constructor(given: AbortSignal | undefined) {
    this.#given = given
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      setMaxListeners(0, this.#abort.signal) // The jobs of a batch share it.
      if (this.#early !== undefined) this.#abort.abort(this.#early.reason)
      if (this.#given !== undefined) this.#listen(this.#given)
      if (this.#lease !== undefined) this.#listen(this.#lease.signal)
    }
    return this.#abort.signal
  }

  /** For the loss of its lease, only where the signal was asked for. */
  get isAborted(): boolean {
    if (this.#given?.aborted === true) this.abort(this.#given.reason)
    return this.#early !== undefined
  }

  /** Why it was aborted, if it was. */
  get reason(): unknown {
    return this.#early?.reason
  }

  abort(reason: unknown): void {
    if (this.#isOver) return
    // rule: first-reason-counts
    this.#early ??= { reason }
    this.#abort?.abort(reason)
  }

  /** Its signal is asked for when this one is. */
  follow(lease: Pick<Lease, 'signal'>): void {
    this.#lease = lease
    if (this.#abort !== undefined) this.#listen(lease.signal)
  }

  /** The job has ended: the signal stays as it is, and the sources are let go of. */
  end(): void {
    this.#isOver = true
    if (this.#abort !== undefined) {
      this.#given?.removeEventListener('abort', this)
      this.#lease?.signal.removeEventListener('abort', this)
    }
    this.#lease = undefined
  }

  /** One of the sources has aborted. */
  handleEvent({ target }: Event): void {
    this.abort((target as AbortSignal).reason)
  }

  #listen(source: AbortSignal): void {
    if (source.aborted) this.abort(source.reason)
    else source.addEventListener('abort', this)
  }
}

/** A String, so that it stands for BullMQ's token where BullMQ's methods take one. */
export class SteppedLease extends String implements JobLease {
  checkpoints: Checkpoints | undefined
  currentStep: string | undefined
  readonly resources: readonly string[]
  readonly fencingToken: number
  readonly leaseMs: number
  readonly #visit: Visit
  readonly #lease: Lease
  /** Those that have not ended, with their names. */
  readonly openSteps: Map<Promise<unknown>, string> = new Map()
  #logger: Logger | undefined

  constructor(visit: Visit, lease: Lease) {
    super(visit.job.token ?? '')
    this.resources = lease.resources
    this.fencingToken = lease.fencingToken
    this.leaseMs = lease.leaseMs
    this.#visit = visit
    this.#lease = lease
  }

  get signal(): AbortSignal {
    return this.#visit.stop.signal
  }

  get resource(): string {
    return this.#lease.resource
  }

  get trustedUntil(): number {
    return this.#lease.trustedUntil
  }

  get logger(): Logger {
    const { job, options } = this.#visit
    this.#logger ??= childLogger(options.logger, ofJob({ job, lease: this.#lease }))
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
    const visit = this.#visit
    const { lines, ordered } = visit.options
    if (lines === undefined || !ordered) {
      throw new Error("`rateLimit` needs a LockedWorker with order 'strict': no other keeps lines")
    }
    const limits = new LineLimits(lines)
    const sleeping = visit.resources.map((name) => limits.sleep(name, delayMs))
    visit.asleepUntil = systemClock.now() + Math.max(...(await visit.awaits(Promise.all(sleeping))))
    return new RateLimitError()
  }

  step<Result>(
    name: string,
    fn: (context: StepContext) => Promise<Result> | Result,
  ): Promise<Result> {
    const given: unknown = name
    // Its result is looked for by it, and it has to come back from a server as it is.
    // rule: step-has-a-name
    if (typeof given !== 'string' || given === '' || !given.isWellFormed()) {
      refuse('name', 'that of a step: whole characters, at least one', given)
    }
    const { job, stop, options } = this.#visit
    const { channel } = options
    const lease = this.#lease
    const about = { job, lease, step: name }
    channel.tell('step:started', about)
    const startedAt = systemClock.now()
    const run = async (): Promise<Result> => {
      this.currentStep = name
      this.#assertMayGoOn()
      // Where no quorum answers, what is left of the lease stands, and its renewal is tried again.
      // rule: step-extends-the-lease
      if (lease.remainingMs() < FRESH * lease.leaseMs) await lease.extend()
      const earlier = await this.checkpoints?.completed(name)
      this.#assertMayGoOn()
      if (earlier !== undefined) return earlier.value as Result
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
    const isTraced = channel.hears('within')
    const running = isTraced ? channel.within({ kind: 'step', ...about }, run) : run()
    this.openSteps.set(running, name)
    const end = this.openSteps.delete.bind(this.openSteps, running)
    running.then(end, end)
    if (!channel.hears('step:ended')) return running
    const ended = (outcome: 'done' | 'failed') => (): void => {
      channel.tell('step:ended', { ...about, outcome, tookMs: systemClock.now() - startedAt })
    }
    running.then(ended('done'), ended('failed'))
    return running
  }

  #assertMayGoOn(): void {
    const { stop } = this.#visit
    if (stop.isAborted) throw asError(stop.reason)
    this.#lease.assertHeld()
  }
}

/** Why a lease that was not released may not be trusted any more, if so. */
export function lossOf(lease: Lease | undefined): LeaseLostError | undefined {
  try {
    lease?.assertHeld()
    return undefined
  } catch (error) {
    return error instanceof LeaseLostError ? error : undefined
  }
}
