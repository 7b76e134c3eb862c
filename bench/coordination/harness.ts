/** Where the loads run: the servers, the worker processes, and the counters of both. */
import { randomUUID } from 'node:crypto'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { noPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import type * as Bench from '../bench.ts'
import { LockedQueue, Redlock, silentLogger } from '../built.ts'
import { cpuMs, sum } from '../rounds.ts'
import * as jobs from './job.ts'
import type { Contender, KeyedJob, Orders } from './job.ts'
import { judge } from './judge.ts'
import { openGroupProducer, peerOf } from './peers.ts'
import { startBroker, startDatabase, type QueueServer } from './servers.ts'
import { Workers } from './workers.ts'

export const LEASE_MS = 2_000
/** Neighbours get durations of work that are far apart. */
const PRIME = 7_919

export type Row = Bench.Row<Harness>

export interface Load {
  readonly jobs: readonly KeyedJob[]
  readonly concurrency: number
  /** How many processes work. @defaultValue all */
  readonly processes?: number
  /** Jobs that are done are kept, as BullMQ does by default. @defaultValue true */
  readonly kept?: boolean
}

/** What one load came to. */
export type Outcome = Awaited<ReturnType<Harness['run']>>

/** Adds jobs to a queue of BullMQ's or groupmq's. */
export interface Producer {
  add(jobs: readonly KeyedJob[]): Promise<unknown>
  close(): Promise<void>
}

export class Harness implements AsyncDisposable {
  readonly fleet: Fleet
  readonly workers: Workers
  readonly queueRedis: Redis
  readonly #servers = new Map<Contender, QueueServer>()
  #onBun: Workers | undefined
  readonly #namespace = `bench-${randomUUID().slice(0, 8)}`

  /** @param peers With the servers of all others that are installed. */
  static async open(processes: number, peers = false): Promise<Harness> {
    const fleet = await startFleet({ masters: 5 })
    const harness = new Harness(fleet, await Workers.start(processes))
    const { masters, namespace, leaseMs } = harness.orders('strict', '', 1)
    const lock = { masters, namespace, leaseMs, maxLeaseMs: leaseMs }
    const founder = new Redlock({ ...lock, logger: silentLogger })
    await founder.bootstrap({ newFleet: true })
    await founder.close()
    if (!peers) return harness
    harness.#servers.set('bunqueue', await startBroker())
    harness.#onBun = await Workers.start(processes, 'bun')
    if (!noPostgres) {
      const database = await startDatabase()
      harness.#servers.set('pg-boss', database).set('graphile-worker', database)
    }
    return harness
  }

  private constructor(fleet: Fleet, workers: Workers) {
    this.fleet = fleet
    this.workers = workers
    this.queueRedis = new Redis(fleet.queue.url, { maxRetriesPerRequest: null })
  }

  orders(contender: Contender, queue: string, concurrency: number): Orders {
    const { host, port } = this.fleet.queue
    const connection = this.#servers.get(contender)?.connection ?? { host, port }
    const lock = { masters: this.fleet.urls, namespace: this.#namespace, leaseMs: LEASE_MS }
    return { contender, queue, connection, concurrency, ...lock }
  }

  /** A queue that BullMQ carries, from its producers' side. */
  open(contender: Contender, name: string): Queue<KeyedJob> {
    const { connection } = this.orders(contender, name, 1)
    if (contender === 'plain') return new Queue<KeyedJob>(name, { connection })
    return new LockedQueue<KeyedJob>(name, {
      ...{ connection, resource: jobs.resource },
      ...(contender === 'tenants' && { tenant: jobs.tenantOf, weight: jobs.weightOf }),
    })
  }

  async producer(contender: Contender, name: string): Promise<Producer> {
    if (contender === 'groupmq') return openGroupProducer(this.orders(contender, name, 1))
    const queue = this.open(contender, name)
    await queue.waitUntilReady()
    return {
      add: (all) =>
        jobs.inChunks(all, (some) => queue.addBulk(some.map((data) => ({ name: 'job', data })))),
      close: () => queue.close(),
    }
  }

  /** Those in which a contender works. */
  workersOf(contender: Contender): Workers {
    return (contender === 'bunqueue' ? this.#onBun : undefined) ?? this.workers
  }

  async add(contender: Contender, queue: string, all: readonly KeyedJob[]): Promise<void> {
    if (peerOf(contender) !== undefined) {
      return this.workersOf(contender).add(this.orders(contender, queue, 1), all)
    }
    const producer = await this.producer(contender, queue)
    await producer.add(all)
    await producer.close()
  }

  /** Runs a load to its end, in a queue of its own. */
  async run(contender: Contender, load: Load) {
    const queue = newQueueName()
    const { concurrency, processes, kept = true } = load
    const count = load.jobs.length
    await this.add(contender, queue, load.jobs)
    const before = await this.#queueEffort()
    const keys = new Set(load.jobs.map(({ key }) => key)).size
    const workers = this.workersOf(contender)
    const orders = { ...this.orders(contender, queue, concurrency), keys, removes: !kept }
    await workers.work(orders, processes)
    await workers.completed(count)
    const after = await this.#queueEffort()
    const { each, ...tally } = await workers.stop()
    await this.clear(contender, queue)
    if (tally.runs.length !== count) {
      throw new Error(`${contender}: ${tally.runs.length} runs of ${count} jobs`)
    }
    const judgement = judge(tally.runs)
    return {
      ...tally,
      ...judgement,
      jobsPerSecond: (count / judgement.makespanMs) * 1_000,
      /** Of the jobs, in percent. */
      busiestShare: (Math.max(...each.map(({ runs }) => runs.length)) / count) * 100,
      clientUs: (tally.cpuMs * 1_000) / count,
      /** What the queue's Redis did per job while the workers ran; commands also in scripts. */
      queueUs: (after.cpuUs - before.cpuUs) / count,
      queueScripts: (after.scripts - before.scripts) / count,
      queueCommands: (after.commands - before.commands) / count,
    }
  }

  /** Empties the contender's server for the next load. */
  async clear(contender: Contender, queue: string): Promise<void> {
    await this.#servers.get(contender)?.clear(queue)
    await this.queueRedis.flushall()
  }

  /** Of the queue's Redis, since it started. */
  async #queueEffort() {
    const stats = await this.queueRedis.info('commandstats')
    const calls = (name: string): number => {
      const found = stats.matchAll(new RegExp(`cmdstat_${name}:calls=(\\d+)`, 'g'))
      return sum([...found].map((one) => Number(one[1])))
    }
    const cpuUs = cpuMs(await this.queueRedis.info('cpu')) * 1_000
    return { commands: calls('[^:]+'), scripts: calls('(?:evalsha|eval|fcall)'), cpuUs }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.workers[Symbol.asyncDispose]()
    await this.#onBun?.[Symbol.asyncDispose]()
    for (const server of new Set(this.#servers.values())) await server[Symbol.asyncDispose]()
    this.queueRedis.disconnect()
    await this.fleet.close()
  }
}

export function newQueueName(): string {
  return `q_${randomUUID().slice(0, 8)}` // It may also be the name of a schema.
}

/** `each` jobs for every one of `keys`, in turns, as customers' orders come in. */
export function inTurns(
  keys: number,
  each: number,
  workMs: number,
  spreadMs = 0,
): readonly KeyedJob[] {
  const prefix = newQueueName() // Lines are shared by queues: each load has lines of its own.
  return Array.from({ length: keys * each }, (_, index) => ({
    key: `${prefix}-key-${index % keys}`,
    nr: Math.floor(index / keys),
    workMs: workMs - spreadMs + ((index * PRIME) % (2 * spreadMs + 1)),
  }))
}
