/**
 * A BullMQ processor that runs its job under a lease:
 *
 *   name the resource ─ acquire ─ not granted ─▶ requeue with a random delay, no attempt used
 *                          │
 *                          └ granted ─▶ keep alive, run the user's processor under one signal ─▶ release, always
 *
 * What the processor returns or throws is what BullMQ gets: finished work stays finished even if the lease was
 * lost in its last moment (writes of a lost lease are what fencing tokens are for), and `leaseLost` reports it.
 */
import { DelayedError, type Job } from 'bullmq'
import { systemClock } from '../clock.ts'
import { JobLockLostError, LeaseLostError } from '../errors.ts'
import type { Lease } from '../lock/lease.ts'
import type { LockService } from '../lock/lock-service.ts'
import { integerOption, refuse } from '../options.ts'
import { admit } from './admission.ts'
import { SteppedLease, type JobLease } from './job-lease.ts'
import { JobSignal } from './job-signal.ts'
import type { Lines } from './lines.ts'
import { park, requeue, type Requeue } from './requeue.ts'
import { resourceOption, resourcesOf, type ResourceOf } from './resource.ts'

/** Runs one job under its lease. */
export type LeasedProcessor<Data, Result, Name extends string = string> = (
  job: Job<Data, Result, Name>,
  lease: JobLease,
) => Promise<Result>

export interface LockedProcessorOptions<Data = unknown> {
  /**
   * Names what a job touches, for example `customer:42`, or several names that are taken together. Must return
   * strings of 1 to 512 characters at once; a job for which it does not fails with a `ResourceError`.
   */
  readonly resource: ResourceOf<Data>
  /** @defaultValue the `leaseMs` of the Redlock */
  readonly leaseMs?: number
  /** The longest time one job may hold its lease. @defaultValue the `maxHoldMs` of the Redlock */
  readonly maxHoldMs?: number
  /** Called when a job was given back to the queue because it may not run yet. */
  readonly onRequeued?: (job: Job<Data>, requeue: Requeue) => void
  /** Called when a job's lease was lost while it ran. */
  readonly onLeaseLost?: (job: Job<Data>, error: LeaseLostError) => void
  /** @internal Whose turn it is; `LockedWorker` sets it. */
  readonly lines?: () => Lines | undefined
}

/** What `new Worker(name, processor)` takes. */
export interface LockedProcessor<Data, Result, Name extends string = string> {
  /** Three parameters on purpose: BullMQ passes its signal only to processors that declare it. */
  (
    job: Job<Data, Result, Name>,
    token: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Result>
  /** Stops a job also when this worker loses BullMQ's lock on it. `LockedWorker` does it by itself. */
  watch(worker: LockRenewalEvents): void
}

/** The part of a BullMQ `Worker` that tells of lost job locks. */
export interface LockRenewalEvents {
  on(event: 'lockRenewalFailed', listener: (jobIds: string[]) => void): unknown
}

/**
 * For workers that are made elsewhere (NestJS's `WorkerHost`, an existing `new Worker`); everybody else uses
 * {@link LockedWorker}.
 * @throws TypeError for a bad option.
 * @example
 * const processor = lockedProcessor(redlock, { resource: (job) => `customer:${job.data.id}` }, charge)
 * processor.watch(new Worker('invoices', processor, { connection }))
 */
export function lockedProcessor<Data = unknown, Result = unknown, Name extends string = string>(
  redlock: LockService,
  options: LockedProcessorOptions<Data>,
  processor: LeasedProcessor<Data, Result, Name>,
): LockedProcessor<Data, Result, Name> {
  const resource = checkOptions(redlock, options, processor)
  const leaseOptions = {
    autoExtend: true,
    ...(options.leaseMs !== undefined && { leaseMs: options.leaseMs }),
    ...(options.maxHoldMs !== undefined && { maxHoldMs: options.maxHoldMs }),
  }
  const running = new Map<string, JobSignal>()
  const clock = systemClock

  const run = async (
    job: Job<Data, Result, Name>,
    token: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Result> => {
    const resources = resourcesOf(() => resource(job), job.id)
    const lines = options.lines?.()
    const outcome = await admit({ locks: redlock, leaseOptions, lines, clock }, job, resources)
    if (outcome.status !== 'granted') {
      const why =
        outcome.status === 'in-line'
          ? await park(job, token, resources, outcome.lines, clock)
          : await requeue(job, token, outcome, clock)
      options.onRequeued?.(job, why)
      // BullMQ knows by this error that the job was moved; it must come from the outermost frame.
      throw new DelayedError(why.reason)
    }
    const { lease } = outcome
    const jobSignal = new JobSignal()
    jobSignal.follow(lease.signal)
    jobSignal.follow(signal)
    const id = job.id ?? ''
    running.set(id, jobSignal)
    try {
      return await runUnder(jobSignal.signal, lease, (jobLease) => processor(job, jobLease))
    } finally {
      if (running.get(id) === jobSignal) running.delete(id)
      jobSignal.end()
      const lost: unknown = lease.signal.aborted ? lease.signal.reason : undefined
      await lease.release()
      if (lost instanceof LeaseLostError) options.onLeaseLost?.(job, lost)
    }
  }
  const watch = (worker: LockRenewalEvents): void => {
    worker.on('lockRenewalFailed', (jobIds: string[]) => {
      for (const jobId of jobIds) running.get(jobId)?.abort(new JobLockLostError(jobId))
    })
  }
  return Object.assign(run, { watch })
}

async function runUnder<Result>(
  signal: AbortSignal,
  lease: Lease,
  work: (jobLease: JobLease) => Promise<Result>,
): Promise<Result> {
  try {
    return await work(new SteppedLease(lease, signal))
  } catch (error) {
    // I/O that was stopped by the signal says only "aborted"; the reason says why.
    const stopped = signal.aborted && error instanceof Error && error.name === 'AbortError'
    throw stopped ? (signal.reason as Error) : error
  }
}

function checkOptions<Data>(
  redlock: unknown,
  options: LockedProcessorOptions<Data>,
  processor: unknown,
): ResourceOf<Data> {
  if (typeof redlock !== 'object' || redlock === null || !('tryAcquire' in redlock)) {
    refuse('redlock', 'a Redlock', redlock)
  }
  if (typeof processor !== 'function') {
    const why =
      'a function of (job, lease): a sandboxed processor file cannot be given a lease. Call it from the function'
    refuse('processor', why, processor)
  }
  if (options.leaseMs !== undefined) {
    integerOption('leaseMs', options.leaseMs, 100, Number.MAX_SAFE_INTEGER)
  }
  return resourceOption<Data>(options.resource)
}
