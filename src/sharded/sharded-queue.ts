/**
 * One queue over several Redis servers: n queues of one name under n prefixes, each in a slot of
 * its own. A resource lives in one of them, so its order and its limits are exact.
 */
import type { Job, JobSchedulerJson, JobsOptions, JobType, Metrics } from 'bullmq'
import type { CancelOptions, Cancelled } from '../line/cancel.ts'
import { resourcesOf } from '../line/resource.ts'
import { ShardError } from '../errors.ts'
import { objectOption, refuse } from '../options.ts'
import { LockedQueue, type LockedQueueOptions } from '../worker/locked-queue.ts'
import { checkedShards, idMaker, prefixesOf, shardNamed, shardOf } from './placement.ts'
import { Shards, type Lent } from './shards.ts'

/** The options of a `LockedQueue`, and how many shards it has. */
/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface ShardedQueueOptions<Data = any> extends LockedQueueOptions<Data> {
  /**
   * How many queues share the resources, from 1 to 64: one for each node that the cluster may have
   * one day. It is the same everywhere, and does not change. `prefix` becomes one in braces for
   * each: `bull` becomes `{bull-0-…}`, `{bull-1-…}`, …
   */
  readonly shards: number
}

type Add<Data, Name> = { name: Name; data: Data; opts?: JobsOptions }

/** Made of what each shard answers. */
const first = ([answer]: readonly unknown[]): unknown => answer
const found = (answers: readonly unknown[]): unknown => answers.find((each) => each != null)
const every = (answers: readonly boolean[]): boolean => answers.every(Boolean)
const some = (answers: readonly boolean[]): boolean => answers.some(Boolean)
const most = (answers: readonly number[]): number => Math.max(...answers)
const sum = (answers: readonly number[]): number => answers.reduce((all, each) => all + each, 0)
const sums = (answers: readonly Readonly<Record<string, number>>[]): unknown =>
  Object.fromEntries(
    Object.keys(answers[0] ?? {}).map((key) => [key, sum(answers.map((each) => each[key] ?? 0))]),
  )
const union = (answers: readonly ReadonlyMap<unknown, unknown>[]): unknown =>
  new Map(answers.flatMap((each) => [...each]))
/** Minute by minute, the latest first. */
function metrics(answers: readonly Metrics[]): Metrics {
  const metas = answers.map(({ meta }) => meta)
  const prevTS = most(metas.map((meta) => meta.prevTS))
  const data: number[] = []
  for (const { meta, data: own } of answers) {
    // One that has counted nothing since has fewer minutes.
    const behind = Math.floor((prevTS - meta.prevTS) / MINUTE_MS)
    for (const [nr, jobs] of own.entries()) data[nr + behind] = (data[nr + behind] ?? 0) + jobs
  }
  const [count, prevCount] = [sum(metas.map((m) => m.count)), sum(metas.map((m) => m.prevCount))]
  const filled = Array.from(data, (jobs: number | undefined) => jobs ?? 0)
  return { meta: { count, prevTS, prevCount }, data: filled, count: data.length }
}

/** What is done with the methods of a `LockedQueue`. The others of BullMQ only call these. */
export const LENT = {
  ...{ getJob: 'job', getJobState: 'job', getJobLogs: 'job', getDependencies: 'job' },
  ...{ remove: 'job', updateJobProgress: 'job', addJobLog: 'job', skip: 'job', position: 'job' },
  ...{ pauseResource: 'resource', resumeResource: 'resource', getLimits: 'resource' },
  ...{ setSlots: 'resource', resetSlots: 'resource', setRate: 'resource', resetRate: 'resource' },
  ...{ pause: first, resume: first, drain: first, retryJobs: first, promoteJobs: first },
  ...{ rateLimit: first, waitUntilReady: first, getVersion: first, getMeta: first },
  ...{ getWorkers: first, getQueueEvents: first, getJobCounts: sums, getCountsPerPriority: sums },
  ...{ getDelayedCount: sum, getJobSchedulersCount: sum, trimEvents: sum, leaveLines: sum },
  ...{ removeDeduplicationKey: sum, removeRateLimitKey: sum, removeOrphanedJobs: sum },
  ...{ removeDebounceKey: sum, removeDeprecatedPriorityKey: sum, getMetrics: metrics },
  ...{ isPaused: every, removeJobScheduler: some, getRateLimitTtl: most, getWorkersCount: most },
  ...{ getJobScheduler: found, getDeduplicationJobId: found, getDebounceJobId: found },
  ...{ getAllLimits: union, getRanges: 'Use `getJobs`.' },
  ...{ setGlobalConcurrency: 'Use `setSlots`.', removeGlobalConcurrency: 'It has none.' },
  ...{ setGlobalRateLimit: 'Use `setRate`.', removeGlobalRateLimit: 'It has none.' },
} as const satisfies Partial<Record<keyof LockedQueue, Lent>>

/** By which lists of several shards are merged. */
function timeIn(type: JobType): (job: Job) => number {
  if (type === 'completed' || type === 'failed') return ({ finishedOn = 0 }) => finishedOn
  if (type === 'active') return ({ processedOn = 0 }) => processedOn
  return ({ timestamp, delay, priority }) => priority * 1e13 + timestamp + delay
}
const TYPES = 'active completed delayed failed prioritized waiting waiting-children'.split(' ')
const MINUTE_MS = 60_000

/**
 * A `LockedQueue` over several Redis servers. Its methods are those of a `LockedQueue`, and ask
 * every shard, or the one that has the job or the resource. Flows and limits that would need
 * several shards at once are refused.
 * @example
 * ```ts
 * const queue = new ShardedQueue('invoices', {
 *   connection, // an ioredis Cluster
 *   shards: 4,
 *   resource: (data) => `customer:${data.customerId}`,
 * })
 * await queue.add('invoice', { customerId: 42, amount: 10 })
 * console.log(await queue.getJobCounts())
 * ```
 */
export class ShardedQueue<
  Data = any,
  Result = any,
  Name extends string = string,
> extends LockedQueue<Data, Result, Name> {
  /** The queues, such as for flows whose jobs are all in one. */
  readonly shards: readonly LockedQueue<Data, Result, Name>[]
  readonly #parts: Shards<LockedQueue<Data, Result, Name>>
  readonly #resource: LockedQueueOptions<Data>['resource']
  readonly #newId = idMaker()

  /** @throws TypeError for a bad option, and for a release of BullMQ that is not supported. */
  constructor(name: string, options: ShardedQueueOptions<Data>) {
    objectOption(options, 'an object with `connection`, `shards` and `resource`')
    const { shards, prefix = 'bull', ...others } = options
    const prefixes = prefixesOf(prefix, checkedShards(shards))
    // What BullMQ reads from a queue itself is that of the first shard.
    super(name, { ...others, prefix: prefixes[0] ?? '' })
    this.#resource = others.resource
    this.shards = prefixes.map((each) => new LockedQueue(name, { ...others, prefix: each }))
    this.#parts = new Shards(name, this.shards)
    this.#parts.lend(this, LENT)
    for (const event of ['error', 'waiting', 'progress', 'removed', 'cleaned'] as const) {
      for (const queue of this.shards) {
        queue.on(event, (...args: unknown[]) => this.emit(event, ...(args as never)))
      }
    }
    // These happen to all.
    for (const event of ['paused', 'resumed'] as const) {
      this.#parts.at(0).on(event, () => this.emit(event))
    }
  }

  /**
   * As that of a `LockedQueue`. The id names the shard, such as `3~Yx…`; a given one stays.
   * @throws ShardError where the resources of the job, its parent or its id belong to several
   * shards; ShardsDifferError where others work with another number of shards.
   */
  override async add(name: Name, data: Data, opts?: JobsOptions): Promise<Job<Data, Result, Name>> {
    const { shard, job } = this.#placed({ name, data, ...(opts && { opts }) })
    await this.#parts.check()
    return this.#parts.at(shard).add(name, data, job.opts)
  }

  /** As `add`. Where one is refused for its shard or its resource, none is added. */
  override async addBulk(jobs: Add<Data, Name>[]): Promise<Job<Data, Result, Name>[]> {
    const placed = jobs.map((job) => this.#placed(job))
    const added = await this.#parts.ask(async (queue) => {
      const own = placed.filter(({ shard }) => this.#parts.at(shard) === queue)
      return own.length === 0 ? [] : queue.addBulk(own.map(({ job }) => job))
    })
    const rests = added.map((each) => each.values())
    return placed.map(({ shard }) => rests[shard]?.next().value as Job<Data, Result, Name>)
  }

  /** As BullMQ's. The data of the template name its resource, and so its shard. */
  override async upsertJobScheduler(
    ...args: Parameters<LockedQueue<Data, Result, Name>['upsertJobScheduler']>
  ): Promise<Job<Data, Result, Name>> {
    const [id, , { data = {} as Data } = {}] = args
    const mine = this.#parts.at(this.#placed({ name: id, data }).shard)
    // rule: scheduler-is-in-one-shard
    await this.#parts.ask(async (queue) => queue !== mine && queue.removeJobScheduler(id))
    return mine.upsertJobScheduler(...args)
  }

  /** As BullMQ's: the first ones of all shards. */
  override async getJobSchedulers(
    start = 0,
    end = -1,
    asc = false,
  ): Promise<JobSchedulerJson<Data>[]> {
    const [from, to] = rangeOf(start, end)
    const lists = await this.#parts.ask((queue) => queue.getJobSchedulers(0, end, asc))
    return merged(lists, ({ next = 0 }) => next, asc).slice(from, to)
  }

  /** As BullMQ's. Jobs of several shards are merged by their times. */
  override async getJobs(
    types: JobType | JobType[] = [],
    start = 0,
    end = -1,
    asc = false,
  ): ReturnType<LockedQueue<Data, Result, Name>['getJobs']> {
    const [from, to] = rangeOf(start, end)
    const wanted = [types].flat()
    const all = wanted.length > 0 ? new Set(wanted) : (TYPES as JobType[])
    const lists = [...all].map(async (type) => {
      const found = await this.#parts.ask((queue) => queue.getJobs([type], 0, end, asc))
      return merged(found, timeIn(type), asc).slice(from, to)
    })
    return (await Promise.all(lists)).flat()
  }

  /** As BullMQ's, one shard after the other until `limit` jobs are removed; 0 for any number. */
  override async clean(
    ...[graceMs, limit, type]: Parameters<LockedQueue['clean']>
  ): Promise<string[]> {
    await this.#parts.check()
    const removed: string[] = []
    for (const queue of this.shards) {
      if (limit > 0 && removed.length >= limit) break
      const rest = limit > 0 ? limit - removed.length : limit
      removed.push(...(await queue.clean(graceMs, rest, type)))
    }
    return removed
  }

  /**
   * As BullMQ's. It removes nothing where a job runs in any shard, without `force`. Afterwards a
   * queue of another number of shards may have this name, if all processes have stopped.
   */
  override async obliterate(opts: Parameters<LockedQueue['obliterate']>[0] = {}): Promise<void> {
    await this.#parts.ask((queue) => queue.pause())
    const active = await this.#parts.ask((queue) => queue.getActiveCount())
    // rule: refused-obliterate-removes-nothing
    const busy = opts.force === true ? undefined : this.shards[active.findIndex((jobs) => jobs > 0)]
    await busy?.obliterate(opts)
    await this.#parts.ask((queue) => queue.obliterate(opts))
    this.#parts.forget()
  }

  /** As that of a `LockedQueue`. */
  override async cancel(
    target: string | { readonly resource: string },
    options: CancelOptions = {},
  ): Promise<readonly Cancelled[]> {
    await this.#parts.check()
    const isJob = typeof target === 'string'
    const shard = isJob ? await this.#parts.ofJob(target) : this.#parts.of(target.resource)
    return shard.cancel(target, options)
  }

  /** Closes all shards. */
  override async close(): Promise<void> {
    await Promise.all([super.close(), ...this.shards.map((queue) => queue.close())])
  }

  /** @throws ResourceError, ShardError */
  #placed({ name, data, opts = {} }: Add<Data, Name>): {
    readonly shard: number
    readonly job: { name: Name; data: Data; opts: JobsOptions }
  } {
    const { jobId, parent } = opts
    const shard = shardOf(resourcesOf(this.#resource, data, jobId), this.shards.length)
    const own = this.#parts.at(shard).qualifiedName
    // rule: flow-is-in-one-shard
    if (parent !== undefined && parent.queue !== own) {
      throw new ShardError(
        `The parent of a job has to be in the shard of the job, \`${own}\`, and this one is in \`${parent.queue}\`. ` +
          `Give their resources a common part in braces, and add the flow with the prefix of that shard.`,
      )
    }
    const named = jobId === undefined ? shard : (shardNamed(jobId) ?? shard)
    // rule: id-names-the-shard-of-its-job
    if (named !== shard) {
      throw new ShardError(
        `The id ${jobId ?? ''} names shard ${named}, and the resource of the job is in shard ${shard}. Leave it out, or use one without \`~\`.`,
      )
    }
    return { shard, job: { name, data, opts: { ...opts, jobId: jobId ?? this.#newId(shard) } } }
  }
}

/** As `slice` takes it. @throws TypeError for a range that begins at the end. */
function rangeOf(start: number, end: number): readonly [from: number, to: number | undefined] {
  if (start < 0) refuse('start', '0 or more in a sharded queue', start)
  if (end < -1) refuse('end', '-1 or more in a sharded queue', end)
  return [start, end === -1 ? undefined : end + 1]
}

/** Those of one shard that are equal stay in their order. */
function merged<Item>(
  lists: readonly (readonly Item[])[],
  timeOf: (item: Item) => number,
  asc: boolean,
): Item[] {
  return lists.flat().sort((a, b) => (asc ? timeOf(a) - timeOf(b) : timeOf(b) - timeOf(a)))
}
