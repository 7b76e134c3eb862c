/** Where the loads run: the servers, the worker processes, and the counters of both. */
import { randomUUID } from 'node:crypto'
import { Queue, type JobsOptions } from 'bullmq'
import { Redis } from 'ioredis'
import { LockedQueue, Redlock } from '../built.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { Crew } from './crew.ts'
import { addToGroups } from './groupmq.ts'
import { wokenId, type Contender, type KeyedJob, type Orders, type Tally } from './job.ts'
import { judge, type Judgement } from './judge.ts'
import { silentLogger } from '../../src/index.ts'

const LEASE_MS = 2_000
const WORKERS = 4
const ADD_AT_ONCE = 1_000

export interface Load {
  readonly jobs: readonly KeyedJob[]
  readonly concurrency: number
  /** How many processes work. @defaultValue all */
  readonly processes?: number
  /** Before the workers start, or while they wait for work. @defaultValue 'before' */
  readonly added?: 'before' | 'after'
}

export interface Outcome extends Tally, Judgement {
  /** From the moment in which workers and jobs were both there until the last job was completed. */
  readonly tookMs: number
  /** Commands that were executed by the queue's Redis, those inside scripts included, per job. */
  readonly queueCommands: number
  /** Commands that clients sent to one lock master, per job; of the busiest master. */
  readonly masterCommands: number
}

export class Lab implements AsyncDisposable {
  readonly fleet: Fleet
  readonly crew: Crew
  readonly queueRedis: Redis
  readonly #masters: readonly Redis[]
  readonly #namespace = `bench-${randomUUID().slice(0, 8)}`

  static async open(): Promise<Lab> {
    const fleet = await startFleet({ masters: 5 })
    const lab = new Lab(fleet, await Crew.start(WORKERS))
    const founder = new Redlock({ ...lab.lock, maxLeaseMs: LEASE_MS, logger: silentLogger })
    await founder.bootstrap({ newFleet: true })
    await founder.close()
    return lab
  }

  private constructor(fleet: Fleet, crew: Crew) {
    this.fleet = fleet
    this.crew = crew
    this.queueRedis = new Redis(fleet.queue.url, { maxRetriesPerRequest: null })
    this.#masters = fleet.urls.map((url) => new Redis(url, { maxRetriesPerRequest: null }))
  }

  get connection(): { readonly host: string; readonly port: number } {
    return { host: this.fleet.queue.host, port: this.fleet.queue.port }
  }

  get lock(): Pick<Orders, 'masters' | 'namespace' | 'leaseMs'> {
    return { masters: this.fleet.urls, namespace: this.#namespace, leaseMs: LEASE_MS }
  }

  orders(contender: Contender, queue: string, concurrency: number): Orders {
    return { contender, queue, connection: this.connection, concurrency, ...this.lock }
  }

  /** A queue for LockedQueue's and BullMQ's contenders. */
  open(contender: Contender, queue: string): Queue<KeyedJob> {
    const { connection } = this
    if (contender !== 'strict' && contender !== 'dedupe')
      return new Queue<KeyedJob>(queue, { connection })
    const { namespace } = this.lock
    return new LockedQueue<KeyedJob>(queue, { connection, namespace, resource: ({ key }) => key })
  }

  async add(contender: Contender, queue: string, jobs: readonly KeyedJob[]): Promise<void> {
    if (contender === 'groupmq') {
      await addToGroups(this.orders(contender, queue, 1), jobs)
      return
    }
    const opened = this.open(contender, queue)
    for (let from = 0; from < jobs.length; from += ADD_AT_ONCE) {
      const some = jobs.slice(from, from + ADD_AT_ONCE)
      const opts = contender === 'woken' ? asleep : () => ({})
      await opened.addBulk(some.map((data) => ({ name: 'job', data, opts: opts(data) })))
    }
    await opened.close()
  }

  /** Runs a load to its end, in a queue of its own. */
  async run(contender: Contender, load: Load): Promise<Outcome> {
    const queue = `q-${randomUUID().slice(0, 8)}`
    const { jobs, concurrency, processes, added = 'before' } = load
    const before = await this.#counters()
    if (added === 'before') await this.add(contender, queue, jobs)
    await this.crew.work(this.orders(contender, queue, concurrency), processes)
    const startedAt = performance.now()
    if (added === 'after') await this.add(contender, queue, jobs)
    await this.crew.completed(jobs.length)
    const tookMs = performance.now() - startedAt
    const after = await this.#counters()
    const tally = await this.crew.stop()
    if (contender !== 'dedupe' && tally.runs.length !== jobs.length) {
      throw new Error(`${contender}: ${tally.runs.length} runs of ${jobs.length} jobs`)
    }
    const masters = after.masters.map((count, index) => count - (before.masters[index] ?? 0))
    return {
      ...tally,
      ...judge(tally.runs),
      tookMs,
      queueCommands: (after.queue - before.queue) / jobs.length,
      masterCommands: Math.max(...masters) / jobs.length,
    }
  }

  async #counters(): Promise<{ readonly queue: number; readonly masters: readonly number[] }> {
    const [queue = 0, ...masters]: readonly number[] = await Promise.all([
      callsOf(this.queueRedis, () => true),
      // What the scripts on a master do inside is not a trip.
      ...this.#masters.map((redis) => callsOf(redis, (name) => /^(evalsha|eval)$/.test(name))),
    ])
    return { queue, masters }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.crew[Symbol.asyncDispose]()
    for (const redis of [this.queueRedis, ...this.#masters]) redis.disconnect()
    await this.fleet.close()
  }
}

/** As LockedQueue adds a job behind others. */
function asleep({ key, nr }: KeyedJob): JobsOptions {
  return {
    jobId: wokenId(key, nr),
  }
}

async function callsOf(redis: Redis, counts: (name: string) => boolean): Promise<number> {
  const stats = await redis.info('commandstats')
  return [...stats.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].reduce(
    (sum, [, name = '', calls]) => (counts(name) ? sum + Number(calls) : sum),
    0,
  )
}

/** `each` jobs for every one of `keys`, in turns, as customers' orders come in. */
export function inTurns(keys: number, each: number, workMs: number): readonly KeyedJob[] {
  return Array.from({ length: keys * each }, (_, index) => ({
    key: `key-${index % keys}`,
    nr: Math.floor(index / keys),
    workMs,
  }))
}
