/**
 * Producers and workers of one queue, and what they saw: which jobs were acknowledged, which ran
 * and when. It judges what a server may change that dies, or forgets what it has acknowledged.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { QueueOptions } from 'bullmq'
import { expect } from 'vitest'
import { LockedQueue, LockedWorker, silentLogger, type Redlock } from '../../src/index.ts'
import { until, type Fixture } from '../fixtures.ts'

interface Charge {
  readonly customer: string
  readonly nr: number
}

interface Run {
  readonly customer: string
  readonly nr: number
  readonly startedAt: number
  endedAt: number
}

export interface LoadOptions {
  /** Of each queue and worker anew. */
  readonly connect: () => QueueOptions['connection']
  readonly prefix?: string
  readonly workMs?: number
}

/** What a server forgot, by when it happened. */
export interface Losses {
  /** Jobs were acknowledged that never ran. */
  readonly lost: readonly number[]
  /** Runs ended of jobs that ran again. */
  readonly repeated: readonly number[]
}

const LEASE_MS = 3_000
/** A lease and a moment, BullMQ's pause before it connects anew, and a machine that is busy. */
const STANDSTILL_MS = LEASE_MS + 2_000 + 1_000 + 2_000
/** What was done so shortly before a server died may not have been copied. */
const SLACK_MS = 300

const CUSTOMERS = 6
const WORKERS = 2
/** Between two jobs of a customer. */
const PAUSE_MS = 8
/** A job that runs for longer than a failover takes, and the next one of its customer. */
const SLOW_MS = 5_000
const SLOW = 0
const NEXT = 1
const LIMIT_MS = 30_000

export class Load {
  readonly #queue: LockedQueue<Charge>
  readonly #workMs: number
  readonly #customers: readonly string[]
  readonly #slow: string
  /** When each job was acknowledged. */
  readonly #acknowledged = new Map<string, number>()
  readonly #runs: Run[] = []
  readonly #running = new Set<string>()
  readonly #overlaps: string[] = []
  readonly #stop = new AbortController()
  #stoppedAt = Infinity
  #producing: Promise<unknown> = Promise.resolve()

  /** Adds jobs without end, those of a customer one after the other, and works on them. */
  static async start(fixture: Fixture, options: LoadOptions): Promise<Load> {
    const redlock = await fixture.redlock({ leaseMs: LEASE_MS, masterTimeoutMs: LEASE_MS / 4 })
    const load = new Load(fixture, redlock, options)
    load.#producing = Promise.all(load.#customers.map((customer) => load.#produce(customer)))
    await load.goesOn()
    return load
  }

  private constructor(
    fixture: Fixture,
    redlock: Redlock,
    { connect, prefix = 'bull', workMs = 4 }: LoadOptions,
  ) {
    this.#workMs = workMs
    this.#customers = Array.from({ length: CUSTOMERS }, (_, index) => `${prefix}-${index}`)
    this.#slow = `${prefix}-slow`
    const { namespace: name } = fixture
    this.#queue = new LockedQueue<Charge>(name, {
      ...{ connection: connect(), prefix, resource: ({ customer }) => customer },
    })
    this.#queue.on('error', () => undefined)
    fixture.defer(() => this.#queue.close())
    for (let index = 0; index < WORKERS; index++) {
      const worker = new LockedWorker<Charge>(name, ({ data }) => this.#run(data), {
        ...{ connection: connect(), prefix, redlock, logger: silentLogger },
        ...{ resource: ({ data }) => data.customer, concurrency: 4 },
      })
      worker.on('error', () => undefined)
      fixture.defer(() => worker.close(true))
    }
    fixture.defer(() => {
      this.#stop.abort()
    })
  }

  /** Until each customer has had some more jobs done. */
  async goesOn(): Promise<void> {
    const from = performance.now()
    const runs = (customer: string): number =>
      this.#runs.filter((run) => run.customer === customer && run.startedAt > from).length
    await until('all lines go on', () => this.#customers.every((each) => runs(each) > 20), LIMIT_MS)
  }

  /** Starts a job that runs through what happens next, whatever the queue remembers of it. */
  async startSlow(): Promise<void> {
    await this.#add(this.#slow, SLOW)
    await until('it runs', () => this.#running.has(this.#slow))
  }

  /**
   * Lets it go on and end: all lines move, all that the server has is done, and nothing is out of
   * order or two at a time.
   * @param since from when on the server may have forgotten what it acknowledged.
   * @param back when it was there again.
   */
  async judge(since: number, back: number): Promise<Losses> {
    await this.#add(this.#slow, NEXT)
    await this.goesOn()
    this.#stop.abort()
    this.#stoppedAt = performance.now()
    await this.#producing
    const isEmpty = async (): Promise<boolean> => {
      const { completed, ...others } = await this.#queue.getJobCounts()
      return completed !== undefined && Object.values(others).every((count) => count === 0)
    }
    await until('the queue is empty', isEmpty, LIMIT_MS)
    expect([...this.#overlaps, ...this.#disordered()]).toEqual([])
    expect(this.standstillMs(back)).toBeLessThan(STANDSTILL_MS)
    const losses = { lost: this.#lost(), repeated: this.#repeated() }
    for (const at of [...losses.lost, ...losses.repeated]) {
      expect(at).toBeGreaterThan(since - SLACK_MS)
      expect(at).toBeLessThan(back + STANDSTILL_MS)
    }
    return losses
  }

  /** The longest time from then on in which a customer had no job started. */
  standstillMs(from: number): number {
    const pauses = this.#customers.flatMap((customer) => {
      const starts = this.#runs.filter((run) => run.customer === customer)
      const times = [from, ...starts.map(({ startedAt }) => startedAt)].filter((at) => at >= from)
      return times.map((at, index) => (times[index + 1] ?? this.#stoppedAt) - at)
    })
    return Math.max(...pauses)
  }

  /** What runs again after a loss does not count. */
  #disordered(): readonly string[] {
    const last = new Map<string, number>()
    const seen = new Set<string>()
    return this.#runs.flatMap(({ customer, nr }) => {
      const before = last.get(customer) ?? -1
      if (seen.has(`${customer} ${nr}`)) return []
      seen.add(`${customer} ${nr}`)
      last.set(customer, nr)
      return nr < before ? `${customer}: ${nr} after ${before}` : []
    })
  }

  #lost(): readonly number[] {
    const ran = new Set(this.#runs.map(({ customer, nr }) => `${customer} ${nr}`))
    return [...this.#acknowledged].flatMap(([job, at]) => (ran.has(job) ? [] : at))
  }

  #repeated(): readonly number[] {
    const ended = new Map<string, number>()
    return this.#runs.flatMap(({ customer, nr, endedAt }) => {
      const before = ended.get(`${customer} ${nr}`)
      ended.set(`${customer} ${nr}`, endedAt)
      return before ?? []
    })
  }

  async #produce(customer: string): Promise<void> {
    for (let nr = 0; !this.#stop.signal.aborted; nr++) {
      await this.#add(customer, nr)
      await delay(PAUSE_MS)
    }
  }

  /** What is refused may be there all the same, and is not added again. */
  async #add(customer: string, nr: number): Promise<void> {
    await this.#queue.add('charge', { customer, nr }).then(
      () => this.#acknowledged.set(`${customer} ${nr}`, performance.now()),
      () => undefined,
    )
  }

  async #run({ customer, nr }: Charge): Promise<void> {
    const run = { customer, nr, startedAt: performance.now(), endedAt: Infinity }
    if (this.#running.has(customer)) this.#overlaps.push(`${customer}: ${nr} overlaps another`)
    this.#running.add(customer)
    this.#runs.push(run)
    await delay(customer === this.#slow && nr === SLOW ? SLOW_MS : this.#workMs)
    run.endedAt = performance.now()
    this.#running.delete(customer)
  }
}
