/** One worker of a sharded queue: a `LockedWorker` for each shard, which share `concurrency`. */
import type { Job } from 'bullmq'
import { EventEmitter } from 'node:events'
import { getOrInsert } from '../get-or-insert.ts'
import type { LockService } from '../lock/lock-service.ts'
import { objectOption, refuse } from '../options.ts'
import { resourcesOf } from '../line/resource.ts'
import type { LeasedProcessor } from '../worker/locked-processor.ts'
import type { DrainOptions, LockedWorker, LockedWorkerListener } from '../worker/locked-worker.ts'
import type { LockedWorkerOptions } from '../worker/locked-worker-options.ts'
import { Permits } from './permits.ts'
import { checkedShards, prefixesOf, shardOf } from './placement.ts'
import { ShardWorker } from './shard-worker.ts'
import { Shards, type Lent } from './shards.ts'

/** The options of a `LockedWorker`, and how many shards its queue has. */
/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface ShardedWorkerOptions<Data = any> extends Omit<
  LockedWorkerOptions<Data>,
  'redlock' | 'limiter'
> {
  /** How many queues share the resources. It is the same as that of the `ShardedQueue`. */
  readonly shards: number
  /**
   * Where the leases come from: one for all shards, or one for each, in their order. Those have
   * namespaces of their own. A resource that another queue uses too needs the same lock service
   * there.
   */
  readonly redlock: LockService | readonly LockService[]
  /**
   * How many jobs this process runs at once, over all shards. A shard without jobs leaves its share
   * to the others. @defaultValue 1
   */
  readonly concurrency?: number
}

type EventsOf<Listener> = {
  [Event in keyof Listener]: Listener[Event] extends (...args: infer Args) => unknown ? Args : never
}

/** What each shard tells is told. */
const EACH = [
  ...(['active', 'completed', 'failed', 'progress', 'stalled', 'error', 'requeued'] as const),
  ...(['leaseLost', 'lockRenewalFailed', 'locksRenewed', 'breaker'] as const),
]
/** Told when the last shard tells it, and what undoes it. */
const TOGETHER = {
  ...{ ready: undefined, closing: undefined, closed: undefined },
  ...{ drained: 'active', paused: 'resumed', resumed: 'paused' },
} as const
const none = (): undefined => undefined
const LENT = {
  ...{ why: 'job', inspect: 'resource', pause: none, resume: none, waitUntilReady: none },
} as const satisfies Partial<Record<keyof LockedWorker, Lent>>
const Lending = EventEmitter as unknown as new <Data, Result, Name extends string>() => Pick<
  LockedWorker<Data, Result, Name>,
  keyof typeof LENT
> &
  EventEmitter<EventsOf<LockedWorkerListener<Data, Result, Name>>>

/**
 * A `LockedWorker` of a `ShardedQueue`. Its options, methods and events are those of a
 * `LockedWorker`; it has no `limiter`, because each shard would count for itself.
 * @example
 * ```ts
 * const worker = new ShardedWorker(
 *   'invoices',
 *   async (job, lease) => lease.step('charge', (context) => charge(job.data, context)),
 *   {
 *     connection, // an ioredis Cluster
 *     shards: 4,
 *     redlock,
 *     resource: (job) => `customer:${job.data.customerId}`,
 *     concurrency: 20,
 *   },
 * )
 * process.once('SIGTERM', () => void worker.drain({ timeoutMs: 25_000 }))
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
  readonly #parts: Shards<LockedWorker<Data, Result, Name>>
  readonly #permits: Permits
  #concurrency: number
  #starting: Promise<void> | undefined
  #closed: Promise<void> | undefined

  /** @throws TypeError for a bad option, among them `limiter`. */
  constructor(
    name: string,
    processor: LeasedProcessor<Data, Result, Name>,
    options: ShardedWorkerOptions<Data>,
  ) {
    super()
    objectOption(options, 'an object with `connection`, `redlock`, `shards` and `resource`')
    if ('limiter' in options) {
      refuse('limiter', 'absent: each shard would count for itself. Use `rate` of the queue', true)
    }
    const { shards: count, prefix = 'bull', concurrency = 1, autorun = true, ...others } = options
    const shards = checkedShards(count)
    const prefixes = prefixesOf(prefix, shards)
    const locks = locksOf(options.redlock, shards)
    const { resource } = options
    this.name = name
    this.#concurrency = concurrency
    this.#permits = new Permits(concurrency, shards)
    this.shards = prefixes.map((each, shard) => {
      const placed = (job: Job): readonly string[] => {
        const named = resourcesOf(resource, job, job.id)
        const other = shardOf(named, shards)
        // rule: shard-runs-no-job-of-another
        if (other === shard) return named
        throw new Error(`named ${named.join()} of shard ${other} for a job in shard ${shard}`)
      }
      const own = { ...others, prefix: each, concurrency, resource: placed, autorun: false }
      const locked = { ...own, redlock: locks[shard] as LockService }
      const worker = new ShardWorker(
        shard,
        this.#permits,
        name,
        processor as never,
        locked as never,
      )
      return worker as unknown as LockedWorker<Data, Result, Name>
    })
    this.#parts = new Shards(name, this.shards)
    this.#parts.lend(this, LENT)
    const sets = new Map<string, Set<number>>()
    for (const [shard, worker] of this.shards.entries()) {
      this.#listen(worker, shard, (event) => getOrInsert(sets, event, () => new Set()))
    }
    if (autorun) {
      this.run().catch((error: unknown) => {
        this.#tell('error', error)
      })
    }
  }

  /** How many jobs this process runs at once, over all shards. */
  get concurrency(): number {
    return this.#concurrency
  }

  set concurrency(concurrency: number) {
    for (const worker of this.shards) worker.concurrency = concurrency
    this.#concurrency = concurrency
    this.#permits.total = concurrency
  }

  /**
   * As that of a `LockedWorker`.
   * @throws ShardsDifferError where others work with another number of shards.
   */
  async run(): Promise<void> {
    this.#starting = this.#parts.check()
    try {
      await this.#starting
    } finally {
      this.#starting = undefined
    }
    if (this.#closed === undefined) await this.#each((worker) => worker.run())
  }

  /** As that of a `LockedWorker`: a shard is about to fetch its first job. */
  isStarting(): boolean {
    return this.#starting !== undefined || this.shards.some((worker) => worker.isStarting())
  }

  /** As BullMQ's. */
  isRunning(): boolean {
    return this.#starting !== undefined || this.shards.some((worker) => worker.isRunning())
  }

  /** As BullMQ's. */
  isPaused(): boolean {
    return this.shards.every((worker) => worker.isPaused())
  }

  /** As BullMQ's. @returns whether a shard runs the job. */
  cancelJob(jobId: string, reason?: string): boolean {
    return this.shards.filter((worker) => worker.cancelJob(jobId, reason)).length > 0
  }

  /** As BullMQ's. */
  cancelAllJobs(reason?: string): void {
    for (const worker of this.shards) worker.cancelAllJobs(reason)
  }

  /** As that of a `LockedWorker`: all shards within the time. */
  async drain(options?: DrainOptions): Promise<void> {
    this.#closed ??= this.#each((worker) => worker.drain(options))
    await this.#closed
  }

  /** As that of a `LockedWorker`. */
  async close(force = false): Promise<void> {
    this.#closed = this.#each((worker) => worker.close(force))
    await this.#closed
  }

  async #each(action: (worker: LockedWorker<Data, Result, Name>) => Promise<void>): Promise<void> {
    await Promise.all(this.shards.map(action))
  }

  #tell(event: string, ...args: readonly unknown[]): void {
    this.emit(event as never, ...(args as never))
  }

  #listen(
    worker: LockedWorker<Data, Result, Name>,
    shard: number,
    told: (event: string) => Set<number>,
  ): void {
    for (const event of EACH) {
      worker.on(event, (...args: readonly unknown[]) => {
        this.#tell(event, ...args)
      })
    }
    for (const [event, undone] of Object.entries(TOGETHER)) {
      worker.on(event as 'ready', (...args: unknown[]) => {
        if (told(event).add(shard).size === this.shards.length) this.#tell(event, ...args)
      })
      if (undone !== undefined) worker.on(undone as 'active', () => void told(event).delete(shard))
    }
  }
}

function locksOf(
  redlock: LockService | readonly LockService[],
  shards: number,
): readonly LockService[] {
  if (!Array.isArray(redlock)) return Array<LockService>(shards).fill(redlock as LockService)
  const locks = redlock as readonly LockService[]
  const namespaces = new Set(locks.map((each) => each.namespace))
  // rule: locks-of-shards-are-told-apart
  if (namespaces.size !== shards || locks.length !== shards) {
    refuse('redlock', `one lock service, or ${shards}, each with another namespace`, redlock)
  }
  return locks
}
