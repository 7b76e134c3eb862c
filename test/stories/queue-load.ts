/**
 * Producers and workers of one queue, and what they saw: which jobs were acknowledged, which ran
 * and when. It says what a server that forgets writes must not change.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { QueueOptions } from 'bullmq'
import { LockedQueue, LockedWorker, silentLogger, type Redlock } from '../../src/index.ts'
import { until, type Fixture } from '../fixtures.ts'

interface Charge {
  readonly customer: string
  readonly nr: number
}

/** A run of a job, or a job that was acknowledged and never ran. */
interface Run {
  readonly customer: string
  readonly nr: number
  readonly startedAt: number
  endedAt: number
}

export interface LoadOptions {
  /** Of each queue and worker anew. */
  readonly connect: () => QueueOptions['connection']
  readonly redlock: Redlock
  readonly prefix?: string
  readonly workMs?: number
}

const CUSTOMERS = 6
const WORKERS = 2
/** Between two jobs of a customer. */
const PAUSE_MS = 8
const EMPTY_LIMIT_MS = 30_000

export class Load {
  readonly queue: LockedQueue<Charge>
  /** What producers and workers were told, numbers apart, and how often. */
  readonly errors = new Map<string, number>()
  readonly #workMs: number
  readonly #customers: readonly string[]
  /** When each job was acknowledged. */
  readonly #acknowledged = new Map<string, number>()
  readonly #runs: Run[] = []
  readonly #ran = new Set<string>()
  readonly #running = new Set<string>()
  readonly #overlaps: string[] = []
  readonly #stop = new AbortController()
  #stoppedAt = Infinity
  #producing: Promise<unknown> = Promise.resolve()

  constructor(fixture: Fixture, { connect, redlock, prefix = 'bull', workMs = 4 }: LoadOptions) {
    this.#workMs = workMs
    this.#customers = Array.from({ length: CUSTOMERS }, (_, index) => `${prefix}-${index}`)
    const { namespace: name } = fixture
    const note = this.#note.bind(this)
    this.queue = new LockedQueue<Charge>(name, {
      ...{ connection: connect(), prefix, resource: ({ customer }) => customer },
    })
    this.queue.on('error', note)
    fixture.defer(() => this.queue.close())
    for (let index = 0; index < WORKERS; index++) {
      const worker = new LockedWorker<Charge>(name, ({ data }) => this.#run(data), {
        ...{ connection: connect(), prefix, redlock, logger: silentLogger },
        ...{ resource: ({ data }) => data.customer, concurrency: 4 },
      })
      worker.on('error', note)
      fixture.defer(() => worker.close(true))
    }
    fixture.defer(() => {
      this.#stop.abort()
    })
  }

  /** Adds jobs without end, those of a customer one after the other. */
  async start(): Promise<void> {
    this.#producing = Promise.all(this.#customers.map((customer) => this.#produce(customer)))
    await this.goesOn()
  }

  /** Until each customer has had some more jobs done. */
  async goesOn(): Promise<void> {
    const from = performance.now()
    const runs = (customer: string): number =>
      this.#runs.filter((run) => run.customer === customer && run.startedAt > from).length
    await until('all lines go on', () => this.#customers.every((each) => runs(each) > 20), 30_000)
  }

  /** No more jobs are added, and all that the server has are done. */
  async finish(): Promise<void> {
    this.#stop.abort()
    this.#stoppedAt = performance.now()
    await this.#producing
    const isEmpty = async (): Promise<boolean> => {
      const { completed, ...others } = await this.queue.getJobCounts()
      return completed !== undefined && Object.values(others).every((count) => count === 0)
    }
    await until('the queue is empty', isEmpty, EMPTY_LIMIT_MS)
  }

  /** Two at a time, or out of order. What runs again after a loss does not count as out of order. */
  violations(): readonly string[] {
    const last = new Map<string, number>()
    const seen = new Set<string>()
    const disordered = this.#runs.flatMap(({ customer, nr }) => {
      const before = last.get(customer) ?? -1
      if (seen.has(`${customer} ${nr}`)) return []
      seen.add(`${customer} ${nr}`)
      last.set(customer, nr)
      return nr < before ? `${customer}: ${nr} after ${before}` : []
    })
    return [...this.#overlaps, ...disordered]
  }

  /** When jobs were acknowledged that never ran. */
  lost(): readonly number[] {
    return [...this.#acknowledged].flatMap(([job, at]) => (this.#ran.has(job) ? [] : at))
  }

  /** When runs ended of jobs that ran again. */
  repeated(): readonly number[] {
    const ended = new Map<string, number>()
    return this.#runs.flatMap(({ customer, nr, endedAt }) => {
      const before = ended.get(`${customer} ${nr}`)
      ended.set(`${customer} ${nr}`, endedAt)
      return before ?? []
    })
  }

  /** The longest time from `from` on in which a customer had no job started. */
  standstillMs(from: number): number {
    const pauses = this.#customers.flatMap((customer) => {
      const starts = this.#runs.filter((run) => run.customer === customer)
      const times = [from, ...starts.map(({ startedAt }) => startedAt)].filter((at) => at >= from)
      return times.map((at, index) => (times[index + 1] ?? this.#stoppedAt) - at)
    })
    return Math.max(...pauses)
  }

  async #produce(customer: string): Promise<void> {
    for (let nr = 0; !this.#stop.signal.aborted; nr++) {
      // One that is refused may be there all the same, and is not added again.
      await this.queue.add('charge', { customer, nr }).then(
        () => this.#acknowledged.set(`${customer} ${nr}`, performance.now()),
        this.#note.bind(this),
      )
      await delay(PAUSE_MS)
    }
  }

  async #run({ customer, nr }: Charge): Promise<void> {
    const run = { customer, nr, startedAt: performance.now(), endedAt: Infinity }
    if (this.#running.has(customer)) this.#overlaps.push(`${customer}: ${nr} overlaps another`)
    this.#running.add(customer)
    this.#runs.push(run)
    this.#ran.add(`${customer} ${nr}`)
    await delay(this.#workMs)
    run.endedAt = performance.now()
    this.#running.delete(customer)
  }

  #note(error: unknown): void {
    const text = String(error).replaceAll(/\d+/g, '#')
    this.errors.set(text, (this.errors.get(text) ?? 0) + 1)
  }
}
