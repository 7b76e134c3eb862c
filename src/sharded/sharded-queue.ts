import type { Job, JobSchedulerJson, JobsOptions, JobType, Metrics, Queue } from 'bullmq'
import { randomBytes } from 'node:crypto'
import { added } from '../added.ts'
import { sleep, systemClock } from '../clock.ts'
import { ShardError } from '../errors.ts'
import { LineBackend } from '../line/line-backend.ts'
import { resourcesOf } from '../names.ts'
import { objectOption } from '../options.ts'
import { LockedQueue, type LockedQueueOptions } from '../worker/locked-queue.ts'
import { prefixesOf, resourceIn, shardNamed, shardOf } from './placement.ts'
import { found, later, Shards, type Lent } from './shards.ts'

/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
/** The options of a `LockedQueue`, and how many shards it has. */
export interface ShardedQueueOptions<Data = any> extends LockedQueueOptions<Data> {
  /**
   * How many queues share the resources, from 1 to 64: one for each node that the cluster may have
   * one day. It does not change. The prefix `bull` becomes `{bull-0-…}`, `{bull-1-…}`, …
   */
  readonly shards: number
}

type Add<Data, Name> = { name: Name; data: Data; opts?: JobsOptions }
type Range = [start?: number, end?: number, asc?: boolean]

const TYPES = 'active completed delayed failed prioritized waiting waiting-children'.split(' ')
const EVENTS = 'error waiting progress removed paused/resumed resumed/paused'
/** In ids, so that no other process makes the same ones. */
const MAKER = randomBytes(9).toString('base64url')
let made = 0
const MINUTE_MS = 60_000
/** So that the next one of calls that disturb each other is alone. */
const MOVES_AGAIN_MS = 100
const sum = (answers: readonly number[]): number => answers.reduce((all, each) => all + each, 0)
const union = (answers: readonly ReadonlyMap<unknown, unknown>[]): unknown =>
  new Map(answers.flatMap((each) => [...each]))
const page = <Item>(items: readonly Item[], start = 0, end = -1): Item[] =>
  items.slice(start, end + 1 || undefined)
const timeOf = (item: Job | JobSchedulerJson): number => {
  if ('key' in item) return item.next ?? 0
  return item.finishedOn ?? item.priority * 1e13 + item.timestamp + item.delay
}

/** The methods of a `LockedQueue` that are lent. The others only call these, or ask the first. */
export const LENT: readonly (readonly [names: string, to: Lent])[] = [
  ['getJob getJobState getJobLogs getDependencies remove updateJobProgress addJobLog', 'job'],
  ['skip position cancel', 'job'],
  ['pauseResource resumeResource getLimits setSlots resetSlots setRate resetRate', 'resource'],
  ['pause resume drain retryJobs promoteJobs rateLimit waitUntilReady', found],
  ['getDelayedCount getJobSchedulersCount trimEvents leaveLines removeDeduplicationKey', sum],
  ['removeRateLimitKey removeOrphanedJobs removeDebounceKey removeDeprecatedPriorityKey', sum],
  ['removeJobScheduler getJobScheduler getDeduplicationJobId getDebounceJobId', found],
  ['getJobCounts getCountsPerPriority', added],
  ['getAllLimits', union],
  ['getRanges', '`getJobs`'],
  ['setGlobalConcurrency removeGlobalConcurrency', '`setSlots`'],
  ['setGlobalRateLimit removeGlobalRateLimit', '`setRate`'],
]

/**
 * A scheduler that moves leaves no job behind, as one that is set again in BullMQ.
 * @returns whether it was there.
 */
async function leaveScheduler(queue: Queue, id: string): Promise<boolean> {
  const scheduler = await queue.getJobScheduler(id)
  const wasThere = await queue.removeJobScheduler(id)
  const next = scheduler?.next
  // A running one stays.
  // rule: moved-scheduler-leaves-no-job
  if (next !== undefined) await queue.remove(`repeat:${id}:${next}`)
  return wasThere
}

/**
 * A `LockedQueue` over several Redis servers: n queues of one name under n prefixes, each in a slot
 * of its own. A resource lives in one of them, so its order and its limits are exact. The methods
 * ask every shard, or the one that has the job or the resource. What would need several shards at
 * once is refused.
 * @example
 * ```ts
 * const queue = new ShardedQueue('invoices', {
 *   ...{ connection, shards: 4, resource: (data) => `customer:${data.customerId}` },
 * })
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

  /** @throws TypeError for a bad option, and for a release of BullMQ that is not supported. */
  constructor(name: string, options: ShardedQueueOptions<Data>) {
    objectOption(options, 'an object with `connection`, `shards` and `resource`')
    const { shards, prefix = 'bull', ...others } = options
    const prefixes = prefixesOf(prefix, shards)
    // What BullMQ reads from a queue itself is that of the first shard.
    super(name, { ...others, prefix: prefixes[0] ?? '' })
    this.#resource = others.resource
    this.shards = prefixes.map((each, shard) => {
      const resource = resourceIn(shard, shards, others.resource)
      return new LockedQueue(name, { ...others, resource, prefix: each })
    })
    this.#parts = new Shards(this.shards)
    for (const [names, to] of LENT) this.#parts.lend(this, names, to)
    this.#parts.forward(this, EVENTS)
    new Shards([this, ...this.shards]).lend(this, 'close disconnect', later, true)
  }

  /**
   * As that of a `LockedQueue`. The id names the shard, such as `3~Yx…`; a given one stays.
   * @throws ShardError where the resources of the job, its parent or its id belong to several
   * shards; ShardsDifferError where others work with another number of shards.
   */
  override async add(name: Name, data: Data, opts?: JobsOptions): Promise<Job<Data, Result, Name>> {
    const placed = this.#placed(data, opts)
    return this.#parts.after([opts?.jobId], async () => {
      await this.#parts.check()
      return this.#parts.call(placed.queue, (queue) => queue.add(name, data, placed.opts))
    })
  }

  /**
   * As `add`. Where one is refused before it is sent, none is added. A shard that is away, or the
   * full line of a job, keeps no other shard from adding its jobs.
   */
  override async addBulk(jobs: Add<Data, Name>[]): Promise<Job<Data, Result, Name>[]> {
    const placed = jobs.map((job) => ({ ...job, ...this.#placed(job.data, job.opts) }))
    const isOfOneShard = placed.every(({ queue }) => queue === placed[0]?.queue)
    // rule: bulk-is-refused-as-a-whole
    for (const { queue, name, data, opts } of isOfOneShard ? [] : placed) {
      LineBackend.of(queue).settings.placement?.(JSON.stringify(data), opts.jobId)
      new this.Job(this, name, data, { ...this.jobsOpts, ...opts }, opts.jobId).toFlowEntry()
    }
    const added = new Map<unknown, Iterator<Job<Data, Result, Name>>>()
    const addIn = async (shard: LockedQueue<Data, Result, Name>): Promise<void> => {
      const own = placed.filter(({ queue }) => queue === shard)
      if (own.length > 0) added.set(shard, (await shard.addBulk(own)).values())
    }
    const ids = jobs.map(({ opts }) => opts?.jobId)
    await this.#parts.after(ids, () => this.#parts.ask(addIn))
    return placed.map(({ queue }) => added.get(queue)?.next().value as Job<Data, Result, Name>)
  }

  /** As BullMQ's. The data of the template name its resource, and so its shard. */
  override async upsertJobScheduler(
    ...args: Parameters<LockedQueue<Data, Result, Name>['upsertJobScheduler']>
  ): Promise<Job<Data, Result, Name>> {
    const { queue: mine } = this.#placed((args[2]?.data ?? {}) as Data)
    return this.#parts.inOrder(args[0], async () => {
      for (;;) {
        // rule: refused-scheduler-stays-as-it-was
        const job = await this.#parts.call(mine, (queue) => queue.upsertJobScheduler(...args))
        // rule: scheduler-is-in-one-shard
        const left = await this.#parts.ask(
          (queue) => queue !== mine && leaveScheduler(queue, args[0]),
        )
        const isAlone = (job as unknown) === undefined || !left.includes(true)
        // Two calls that move it at once may each have removed that of the other.
        // rule: scheduler-that-two-calls-move-is-there
        if (isAlone || (await this.getJobScheduler(args[0]))) return job
        await sleep(systemClock, systemClock.random() * MOVES_AGAIN_MS)
      }
    })
  }

  /** As BullMQ's: the first ones of all shards. */
  override getJobSchedulers(...range: Range): Promise<JobSchedulerJson<Data>[]> {
    return this.#list(range, (queue, ...all) => queue.getJobSchedulers(...all))
  }

  /** As BullMQ's. Jobs of several shards are merged by their times. */
  override async getJobs(types?: JobType | JobType[], ...range: Range): Promise<any[]> {
    const given = [types ?? []].flat() // BullMQ takes null.
    const wanted = new Set(given.length > 0 ? given : (TYPES as JobType[]))
    const lists = [...wanted].map((type) =>
      this.#list(range, (queue, ...all): Promise<Job[]> => queue.getJobs([type], ...all)),
    )
    return (await Promise.all(lists)).flat()
  }

  /** As BullMQ's. A shard that has counted nothing since has fewer minutes. */
  override async getMetrics(type: 'completed' | 'failed', start = 0, end = -1): Promise<Metrics> {
    const answers = await this.#parts.ask((queue) => queue.getMetrics(type))
    const prevTS = Math.max(...answers.map(({ meta }) => meta.prevTS))
    const minutes = answers.map(({ meta, data }) => {
      const behind = data.length > 0 ? Math.floor((prevTS - meta.prevTS) / MINUTE_MS) : 0
      return [...Array<number>(behind).fill(0), ...data]
    })
    const all = Object.values(added(minutes))
    const meta = added(answers.map((each) => each.meta))
    return { meta: { ...meta, prevTS }, data: page(all, start, end), count: all.length }
  }

  /** As BullMQ's. Each shard removes its share of `limit`; 0 stands for any number. */
  override async clean(
    ...[graceMs, limit, type = 'completed']: Parameters<Queue['clean']>
  ): Promise<string[]> {
    const shareOf = (shard: number): number => Math.ceil((limit - shard) / this.shards.length)
    // All at once: what is called next comes after it in each.
    const answers = await this.#parts.ask((queue) => {
      const share = limit > 0 ? shareOf(this.shards.indexOf(queue)) : limit
      return limit > 0 && share <= 0 ? [] : queue.clean(graceMs, share, type)
    })
    const removed = answers.flat()
    for (const [shard, { length }] of answers.entries()) {
      const rest = limit - removed.length
      // The others have no more jobs.
      if (!(rest > 0) || length < shareOf(shard)) continue
      const more = this.#parts.call(this.#parts.at(shard), (queue) =>
        queue.clean(graceMs, rest, type),
      )
      removed.push(...(await more))
    }
    this.emit('cleaned', removed, type === 'waiting' ? 'wait' : type)
    return removed
  }

  /** As BullMQ's. It removes nothing where a job runs in any shard, without `force`. */
  override async obliterate(opts: Parameters<LockedQueue['obliterate']>[0] = {}): Promise<void> {
    await this.pause()
    const active = await this.#parts.ask((queue) => queue.getActiveCount())
    // The queue pauses once, and each of its shards again would be told.
    const obliterate = async (queue: LockedQueue<Data, Result, Name>): Promise<void> => {
      const all = { force: false, count: 1_000, ...opts }
      while ((await LineBackend.of(queue).obliterate(all)) > 0);
    }
    const busiest = this.#parts.at(active.indexOf(Math.max(...active)))
    // rule: refused-obliterate-removes-nothing
    await this.#parts.call(busiest, obliterate)
    await this.#parts.ask((queue) => queue === busiest || obliterate(queue))
    this.#parts.recorded = undefined
  }

  /** @throws ResourceError, ShardError */
  #placed(data = {} as Data, given?: JobsOptions) {
    const { length } = this.shards
    const opts = given ?? {} // BullMQ takes null.
    const { jobId, parent } = opts
    const shard = length === 1 ? 0 : shardOf(resourcesOf(this.#resource, data, jobId), length)
    const queue = this.#parts.at(shard)
    const own = queue.qualifiedName
    const faults: string[] = []
    // rule: flow-is-in-one-shard
    if (parent && parent.queue !== own) faults.push(`a parent in \`${parent.queue}\``)
    // rule: id-names-the-shard-of-its-job
    if (jobId && (shardNamed(jobId, this.shards) ?? queue) !== queue) faults.push(`the id ${jobId}`)
    if (faults.length > 0) {
      throw new ShardError(
        `A job has its resource in shard ${shard}, \`${own}\`, and ${faults.join(' and ')} of another shard. ` +
          `Give both a common part in braces, and no id of another shard.`,
      )
    }
    // BullMQ counts for each shard: its own ids would be there several times.
    if (jobId || length === 1) return { queue, opts }
    return { queue, opts: { ...opts, jobId: `${shard}~${MAKER}${(made++).toString(36)}` } }
  }

  /** Those of one shard stay in their order, so that each is on one page. */
  async #list<Item extends Job | JobSchedulerJson>(
    [start = 0, end = -1, asc = false]: Range,
    ask: (queue: LockedQueue<Data, Result, Name>, ...all: Required<Range>) => Promise<Item[]>,
  ): Promise<Item[]> {
    const last = start < 0 || end < 0 ? -1 : end
    const lists = await this.#parts.ask((queue) => ask(queue, 0, last, asc))
    const items = lists.flatMap((list) => {
      let place = -Infinity
      return list.map((item) => {
        place = Math.max(place, (asc ? 1 : -1) * timeOf(item))
        return { item, place }
      })
    })
    items.sort((a, b) => a.place - b.place)
    return page(items, start, end).map(({ item }) => item)
  }
}
