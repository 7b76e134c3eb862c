/** Where the loads run: the servers, the worker processes, and the counters of both. */
import { randomUUID } from 'node:crypto'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { noPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import { startFleet } from '../../src/testing/index.ts'
import type * as Bench from '../bench.ts'
import { LockedQueue, Redlock, ShardedQueue, silentLogger } from '../built.ts'
import { cpuMs, sum } from '../rounds.ts'
import { inChunks, resource, tenantOf, weightOf } from './job.ts'
import type { Contender, KeyedJob, Orders } from './job.ts'
import { judge } from './judge.ts'
import { openGroupProducer, peerOf } from './peers.ts'
import {
  startBroker,
  startDatabase,
  startWorkers,
  type QueueServer,
  type Workers,
} from './workers.ts'

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

/** @param peers With the servers of all others that are installed. */
export async function openHarness(processes: number, peers = false) {
  const fleet = await startFleet({ masters: 5 })
  const nodeWorkers = await startWorkers(processes)
  const queueRedis = new Redis(fleet.queue.url, { maxRetriesPerRequest: null })
  const namespace = `bench-${randomUUID().slice(0, 8)}`
  const lock = { masters: fleet.urls, namespace, leaseMs: LEASE_MS }
  const founder = new Redlock({ ...lock, maxLeaseMs: LEASE_MS, logger: silentLogger })
  await founder.bootstrap({ newFleet: true })
  await founder.close()
  const servers = new Map<Contender, QueueServer>()
  if (peers) servers.set('bunqueue', await startBroker())
  const bunWorkers = peers ? await startWorkers(processes, 'bun') : nodeWorkers
  if (peers && !noPostgres) {
    const database = await startDatabase()
    servers.set('pg-boss', database).set('graphile-worker', database)
  }

  function orders(contender: Contender, queue: string, concurrency: number): Orders {
    const { host, port } = fleet.queue
    const connection = servers.get(contender)?.connection ?? { host, port }
    return { contender, queue, connection, concurrency, ...lock }
  }

  /** A queue that BullMQ carries, from its producers' side. */
  function open(contender: Contender, name: string): Queue<KeyedJob> {
    const { connection } = orders(contender, name, 1)
    if (contender === 'plain') return new Queue<KeyedJob>(name, { connection })
    if (contender === 'sharded') {
      return new ShardedQueue<KeyedJob>(name, { connection, resource, shards: 1 })
    }
    return new LockedQueue<KeyedJob>(name, {
      ...{ connection, resource },
      ...(contender === 'tenants' && { tenant: tenantOf, weight: weightOf }),
    })
  }

  /** Adds jobs to a queue of BullMQ's or groupmq's. */
  async function producer(contender: Contender, name: string) {
    if (contender === 'groupmq') return openGroupProducer(orders(contender, name, 1))
    const queue = open(contender, name)
    await queue.waitUntilReady()
    const add = (all: readonly KeyedJob[]): Promise<void> =>
      inChunks(all, (some) => queue.addBulk(some.map((data) => ({ name: 'job', data }))))
    return { add, close: () => queue.close() }
  }

  /** Those in which a contender works. */
  const workersOf = (contender: Contender): Workers =>
    contender === 'bunqueue' ? bunWorkers : nodeWorkers

  async function add(contender: Contender, queue: string, all: readonly KeyedJob[]): Promise<void> {
    if (peerOf(contender) !== undefined) {
      return workersOf(contender).add(orders(contender, queue, 1), all)
    }
    const adding = await producer(contender, queue)
    await adding.add(all)
    await adding.close()
  }

  /** Empties the contender's server for the next load. */
  async function clear(contender: Contender, queue: string): Promise<void> {
    await servers.get(contender)?.clear(queue)
    await queueRedis.flushall()
  }

  /** Of the queue's Redis, since it started. */
  async function queueEffort() {
    const stats = await queueRedis.info('commandstats')
    const calls = (name: string): number => {
      const found = stats.matchAll(new RegExp(`cmdstat_${name}:calls=(\\d+)`, 'g'))
      return sum([...found].map((one) => Number(one[1])))
    }
    const cpuUs = cpuMs(await queueRedis.info('cpu')) * 1_000
    return { commands: calls('[^:]+'), scripts: calls('(?:evalsha|eval|fcall)'), cpuUs }
  }

  /** Runs a load to its end, in a queue of its own. */
  async function run(contender: Contender, load: Load) {
    const queue = newQueueName()
    const { concurrency, processes, kept = true } = load
    const count = load.jobs.length
    await add(contender, queue, load.jobs)
    const before = await queueEffort()
    const keys = new Set(load.jobs.map(({ key }) => key)).size
    const workers = workersOf(contender)
    const asked = { ...orders(contender, queue, concurrency), keys, removes: !kept }
    await workers.work(asked, processes)
    await workers.completed(count)
    const after = await queueEffort()
    const { each, ...tally } = await workers.stop()
    await clear(contender, queue)
    if (tally.runs.length !== count) {
      throw new Error(`${contender}: ${tally.runs.length} runs of ${count} jobs`)
    }
    const judgement = judge(tally.runs)
    return {
      ...{ ...tally, ...judgement },
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

  return {
    ...{ fleet, workers: nodeWorkers, queueRedis, orders, open, producer, add, clear, run },
    async [Symbol.asyncDispose](): Promise<void> {
      for (const workers of new Set([nodeWorkers, bunWorkers])) await workers[Symbol.asyncDispose]()
      for (const server of new Set(servers.values())) await server[Symbol.asyncDispose]()
      queueRedis.disconnect()
      await fleet.close()
    },
  }
}

export type Harness = Awaited<ReturnType<typeof openHarness>>
/** What one load came to. */
export type Outcome = Awaited<ReturnType<Harness['run']>>

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
