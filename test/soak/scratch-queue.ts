/**
 * A second queue for the same customers, whose jobs are removed, drained, cleaned and obliterated
 * while they wait and run. It shares lines and workers with the queue whose jobs must all be done.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Queue, type Job } from 'bullmq'
import { Redis } from 'ioredis'
import { LockedQueue } from '../../src/index.ts'
import {
  instanceOf,
  type CustomerJob,
  type Sighting,
  type WorkerSetup,
} from '../faults/job-states.ts'
import { monotonicMs } from '../faults/monotonic.ts'

/** States in which a job has still to be done. */
export const UNDONE = ['waiting', 'prioritized', 'delayed', 'active', 'waiting-children'] as const
const KEPT_COMPLETED = 50
const RETRY_MS = 50
const MAX_TRIES = 100
const LEFTOVER_LIMIT_MS = 15_000

interface Instance {
  readonly key: string
  /** When it was seen to be there no more; no worker may fetch it after that. */
  goneAt: number | undefined
  /** When workers asked for it and got it. */
  readonly fetches: number[]
}

export class ScratchQueue {
  readonly name: string
  readonly locked: LockedQueue<CustomerJob, string>
  /** The same queue as BullMQ alone sees it. */
  readonly plain: Queue<CustomerJob, string>
  readonly #redis: Redis
  readonly #customers: readonly string[]
  readonly #instances = new Map<string, Instance>()
  #customer = 0

  constructor(setup: WorkerSetup, name: string, customers: readonly string[]) {
    const { connection } = setup
    this.name = name
    this.locked = openScratch({ connection, queue: name })
    this.locked.on('error', () => undefined) // Its server is down on purpose at times.
    this.plain = new Queue(name, { connection })
    this.plain.on('error', () => undefined)
    this.#redis = new Redis({ ...connection, retryStrategy: () => 20, maxRetriesPerRequest: null })
    this.#redis.on('error', () => undefined)
    this.#customers = customers
  }

  /** Jobs that were there once and are there no more. */
  get gone(): number {
    return [...this.#instances.values()].filter(({ goneAt }) => goneAt !== undefined).length
  }

  /** How often workers fetched its jobs. */
  get fetched(): number {
    return [...this.#instances.values()].reduce((sum, { fetches }) => sum + fetches.length, 0)
  }

  /** For some jobs of one customer after the other. */
  nextCustomer(): string {
    return this.#customers[this.#customer++ % this.#customers.length] ?? ''
  }

  async add(count: number): Promise<void> {
    const jobs = Array.from({ length: count }, () => ({
      name: 'scratch',
      data: { customer: this.nextCustomer() },
    }))
    // A batch whose outcome is unknown may be there twice: that is no fault here.
    const added = await patiently(() => this.locked.addBulk(jobs))
    for (const { id, timestamp } of added) this.#instance(instanceOf(id, timestamp), id ?? '')
  }

  async undone(): Promise<readonly Job<CustomerJob>[]> {
    const jobs = await this.plain.getJobs([...UNDONE])
    return jobs.filter((job) => job as Job | undefined) // A job may go while the list is made.
  }

  see(sighting: Sighting): void {
    if (sighting.state !== 'fetched' || sighting.queue !== this.name) return
    const id = sighting.instance.slice(0, sighting.instance.indexOf('@'))
    this.#instance(sighting.instance, id).fetches.push(sighting.at)
  }

  /** Notes which jobs there are, and which are gone. */
  async look(): Promise<void> {
    for (const { id, timestamp } of await this.undone()) {
      this.#instance(instanceOf(id, timestamp), id ?? '')
    }
    for (const [name, instance] of this.#instances) {
      if (instance.goneAt !== undefined) continue
      const timestamp = await this.#redis.hget(instance.key, 'timestamp')
      if (timestamp === name.slice(name.indexOf('@') + 1)) continue
      instance.goneAt = monotonicMs()
    }
  }

  /**
   * No worker may ask for a job that is gone and get it. One that it took before may go on:
   * `obliterate` with `force` removes running jobs.
   */
  async anomalies(): Promise<readonly string[]> {
    await this.look()
    const ghosts = [...this.#instances].flatMap(([name, { goneAt = Infinity, fetches }]) =>
      fetches
        .filter((at) => at > goneAt)
        .map((at) => `job ${name} was fetched ${(at - goneAt).toFixed(1)} ms after it was gone`),
    )
    const failed = await this.plain.getFailed()
    const open = await this.undone()
    return [
      ...ghosts,
      ...failed.map(({ id, failedReason }) => `scratch job ${id ?? '?'} failed: ${failedReason}`),
      ...open.map(({ id, data }) => `scratch job ${id ?? '?'} of ${data.customer} is not done`),
    ]
  }

  /** Obliterates the queue and returns the places and keys of its jobs that are left. */
  async leftovers(): Promise<readonly string[]> {
    await patiently(() => this.locked.obliterate({ force: true }))
    const limit = performance.now() + LEFTOVER_LIMIT_MS
    for (;;) {
      const left = [...(await this.#jobKeys()), ...(await this.#places())]
      if (left.length === 0 || performance.now() > limit) return left
      await delay(RETRY_MS)
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.locked.close(), this.plain.close()])
    this.#redis.disconnect()
  }

  #instance(name: string, id: string): Instance {
    const key = this.plain.toKey(id)
    const instance = this.#instances.get(name) ?? { key, goneAt: undefined, fetches: [] }
    this.#instances.set(name, instance)
    return instance
  }

  /** Hashes of jobs: all their ids are numbers. */
  async #jobKeys(): Promise<readonly string[]> {
    const keys = await this.#redis.keys(this.plain.toKey('*'))
    return keys.filter((key) => /:\d+(:|$)/.test(key)).map((key) => `key ${key} is left`)
  }

  /** Lines with places; those of a running worker's queue are empty by then. */
  async #places(): Promise<readonly string[]> {
    const keys = await this.#redis.keys(this.plain.toKey('redlock:::line:*'))
    return keys.map((key) => `line ${key} is left`)
  }
}

export function openScratch({
  connection,
  queue,
}: Pick<WorkerSetup, 'connection' | 'queue'>): LockedQueue<CustomerJob, string> {
  return new LockedQueue(queue, {
    connection,
    resource: ({ customer }) => customer,
    defaultJobOptions: {
      attempts: 1_000,
      backoff: { type: 'fixed', delay: 50 },
      removeOnComplete: { count: KEPT_COMPLETED },
    },
  })
}

/** The queue's clients are killed on purpose: what failed is done again. */
export async function patiently<T>(action: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await action()
    } catch (error) {
      if (tries === MAX_TRIES) throw error
      await delay(RETRY_MS)
    }
  }
}
