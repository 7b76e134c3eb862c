/**
 * The jobs that run in this worker, and what stops one of them from outside: BullMQ's lock on it is
 * lost, it is cancelled, or the worker shuts down.
 */
import type { Job } from 'bullmq'
import { JobCancelledError, JobLockLostError, LeaseLostError } from '../../errors.ts'
import type { Channel } from '../../channel.ts'
import { systemClock } from '../../clock.ts'
import type { Lease } from '../../lock/lease.ts'
import type { LineBackend } from '../../line/line-backend.ts'
import { cancelRequests } from '../../line/cancel.ts'
import { asError } from './failure.ts'
import { JobSignal } from './job-signal.ts'

/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface Running<Data = any, Result = any, Name extends string = string> {
  readonly job: Job<Data, Result, Name>
  /** Of BullMQ's lock on the job. */
  readonly token: string | undefined
  readonly signal: JobSignal
  /** BullMQ's lock on the job was confirmed at this time, on the monotonic clock. */
  readonly startedAt: number
  /** Once it has its lease. */
  lease: Lease | undefined
  /** Its lease was found lost at this time, on the monotonic clock. */
  lostAt?: number
  /** Ends the job without its processor. */
  giveUp?: (error: Error) => void
  /** Its resource sleeps until then, on the monotonic clock: it has called `lease.rateLimit()`. */
  asleepUntil?: number
  /** Of a job in a batch: that of its first job. */
  batch?: JobSignal
  /** One job of a batch was cancelled. The others continue. */
  cancelled?: Error
}

export interface RunningJobsOptions {
  readonly lines?: LineBackend | undefined
  readonly channel: Channel
}

export class RunningJobs {
  readonly #options: RunningJobsOptions
  /** A job is here twice when another run began while the first one works without its lock. */
  readonly #jobs = new Set<Running>()

  constructor(options: RunningJobsOptions) {
    this.#options = options
  }

  /** How many they are. */
  get size(): number {
    return this.#jobs.size
  }

  /** @param signal BullMQ's, of a worker that asks for it. */
  start<Data, Result, Name extends string>(
    job: Job<Data, Result, Name>,
    token: string | undefined,
    signal: AbortSignal | undefined,
  ): Running<Data, Result, Name> {
    const running: Running<Data, Result, Name> = {
      job,
      token,
      signal: new JobSignal(signal),
      startedAt: systemClock.now(),
      lease: undefined,
    }
    this.#jobs.add(running)
    return running
  }

  end(running: Running): void {
    this.#jobs.delete(running)
  }

  /** BullMQ's locks on these jobs are lost: they may run elsewhere. */
  locksLost(jobIds: readonly string[]): void {
    for (const run of jobIds.flatMap((id) => this.#runsOf(id))) this.#stop(run)
  }

  /**
   * BullMQ's locks were renewed last at this time: a job whose lock is older than `lockMs` may run
   * elsewhere.
   */
  loseLocksBefore(renewedAt: number, lockMs: number): void {
    const now = systemClock.now()
    for (const run of this.#jobs) {
      if (now - Math.max(renewedAt, run.startedAt) > lockMs) this.#stop(run)
    }
  }

  /** What `work` gives, unless the job is given up before: see `giveUpLost`. */
  unlessGivenUp<Value>(running: Running, work: Promise<Value>): Promise<Value> {
    const givenUp = new Promise<never>((_, reject) => {
      running.giveUp = reject
    })
    return Promise.race([work, givenUp])
  }

  /**
   * A processor may go on although its lease was lost `graceMs` ago: then its job fails without it,
   * so that its line goes on.
   */
  giveUpLost(graceMs: number): void {
    const now = systemClock.now()
    for (const run of this.#jobs) {
      const lost = lossOf(run.lease)
      if (lost === undefined) continue
      run.lostAt ??= now
      // rule: lost-job-does-not-stand-in-its-line
      if (now - run.lostAt > graceMs) run.giveUp?.(lost)
    }
  }

  /** Stops jobs that `queue.cancel()` was called for, in this process or another one. */
  async pollCancels(): Promise<void> {
    const ids = [...this.#jobs].flatMap(({ job: { id } }) => (id === undefined ? [] : [id]))
    const { lines } = this.#options
    if (lines === undefined || ids.length === 0) return
    for (const { jobId, token, reason } of await cancelRequests(lines, ids)) {
      const error = new JobCancelledError(jobId, reason)
      for (const running of this.#runsOf(jobId)) {
        // rule: cancel-of-one-run
        if (running.token === token) cancel(running, error)
      }
    }
  }

  /** As BullMQ's own: false for a job that does not run here. */
  cancel(jobId: string, reason: string | undefined): boolean {
    const runs = this.#runsOf(jobId)
    for (const running of runs) cancel(running, reason)
    return runs.length > 0
  }

  abortAll(reason: unknown): void {
    for (const { signal } of this.#jobs) signal.abort(reason)
  }

  /** Releases all their leases. */
  async release(): Promise<void> {
    await Promise.all([...this.#jobs].map(async ({ lease }) => lease?.release()))
  }

  #runsOf(jobId: string): readonly Running[] {
    return [...this.#jobs].filter(({ job }) => job.id === jobId)
  }

  #stop({ job, lease, signal, batch }: Running): void {
    if (signal.isAborted) return
    if (lease !== undefined) this.#options.channel.tell('job:lock-lost', { job, lease })
    const error = new JobLockLostError(job.id ?? '')
    // rule: lost-lock-stops-its-job
    signal.abort(error)
    batch?.abort(error)
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

function cancel(running: Running, reason: unknown): void {
  // rule: cancel-does-not-stop-its-batch
  if (running.batch === undefined) running.signal.abort(reason)
  else running.cancelled = asError(reason)
}
