/**
 * A second queue of an episode, with a worker of its own. Its jobs name the same resources, so the
 * lease alone keeps them from those of the first queue. It has a history of its own, in which the
 * faults of the servers are too, and the same rules judge it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Queue } from 'bullmq'
import type { Redis } from 'ioredis'
import type { LockedQueue } from '../../src/index.ts'
import { prefixesOf } from '../../src/sharded/placement.ts'
import { audit } from './audit.ts'
import { openHere, type Hands } from './hands.ts'
import { newHistory, record, type Done, type History } from './history.ts'
import type { ActionOf, JobData, JobPlan, Operation, Plan } from './plan.ts'
import { censusOf, linesLeft, obliterate, openQueue, unfinishedIn } from './queues.ts'
import { machineMs } from './seen.ts'
import { LEASE_MS, type Locks, type QueueAddress } from './servers.ts'

const POLL_MS = 10

export interface BesideSetup {
  readonly name: string
  readonly connection: QueueAddress
  readonly locks: Locks
  readonly redis: Redis
  /** Of the first queue. */
  readonly history: History
  /** A job as BullMQ is given it. */
  readonly entry: (job: JobPlan) => Parameters<Queue<JobData>['addBulk']>[0][number]
}

export class Beside {
  readonly history: History
  readonly #setup: BesideSetup
  readonly #queue: LockedQueue<JobData>
  readonly #plain: Queue<JobData>
  readonly #bases: readonly string[]
  readonly #worker: Hands

  constructor(setup: BesideSetup) {
    const { name, connection, locks, history: first } = setup
    const { plan, prefix, startedAt, done, held } = first
    const { settings } = plan
    const operations = plan.operations.flatMap((each) => seenBeside(each) ?? [])
    const own: Plan = { ...plan, operations, settings: { ...settings, workers: ['process'] } }
    const faults = done.filter(({ operation }) => isFault(operation))
    this.history = { ...newHistory(own, prefix, startedAt), held, done: faults }
    this.#setup = setup
    const to = { ...connection, retryStrategy: () => 50 }
    this.#queue = openQueue(name, own, prefix, to)
    this.#plain = new Queue<JobData>(name, { connection: to, prefix: settings.prefix })
    for (const queue of [this.#queue, this.#plain]) queue.on('error', () => undefined)
    const { shards } = settings
    const prefixes = shards === undefined ? [settings.prefix] : prefixesOf(settings.prefix, shards)
    this.#bases = prefixes.map((each) => `${each}:${name}:`)
    const host = {
      ...{ name: 'b0', queue: name, connection, leaseMs: LEASE_MS },
      settings: own.settings,
    }
    this.#worker = openHere(host, locks, (event) => {
      record(this.history, event)
    })
  }

  async add(
    operation: ActionOf<'addBeside', Operation>,
    index: number,
  ): Promise<readonly string[]> {
    const { jobs, by } = operation
    const done: Done = { operation: asAdded(operation), index, at: machineMs() }
    this.history.done.push(done)
    try {
      const added = await (by === 'plain' ? this.#plain : this.#queue).addBulk(
        jobs.map((job) => this.#setup.entry(job)),
      )
      for (const { id = '', data } of added) this.history.ids.set(data.uid, id)
      return added.map(({ id = '' }) => id)
    } catch (error) {
      done.error = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
      throw error
    } finally {
      done.endedAt = machineMs()
    }
  }

  /** What the first queue's servers meet, this one meets too. */
  hears(done: Done): void {
    if (isFault(done.operation)) this.history.done.push(done)
  }

  async audit(): Promise<void> {
    for (const base of this.#bases) {
      const found = await audit(this.#setup.redis, base).catch(() => [])
      for (const detail of found) this.history.audits.push({ at: machineMs(), detail })
    }
  }

  /** @param limitMs in which a job of one of the queues has started, or all have ended. */
  async settle(limitMs: number): Promise<void> {
    const { history } = this
    history.settlingAt = machineMs()
    const runs = (): number => history.runs.size + this.#setup.history.runs.size
    let [before, since] = [runs(), machineMs()]
    while ((await unfinishedIn(this.#queue)) > 0 && machineMs() < since + limitMs) {
      if (runs() > before) [before, since] = [runs(), machineMs()]
      await this.#skipFailed()
      await delay(POLL_MS)
    }
    await this.#skipFailed() // The last one may have failed.
    history.settledAt = machineMs()
    const open = await this.#queue.getJobs(['active', 'waiting', 'prioritized', 'delayed'])
    history.unsettled = open.map(({ id, data }) => `${data.uid} (id ${id}) of the second queue`)
  }

  /** A failed job that holds its line would hold it to the end. */
  async #skipFailed(): Promise<void> {
    if (this.history.plan.settings.onFailure !== 'block') return
    for (const { id = '' } of await this.#queue.getFailed()) await this.#queue.skip(id)
  }

  closeWorker(): Promise<unknown> {
    return this.#worker.tell({ do: 'close', force: false })
  }

  /** When its worker is closed. */
  async look(): Promise<void> {
    const { redis } = this.#setup
    this.history.final = await censusOf(this.#queue, false)
    this.history.lines = await linesLeft(redis, this.#bases)
    this.history.leftAfterObliterate = await obliterate(this.#queue, redis, this.#bases)
  }

  async close(): Promise<void> {
    await this.#worker.tell({ do: 'close', force: true })
    await Promise.all([this.#queue.close(), this.#plain.close()])
  }
}

const FAULTS: ReadonlySet<string> = new Set([
  ...['restartQueue', 'faultQueue', 'failover', 'faultMasters'],
])

/** One of the servers that an episode may share with no other. */
export function isFault(operation: Operation): boolean {
  return FAULTS.has(operation.do)
}

function asAdded(operation: ActionOf<'addBeside', Operation>): Operation {
  return { ...operation, do: 'addBulk' }
}

function seenBeside(operation: Operation): Operation | undefined {
  if (operation.do === 'addBeside') return asAdded(operation)
  return isFault(operation) ? operation : undefined
}
