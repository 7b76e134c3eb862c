/** A BullMQ processor that runs jobs under a lease, and the options that `LockedWorker` shares. */
import type { Job } from 'bullmq'
import type { Listener } from '../channel.ts'
import { systemClock } from '../clock.ts'
import type { LeaseLostError } from '../lock-errors.ts'
import { Log, loggedChannel } from '../log.ts'
import { defaultLogger, type Logger } from '../logger.ts'
import type { LockService } from '../lock/lock-service.ts'
import { type LeaseOptions, leaseOption } from '../lock/lease-options.ts'
import { MAX_SLOTS } from '../slots.ts'
import { choiceOption, integerOption, knownOptions, objectOption, refuse } from '../options.ts'
import type { JobLease } from './run/job-lease.ts'
import { insistToStart, workerOf } from './run/admission.ts'
import { batchedOf } from './run/batch.ts'
import { JobRuns, processOf, type Process } from './run/job-runs.ts'
import type { Requeue } from './run/requeue.ts'
import { Visits } from './run/visits.ts'
import { checkResourceOption, type ResourceOf } from '../line/placement.ts'

/**
 * Runs one job under its lease. A BullMQ `Processor` is one, too: the lease stands where BullMQ has
 * the job's token, and is one for BullMQ's methods: `job.moveToDelayed(timestamp, lease)`. `signal`
 * is `lease.signal`.
 */
export type LeasedProcessor<Data, Result, Name extends string = string> = (
  job: Job<Data, Result, Name>,
  lease: JobLease & string,
  signal: AbortSignal,
) => Promise<Result>

/** The options of `lockedProcessor`; `LockedWorker` has the first seven. */
/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface LockedProcessorOptions<Data = any> {
  /**
   * Names what a job touches, for example `customer:42`, or several names that are taken together.
   * Must return strings of 1 to 512 characters at once; a job for which it does not fails with a
   * `ResourceError`.
   */
  readonly resource: ResourceOf<Data>
  /**
   * The length of a job's lease, which is extended while the job runs. @defaultValue the `leaseMs`
   * of the Redlock
   */
  readonly leaseMs?: number
  /** The longest time one job may hold its lease. @defaultValue the `maxHoldMs` of the Redlock */
  readonly maxHoldMs?: number
  /** How many jobs of a resource may run at once. The same number everywhere. @defaultValue 1 */
  readonly slots?: number
  /**
   * A job that still waits for its resource this long after it could start first fails when it is
   * looked at next. A delay does not count, and a job that has run waits without a limit.
   * @defaultValue no limit
   */
  readonly maxWaitMs?: number
  /**
   * Pino or anything with its four methods. @defaultValue warnings and errors as JSON on standard
   * error
   */
  readonly logger?: Logger
  /**
   * The level of what is logged about every job and step; never more than `debug` unless asked.
   * @defaultValue 'debug'
   */
  readonly jobLogLevel?: 'debug' | 'info'
  /** Called when a job was requeued because it may not run yet. */
  readonly onRequeued?: (job: Job<Data>, requeue: Requeue) => void
  /** Called when a job's lease was lost while it ran. */
  readonly onLeaseLost?: (job: Job<Data>, error: LeaseLostError) => void
}

const KNOWN: Readonly<Record<keyof LockedProcessorOptions, true>> = {
  ...{ resource: true, leaseMs: true, maxHoldMs: true, slots: true, maxWaitMs: true },
  ...{ logger: true, jobLogLevel: true, onRequeued: true, onLeaseLost: true },
}

/** What `new Worker(name, processor)` takes. */
export interface LockedProcessor<Data, Result, Name extends string = string> {
  /** Three parameters on purpose: BullMQ passes its signal only to processors that declare it. */
  (
    job: Job<Data, Result, Name>,
    token: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Result>
  /**
   * Stops a job also when this worker loses BullMQ's lock on it. `LockedWorker` does it by itself.
   */
  watch(worker: LockRenewalEvents): void
}

/** The part of a BullMQ `Worker` that tells of lost job locks. */
export interface LockRenewalEvents {
  on(event: 'lockRenewalFailed', listener: (jobIds: string[]) => void): unknown
}

/**
 * For workers that are made elsewhere (NestJS's `WorkerHost`, an existing `new Worker`); otherwise
 * use {@link LockedWorker}. It keeps no lines: add jobs with an ordinary `Queue`. No worker wakes
 * those of a `LockedQueue`.
 * @throws TypeError for a bad option.
 * @example
 * ```ts
 * const resource = (job: Job): string => `customer:${job.data.customerId}`
 * const processor = lockedProcessor(redlock, { resource }, async (job, lease) => {
 *   await charge(job.data, { signal: lease.signal, fencingToken: lease.fencingToken })
 * })
 * processor.watch(new Worker('invoices', processor, { connection }))
 * ```
 */
export function lockedProcessor<Data = any, Result = any, Name extends string = string>(
  redlock: LockService,
  options: LockedProcessorOptions<Data>,
  processor: LeasedProcessor<Data, Result, Name>,
): LockedProcessor<Data, Result, Name> {
  objectOption(options, 'an object with `resource`')
  knownOptions(options, KNOWN)
  checkProcessorOptions(redlock, options, processor)
  if (batchedOf(processor) !== undefined) {
    refuse('processor', 'of one job: batches need a LockedWorker, which has lines', processor)
  }
  const runsOfWorkers = new WeakMap<object, JobRuns>()
  const noWorker = {}
  // Jobs of two queues have the same ids.
  // rule: each-worker-has-its-own-jobs
  const runsOf = (worker: object): JobRuns => {
    const runs = runsOfWorkers.get(worker) ?? jobRuns(redlock, options, processor)
    runsOfWorkers.set(worker, runs)
    return runs
  }
  const run = (job: Job, token: string | undefined, signal: AbortSignal | undefined) =>
    runsOf(workerOf(job) ?? noWorker).run(job, token, signal) as Promise<Result>
  const watch = (worker: LockRenewalEvents): void => {
    worker.on('lockRenewalFailed', (jobIds) => {
      runsOf(worker).options.visits.locksLost(jobIds)
    })
  }
  return Object.assign(run, { watch })
}

/** @internal */
export function jobRuns<Data, Result, Name extends string>(
  redlock: LockService,
  options: LockedProcessorOptions<Data>,
  processor: LeasedProcessor<Data, Result, Name>,
): JobRuns {
  const { logger = defaultLogger(), resource, maxWaitMs = Infinity, jobLogLevel } = options
  const leaseOptions = jobLeaseOptions(options)
  // What is told of a job is the job that BullMQ gave, and its own error.
  const told: Listener['on'] = {
    'job:requeued': ({ job, why }) => options.onRequeued?.(job as never, why as Requeue),
    'job:lease-lost': ({ job, error }) => options.onLeaseLost?.(job as never, error as never),
  }
  const channel = loggedChannel(new Log(logger, jobLogLevel), undefined, [{ on: told }])
  return new JobRuns({
    ...{ locks: redlock, leaseOptions, waitMs: 0, resource: resource as ResourceOf, maxWaitMs },
    process: lockedFirst(processOf(processor)),
    visits: new Visits(redlock, leaseOptions, 0),
    ...{ channel, logger },
  })
}

/**
 * Only a `LockedWorker` knows until when BullMQ's lock on a job lasts. Another worker may have
 * stood still since it fetched the job, so it asks the queue's Redis about one that is not new.
 */
function lockedFirst(process: Process): Process {
  return async (visit, lease) => {
    const { job, token = '' } = visit
    const { lockDuration = 30_000 } = workerOf(job)?.opts ?? {}
    if (systemClock.wallNow() - (job.processedOn ?? Infinity) > lockDuration / 2) {
      const extend = async (): Promise<number> => {
        const askedAt = systemClock.now()
        return (await job.extendLock(token, lockDuration)) ? askedAt + lockDuration : 0
      }
      // rule: job-that-is-not-new-is-asked-for
      visit.lockedUntil = await insistToStart(visit, extend)
    }
    return process(visit, lease)
  }
}

/** @internal The lease of each job. Frozen, so that `Redlock` checks it once. */
export function jobLeaseOptions({
  slots,
  leaseMs,
  maxHoldMs,
}: LockedProcessorOptions): LeaseOptions {
  return Object.freeze({
    autoExtend: true,
    ...(slots !== undefined && { slots }),
    ...(leaseMs !== undefined && { leaseMs }),
    ...(maxHoldMs !== undefined && { maxHoldMs }),
  })
}

/** @internal @throws TypeError for a bad option. */
export function checkProcessorOptions<Data>(
  redlock: LockService,
  options: LockedProcessorOptions<Data>,
  processor: unknown,
): void {
  const given: unknown = redlock // Callers without types may leave it out.
  if (typeof given !== 'object' || given === null || !('tryAcquire' in given)) {
    refuse('redlock', 'a Redlock or another lock service', given)
  }
  if (typeof processor !== 'function') {
    const why =
      'a function of (job, lease): a sandboxed processor file cannot be given a lease. Call it from the function'
    refuse('processor', why, processor)
  }
  const leaseMs = leaseOption(options.leaseMs ?? redlock.leaseMs, redlock.maxLeaseMs)
  if (options.maxHoldMs !== undefined) {
    integerOption('maxHoldMs', options.maxHoldMs, leaseMs, Number.MAX_SAFE_INTEGER)
  }
  if (options.slots !== undefined) integerOption('slots', options.slots, 1, MAX_SLOTS)
  if (options.slots !== undefined && options.slots > 1 && redlock.lacks?.includes('slots')) {
    refuse('slots', '1: this lock service lacks slots', options.slots)
  }
  if (options.maxWaitMs !== undefined) {
    integerOption('maxWaitMs', options.maxWaitMs, 1, Number.MAX_SAFE_INTEGER)
  }
  choiceOption('jobLogLevel', options.jobLogLevel ?? 'debug', ['debug', 'info'])
  checkResourceOption(options.resource)
}
