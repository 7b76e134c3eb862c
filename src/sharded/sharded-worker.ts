import { EventEmitter } from 'node:events'
import type { LockService } from '../lock/lock-service.ts'
import { objectOption, refuse } from '../options.ts'
import type { LeasedProcessor } from '../worker/locked-processor.ts'
import type { LockedWorker } from '../worker/locked-worker.ts'
import type { LockedWorkerOptions } from '../worker/locked-worker-options.ts'
import { prefixesOf, resourceIn } from './placement.ts'
import { ShardWorker, ShardWorkers } from './shard-worker.ts'
import { found, later } from './shards.ts'

/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
/** Those of a `LockedWorker`; `concurrency` is the total of all shards. */
export interface ShardedWorkerOptions<Data = any> extends Omit<
  LockedWorkerOptions<Data>,
  'redlock' | 'limiter'
> {
  /** As many as the `ShardedQueue` has. */
  readonly shards: number
  /**
   * Where the leases come from: one for all shards, or one for each, in their order, with
   * namespaces of their own. Another queue with the same resource needs the same one for it.
   */
  readonly redlock: LockService | readonly LockService[]
}

/** Of every shard. */
const allEnded = (drained: readonly Promise<boolean>[]): Promise<boolean> =>
  Promise.all(drained).then((ended) => ended.every(Boolean))
const EVENTS =
  'active completed failed progress stalled error requeued leaseLost lockRenewalFailed ' +
  'locksRenewed breaker drained/active paused/resumed resumed/paused ready/ closing/ closed/'
const Lending = EventEmitter as unknown as new <Data, Result, Name extends string>() => Pick<
  LockedWorker<Data, Result, Name>,
  | ('why' | 'inspect' | 'run' | 'pause' | 'resume' | 'waitUntilReady' | 'drain' | 'close')
  | ('isStarting' | 'isRunning' | 'isPaused' | 'cancelJob' | 'cancelAllJobs' | keyof EventEmitter)
>

/**
 * The worker of a `ShardedQueue`: a `LockedWorker` for each shard, which share `concurrency`. It
 * has no `limiter`, because each shard would count for itself.
 * @example
 * ```ts
 * const worker = new ShardedWorker(
 *   'invoices',
 *   async (job, lease) => lease.step('charge', (context) => charge(job.data, context)),
 *   { connection, shards: 4, redlock, resource: (job) => `customer:${job.data.customerId}` },
 * )
 * ```
 */
export class ShardedWorker<Data = any, Result = any, Name extends string = string> extends Lending<
  Data,
  Result,
  Name
> {
  /** The name of the queue. */
  readonly name: string
  /** One for each shard. */
  readonly shards: readonly LockedWorker<Data, Result, Name>[]

  /** @throws TypeError for a bad option, among them `limiter`. */
  constructor(
    name: string,
    processor: LeasedProcessor<Data, Result, Name>,
    options: ShardedWorkerOptions<Data>,
  ) {
    super()
    objectOption(options, 'an object with `connection`, `redlock`, `shards` and `resource`')
    const { limiter } = options as Pick<LockedWorkerOptions, 'limiter'>
    if (limiter !== undefined) {
      const why = 'absent: each shard would count for itself. Use `rate` of the queue'
      refuse('limiter', why, limiter)
    }
    const { shards, prefix, autorun = true, ...others } = options
    const prefixes = prefixesOf(prefix, shards)
    const locks = locksOf(options.redlock, shards)
    const workers = prefixes.map((each, shard) => {
      const resource = resourceIn(shard, shards, options.resource)
      const own = { ...others, prefix: each, redlock: locks[shard], resource, autorun: false }
      return new ShardWorker(name, processor as never, own as never)
    })
    const parts = new ShardWorkers(workers)
    this.name = name
    this.shards = workers.map((worker) => Object.assign(worker, { shards: parts })) as never
    parts.lend(this, 'why', 'job')
    parts.lend(this, 'inspect', 'resource')
    parts.lend(this, 'waitUntilReady', found)
    parts.lend(this, 'isStarting isRunning cancelJob cancelAllJobs', found, true)
    parts.lend(this, 'isPaused', (answers) => answers.every(Boolean), true)
    parts.lend(this, 'run resume close', later, true)
    const pause = (all: readonly Promise<void>[]): unknown =>
      later(all.map((paused, shard) => parts.call(parts.at(shard), (one) => one.rests(paused))))
    parts.lend(this, 'pause', pause, true)
    parts.lend(this, 'drain', allEnded, true)
    parts.forward(this, EVENTS)
    const first = parts.at(0)
    // BullMQ's `emit` prints an error that has no listener.
    const fail = (error: unknown): unknown => first.closing ?? first.emit('error', error as Error)
    if (autorun) this.run().catch(fail)
  }

  /** How many jobs this process runs at once, over all shards. */
  get concurrency(): number {
    return this.shards[0]?.concurrency ?? 0
  }

  set concurrency(concurrency: number) {
    for (const worker of this.shards) worker.concurrency = concurrency
  }
}

function locksOf(redlock: ShardedWorkerOptions['redlock'], shards: number): readonly LockService[] {
  if (!Array.isArray(redlock)) return Array<LockService>(shards).fill(redlock as LockService)
  const locks = redlock as readonly LockService[]
  // rule: locks-of-shards-are-told-apart
  if (new Set(locks.map((each) => each.namespace)).size === shards) return locks
  return refuse('redlock', `one lock service, or ${shards}, each with another namespace`, redlock)
}
