/** The options of a `LockedWorker`: BullMQ's, the lease's, and what comes on top. */
import type { WorkerOptions } from 'bullmq'
import type { LockService } from '../lock/lock-service.ts'
import { namesLockKeys } from '../names.ts'
import { choiceOption, integerOption, objectOption, refuse } from '../options.ts'
import { bullmqOptions } from './bullmq-options.ts'
import { checkProcessorOptions, type LockedProcessorOptions } from './locked-processor.ts'
import { batchedOf } from './run/batch.ts'
import type { Dedupe } from './run/results.ts'

/** BullMQ's worker options and the lease's. */
/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface LockedWorkerOptions<Data = any>
  extends
    WorkerOptions,
    Pick<
      LockedProcessorOptions<Data>,
      'resource' | 'leaseMs' | 'maxHoldMs' | 'slots' | 'maxWaitMs' | 'logger' | 'jobLogLevel'
    > {
  /** Where the leases come from. Not closed with the worker: several workers may share it. */
  readonly redlock: LockService
  /**
   * `strict`: jobs of one resource run in the order in which they were added, through retries and
   * crashes, and wait asleep until it is their turn. `relaxed`: in any order; a job that waits
   * tries again after random delays.
   * @defaultValue 'strict'
   */
  readonly order?: 'strict' | 'relaxed'
  /**
   * What a job that failed for good does to its line. `continue`: the next one runs. `block`: the
   * line waits until the failed job is retried, removed, or passed over by `queue.skip(jobId)`.
   * Then no failed job is removed by itself, whatever `removeOnFail` of a job says.
   * @defaultValue 'continue'
   */
  readonly onFailure?: 'continue' | 'block'
  /**
   * One computation for all jobs of the queue with the same name and resource (or `key`) within
   * `resultTtlMs`: the others complete with its result, kept as JSON. A failure is not shared: the
   * next in line tries.
   */
  readonly dedupe?: Dedupe<Data>
  /**
   * Keep the results of steps, so that a job that is retried or taken over does not run a completed
   * step again.
   * @defaultValue false
   */
  readonly checkpoints?: boolean
  /**
   * Milliseconds of work that jobs of one resource may do in a row while jobs of other resources
   * wait. Then its next job goes behind them. A smaller number is fairer to others; within a burst
   * the lease is handed on, which costs the lock masters little. @defaultValue 50
   */
  readonly burstMs?: number
  /** The largest result or checkpoint that is kept, as JSON. @defaultValue 1 MiB */
  readonly maxValueBytes?: number
}

/** False: BullMQ's. */
const KNOWN: Readonly<Record<keyof LockedWorkerOptions | keyof WorkerOptions, boolean>> = {
  ...{ redlock: true, resource: true, leaseMs: true, maxHoldMs: true, slots: true, order: true },
  ...{ maxWaitMs: true, logger: true, jobLogLevel: true, onFailure: true, dedupe: true },
  ...{ checkpoints: true, burstMs: true, maxValueBytes: true },
  ...{ connection: false, prefix: false, name: false, autorun: false, concurrency: false },
  ...{ blockingConnection: false, limiter: false, metrics: false, telemetry: false },
  ...{ settings: false, lockDuration: false, lockRenewTime: false, stalledInterval: false },
  ...{ maxStalledCount: false, maxStartedAttempts: false, removeOnComplete: false },
  ...{ removeOnFail: false, drainDelay: false, runRetryDelay: false, skipLockRenewal: false },
  ...{ skipStalledCheck: false, skipVersionCheck: false, skipWaitingForReady: false },
  ...{ maximumRateLimitDelay: false, useWorkerThreads: false, workerForkOptions: false },
  ...{ workerThreadsOptions: false },
}
/** A job survives this many crashed or frozen workers. BullMQ has 1; a deploy may be two. */
const MAX_STALLED_COUNT = 3

type WithDefaults =
  'order' | 'onFailure' | 'slots' | 'maxWaitMs' | 'checkpoints' | 'burstMs' | 'maxValueBytes'

const DEFAULTS: Required<Pick<LockedWorkerOptions, WithDefaults>> = {
  order: 'strict',
  onFailure: 'continue',
  slots: 1,
  maxWaitMs: Infinity,
  checkpoints: false,
  burstMs: 50,
  maxValueBytes: 1_048_576,
}

/** With our defaults. */
export type OurOptions<Data> = LockedWorkerOptions<Data> & typeof DEFAULTS

/** The options, checked and with our defaults; and of them BullMQ's. */
export function separate<Data>(
  name: string,
  processor: object,
  options: LockedWorkerOptions<Data>,
): {
  readonly ours: OurOptions<Data>
  readonly bullmq: WorkerOptions
} {
  objectOption(options, 'an object with `connection`, `redlock` and `resource`')
  const bullmq: WorkerOptions = bullmqOptions(options, KNOWN)
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  const ours = { ...DEFAULTS, ...Object.fromEntries(given) } as OurOptions<Data>
  const { order, onFailure, dedupe, burstMs, maxValueBytes } = ours
  refuseUnsafe(bullmq)
  choiceOption('order', order, ['strict', 'relaxed'])
  choiceOption('onFailure', onFailure, ['continue', 'block'])
  integerOption('maxValueBytes', maxValueBytes, 1, Number.MAX_SAFE_INTEGER)
  if (dedupe !== undefined) {
    integerOption('dedupe.resultTtlMs', dedupe.resultTtlMs, 1, Number.MAX_SAFE_INTEGER)
  }
  integerOption('burstMs', burstMs, 0, Number.MAX_SAFE_INTEGER)
  if (dedupe?.fresh === true && order !== 'strict') {
    refuse(
      'dedupe.fresh',
      "absent with order 'relaxed': only a line knows what was added when",
      true,
    )
  }
  checkProcessorOptions(options.redlock, options, processor)
  if (batchedOf(processor) !== undefined) refuseWithBatches(ours)
  if (onFailure === 'block' && bullmq.removeOnFail !== undefined) {
    refuse('removeOnFail', "absent with `onFailure: 'block'`: a failed job holds its line", true)
  }
  const { leaseMs, namespace } = options.redlock
  const { prefix = 'bull' } = bullmq
  const base = `${prefix}:${name}`
  // rule: no-queue-has-the-keys-of-its-locks
  if (base.startsWith(`${namespace}:`) && namesLockKeys(base)) {
    const expected = 'another prefix or queue name: with it, keys of the queue are keys of locks'
    refuse('prefix', expected, prefix)
  }
  return { ours, bullmq: { ...recoveryOptions(options.leaseMs ?? leaseMs), ...bullmq } }
}

/**
 * After `kill -9` the job runs again soon after its resource is free. BullMQ's defaults take 89 s,
 * and later jobs of the resource overtake it: its check marks in one pass and moves in the next.
 */
function recoveryOptions(
  leaseMs: number,
): Pick<WorkerOptions, 'lockDuration' | 'stalledInterval' | 'maxStalledCount'> {
  return {
    // rule: crashed-job-runs-again-soon
    lockDuration: leaseMs,
    stalledInterval: Math.min(1_000, Math.max(100, Math.floor(leaseMs / 5))),
    maxStalledCount: MAX_STALLED_COUNT,
  }
}

function refuseUnsafe(options: WorkerOptions): void {
  if (options.maxStartedAttempts !== undefined) {
    const why =
      'absent: a job that waits for its resource is started several times. Bound failures with `attempts`'
    refuse('maxStartedAttempts', why, options.maxStartedAttempts)
  }
  if (options.skipLockRenewal === true) {
    refuse('skipLockRenewal', 'absent: a job without its BullMQ lock runs twice', true)
  }
}

/** With a processor of batches. */
function refuseWithBatches<Data>(options: LockedWorkerOptions<Data>): void {
  const { order, checkpoints, dedupe } = options
  const batches = 'with a batchProcessor'
  if (order !== 'strict') refuse('order', `'strict' ${batches}: others keep no lines`, order)
  if (checkpoints === true) refuse('checkpoints', `absent ${batches}: steps are of one job`, true)
  if (dedupe !== undefined) refuse('dedupe', `absent ${batches}: results are of one job`, dedupe)
}
