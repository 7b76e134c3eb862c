/** Where the loads run: the servers, the worker processes, and the counters of both. */
import { randomUUID } from 'node:crypto'
import type { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { Redlock, silentLogger } from '../built.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { openGroupProducer } from './peers/groupmq.ts'
import type { Contender, KeyedJob, Orders, Peer, Tally } from './job.ts'
import { judge, type Judgement } from './judge.ts'
import { openQueue } from './open-queue.ts'
import { isPeer } from './peer-queue.ts'
import { onBun, startQueueServer, type QueueServer } from './servers.ts'
import { WorkerProcesses } from './worker-processes.ts'

export const LEASE_MS = 2_000
const PROCESSES = 4
const POSTGRES: readonly Contender[] = ['pg-boss', 'graphile-worker']
const ADD_AT_ONCE = 1_000
/** Neighbours get durations of work that are far apart. */
const PRIME = 7_919

export interface Load {
  readonly jobs: readonly KeyedJob[]
  readonly concurrency: number
  /** How many processes work. @defaultValue all */
  readonly processes?: number
  /** Jobs that are done are kept, as BullMQ does by default. @defaultValue true */
  readonly kept?: boolean
}

export interface Outcome extends Tally, Judgement {
  /** From the moment when workers and jobs were both there until the last job was completed. */
  readonly tookMs: number
  /** What the queue's Redis did per job while the workers ran. */
  readonly queue: Effort
  /** Commands that clients sent to the busiest lock master, per job. */
  readonly masterCommands: number
}

/** The work of one Redis server. */
export interface Effort {
  /** Commands, those inside scripts included. */
  readonly commands: number
  readonly scripts: number
  readonly cpuUs: number
}

/** Adds jobs to a queue of any contender. */
export interface Producer {
  add(jobs: readonly KeyedJob[]): Promise<void>
  close(): Promise<void>
}

export class Harness implements AsyncDisposable {
  readonly fleet: Fleet
  readonly processes: WorkerProcesses
  readonly queueRedis: Redis
  readonly #masters: readonly Redis[]
  readonly #servers = new Map<Contender, QueueServer>()
  #onBun: WorkerProcesses | undefined
  readonly #namespace = `bench-${randomUUID().slice(0, 8)}`

  static async open(processes = PROCESSES): Promise<Harness> {
    const fleet = await startFleet({ masters: 5 })
    const harness = new Harness(fleet, await WorkerProcesses.start(processes))
    const founder = new Redlock({ ...harness.lock, maxLeaseMs: LEASE_MS, logger: silentLogger })
    await founder.bootstrap({ newFleet: true })
    await founder.close()
    return harness
  }

  private constructor(fleet: Fleet, processes: WorkerProcesses) {
    this.fleet = fleet
    this.processes = processes
    this.queueRedis = new Redis(fleet.queue.url, { maxRetriesPerRequest: null })
    this.#masters = fleet.urls.map((url) => new Redis(url, { maxRetriesPerRequest: null }))
  }

  /** Starts what these need besides the queue's Redis and processes of Node. */
  async prepare(contenders: readonly Peer[]): Promise<void> {
    for (const contender of contenders) {
      const shared = POSTGRES.includes(contender)
        ? POSTGRES.map((one) => this.#servers.get(one)).find((one) => one !== undefined)
        : undefined
      const server = shared ?? (await startQueueServer(contender))
      if (server !== undefined) this.#servers.set(contender, server)
    }
    if (!contenders.includes('bunqueue') || this.#onBun !== undefined) return
    this.#onBun = await WorkerProcesses.start(this.processes.all.length, onBun())
  }

  /** The processes in which a contender works. */
  processesOf(contender: Contender): WorkerProcesses {
    if (contender !== 'bunqueue') return this.processes
    if (this.#onBun === undefined) throw new Error('bunqueue was not prepared')
    return this.#onBun
  }

  get lock(): Pick<Orders, 'masters' | 'namespace' | 'leaseMs'> {
    return { masters: this.fleet.urls, namespace: this.#namespace, leaseMs: LEASE_MS }
  }

  orders(contender: Contender, queue: string, concurrency: number): Orders {
    const { host, port } = this.fleet.queue
    const connection = this.#servers.get(contender)?.connection ?? { host, port }
    return { contender, queue, connection, concurrency, ...this.lock }
  }

  /** A queue that BullMQ carries. */
  open(contender: Contender, queue: string): Queue<KeyedJob> {
    return openQueue(contender, this.orders(contender, queue, 1))
  }

  async producer(contender: Contender, queue: string): Promise<Producer> {
    if (contender === 'groupmq') return openGroupProducer(this.orders(contender, queue, 1))
    const opened = this.open(contender, queue)
    await opened.waitUntilReady()
    return {
      async add(jobs) {
        for (let from = 0; from < jobs.length; from += ADD_AT_ONCE) {
          const some = jobs.slice(from, from + ADD_AT_ONCE)
          await opened.addBulk(some.map((data) => ({ name: 'job', data })))
        }
      },
      close: () => opened.close(),
    }
  }

  async add(contender: Contender, queue: string, jobs: readonly KeyedJob[]): Promise<void> {
    if (isPeer(contender)) {
      const { one } = this.processesOf(contender)
      await one.add(this.orders(contender, queue, 1), jobs)
      return
    }
    const producer = await this.producer(contender, queue)
    await producer.add(jobs)
    await producer.close()
  }

  /** Runs a load to its end, in a queue of its own. */
  async run(contender: Contender, load: Load): Promise<Outcome> {
    const queue = newQueueName()
    const { jobs, concurrency, processes, kept = true } = load
    await this.add(contender, queue, jobs)
    const queueBefore = await this.queueEffort()
    const mastersBefore = await this.#masterCommands()
    const keys = new Set(jobs.map(({ key }) => key)).size
    const orders = { ...this.orders(contender, queue, concurrency), keys, removes: !kept }
    const workers = this.processesOf(contender)
    await workers.work(orders, processes)
    const startedAt = performance.now()
    await workers.completed(jobs.length)
    const tookMs = performance.now() - startedAt
    const queueAfter = await this.queueEffort()
    const mastersAfter = await this.#masterCommands()
    const tally = await this.stop(contender, queue)
    if (tally.runs.length !== jobs.length) {
      throw new Error(`${contender}: ${tally.runs.length} runs of ${jobs.length} jobs`)
    }
    const masters = mastersAfter.map((count, index) => count - (mastersBefore[index] ?? 0))
    return {
      ...tally,
      ...judge(tally.runs),
      tookMs,
      queue: perJob(queueBefore, queueAfter, jobs.length),
      masterCommands: Math.max(...masters) / jobs.length,
    }
  }

  /** Ends the workers, and empties the queue's server for the next load. */
  async stop(contender: Contender = 'plain', queue = ''): Promise<Tally> {
    const tally = await this.processesOf(contender).stop()
    await this.clear(contender, queue)
    return tally
  }

  async clear(contender: Contender, queue: string): Promise<void> {
    await this.#servers.get(contender)?.clear(queue)
    await this.queueRedis.flushall()
  }

  async serverVersion(): Promise<string> {
    const info = await this.queueRedis.info('server')
    return /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown'
  }

  /** Since the server started. */
  async queueEffort(): Promise<Effort> {
    const stats = await this.queueRedis.info('commandstats')
    const cpu = await this.queueRedis.info('cpu')
    const seconds = (name: string): number => Number(new RegExp(`${name}:([\\d.]+)`).exec(cpu)?.[1])
    return {
      commands: calls(stats, () => true),
      scripts: calls(stats, isScript),
      cpuUs: (seconds('used_cpu_user') + seconds('used_cpu_sys')) * 1e6,
    }
  }

  /** By the clients: a command inside a script on a master is not a trip. */
  async #masterCommands(): Promise<readonly number[]> {
    const stats = await Promise.all(this.#masters.map((redis) => redis.info('commandstats')))
    return stats.map((text) => calls(text, isScript))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.processes[Symbol.asyncDispose]()
    await this.#onBun?.[Symbol.asyncDispose]()
    for (const server of new Set(this.#servers.values())) await server[Symbol.asyncDispose]()
    for (const redis of [this.queueRedis, ...this.#masters]) redis.disconnect()
    await this.fleet.close()
  }
}

export function newQueueName(): string {
  return `q_${randomUUID().slice(0, 8)}` // It may also be the name of a schema.
}

/** What the server did between two moments, per job. */
export function perJob(before: Effort, after: Effort, jobs: number): Effort {
  return {
    commands: (after.commands - before.commands) / jobs,
    scripts: (after.scripts - before.scripts) / jobs,
    cpuUs: (after.cpuUs - before.cpuUs) / jobs,
  }
}

function isScript(command: string): boolean {
  return command === 'evalsha' || command === 'eval' || command === 'fcall'
}

function calls(stats: string, counts: (name: string) => boolean): number {
  return [...stats.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].reduce(
    (sum, [, name = '', count]) => (counts(name) ? sum + Number(count) : sum),
    0,
  )
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
