/**
 * One side of a comparison: the same scenario runs once with BullMQ's classes and once with ours. A
 * side makes queues and workers, writes down what ran and when, and closes all that it made.
 */
import { randomBytes } from 'node:crypto'
import {
  FlowProducer,
  Queue,
  QueueEvents,
  Worker,
  type FlowJob,
  type Job,
  type JobNode,
  type JobsOptions,
  type QueueOptions,
  type WorkerOptions,
} from 'bullmq'
import {
  LockedQueue,
  LockedWorker,
  type LockedQueueOptions,
  type LockedWorkerOptions,
  type Redlock,
} from '../../src/index.ts'

export interface Work {
  readonly customer: string
  readonly nr: number
  readonly step?: string
}

export type WorkJob = Job<Work, unknown>
export type WorkQueue = Queue<Work, unknown>
export type WorkWorker = Worker<Work, unknown>

/**
 * What a processor is told beside its job: the third parameter of BullMQ's, and what ours has in
 * its lease.
 */
export interface Around {
  readonly token: string
  readonly signal: AbortSignal
}

export type Process = (job: WorkJob, around: Around) => unknown

export interface Run {
  readonly nr: number
  readonly customer: string
  readonly startedAt: number
  endedAt: number | undefined
}

export interface Gate {
  readonly passed: Promise<void>
  open(): void
}

export interface Servers {
  readonly connection: { readonly host: string; readonly port: number }
  /** Shared by all sides of a file. */
  readonly redlock: Redlock
  /** Another one for the same masters and the same namespace. */
  newRedlock(): Promise<Redlock>
}

/** How long a scenario waits for what should happen within milliseconds. */
const PATIENCE_MS = 10_000
const CLOSE_LIMIT_MS = 3_000
const OUR_CONCURRENCY = 4

export class Side {
  readonly queueName = `q${randomBytes(5).toString('hex')}`
  readonly runs: Run[] = []
  readonly errors: Error[] = []
  readonly isOurs: boolean
  readonly #servers: Servers
  readonly #closers: (() => Promise<unknown>)[] = []
  #own: WorkQueue | undefined

  constructor(kind: 'bullmq' | 'ours', servers: Servers) {
    this.isOurs = kind === 'ours'
    this.#servers = servers
  }

  get connection(): Servers['connection'] {
    return this.#servers.connection
  }

  get redlock(): Redlock {
    return this.#servers.redlock
  }

  /** A Redlock that the scenario may close. */
  async ownRedlock(): Promise<Redlock> {
    const redlock = await this.#servers.newRedlock()
    this.#closers.push(() => redlock.close())
    return redlock
  }

  /** Every side has resources of its own, as all share the masters. */
  resourceOf = (customer: string): string => `${this.queueName}:${customer}`

  /** `Queue`, or `LockedQueue` with `ours` for options of its own. */
  queue({
    ours = {},
    queueName = this.queueName,
    ...options
  }: Partial<QueueOptions> & {
    readonly queueName?: string
    readonly ours?: Partial<LockedQueueOptions<Work>>
  } = {}): WorkQueue {
    const given = { connection: this.connection, ...options }
    const queue = this.isOurs
      ? new LockedQueue<Work>(queueName, {
          ...given,
          resource: ({ customer }) => this.resourceOf(customer),
          ...ours,
        })
      : new Queue<Work, unknown>(queueName, given)
    return this.#watched(queue)
  }

  /** BullMQ's own class on both sides. */
  plainQueue(options: Partial<QueueOptions> = {}): WorkQueue {
    return this.#watched(
      new Queue<Work, unknown>(this.queueName, { connection: this.connection, ...options }),
    )
  }

  /**
   * BullMQ's with one job at a time, or ours with several: there the line keeps a customer's jobs
   * apart.
   */
  worker(
    process: Process = () => undefined,
    {
      ours = {},
      queueName = this.queueName,
      ...options
    }: Partial<WorkerOptions> & {
      readonly queueName?: string
      readonly ours?: Partial<LockedWorkerOptions<Work>>
    } = {},
  ): WorkWorker {
    const given = { connection: this.connection, ...options }
    const worker = this.isOurs
      ? new LockedWorker<Work>(
          queueName,
          (job, lease) =>
            this.#record(job, () => process(job, { token: job.token ?? '', signal: lease.signal })),
          {
            concurrency: OUR_CONCURRENCY,
            redlock: this.redlock,
            resource: ({ data }) => this.resourceOf(data.customer),
            ...given,
            ...ours,
          },
        )
      : new Worker<Work, unknown>(
          queueName,
          (job, token, signal) =>
            this.#record(job, () =>
              process(job, { token: token ?? '', signal: signal ?? AbortSignal.abort() }),
            ),
          given,
        )
    return this.#watched(worker)
  }

  /** BullMQ's own class on both sides. Without a processor it is there to fetch by hand. */
  plainWorker(process?: (job: WorkJob) => unknown): WorkWorker {
    const { connection, queueName } = this
    const processor = process && ((job: WorkJob) => Promise.resolve(process(job)))
    return this.#watched(new Worker<Work, unknown>(queueName, processor, { connection }))
  }

  flows(): FlowProducer {
    return this.#watched(new FlowProducer({ connection: this.connection }))
  }

  /** A parent and its children, each `[customer, nr]`. */
  flow(
    parent: readonly [customer: string, nr: number],
    children: readonly (readonly [customer: string, nr: number])[],
    { ofParent = {}, ofChildren = {} }: Record<string, JobsOptions> = {},
  ): Promise<JobNode> {
    const node = ([customer, nr]: typeof parent, opts: JobsOptions): FlowJob => {
      return { name: 'work', queueName: this.queueName, data: { customer, nr }, opts }
    }
    const flow = {
      ...node(parent, ofParent),
      children: children.map((one) => node(one, ofChildren)),
    }
    return this.flows().add(flow)
  }

  /** Job 0 of customer a runs until the gate opens. */
  async behindTheFirst(
    ours: Partial<LockedQueueOptions<Work>> = {},
    concurrency?: number,
  ): Promise<{ readonly queue: WorkQueue; readonly gate: Gate }> {
    const [queue, gate] = [this.queue({ ours }), this.gate()]
    const process: Process = async ({ data }) => {
      if (data.nr === 0) await gate.passed
    }
    this.worker(process, concurrency === undefined ? {} : { concurrency })
    await this.addTo(queue, 'a', [0])
    await this.started(0)
    return { queue, gate }
  }

  async events(): Promise<QueueEvents> {
    const events = this.#watched(
      new QueueEvents(this.queueName, { connection: this.connection, lastEventId: '0' }),
    )
    await events.waitUntilReady()
    return events
  }

  /** The queue of {@link add}, with nothing but defaults. */
  get own(): WorkQueue {
    return (this.#own ??= this.queue())
  }

  /** Adds one job after the other to the side's own queue. */
  add(customer: string, numbers: readonly number[], opts?: JobsOptions): Promise<WorkJob[]> {
    return this.addTo(this.own, customer, numbers, opts)
  }

  async addTo(
    queue: WorkQueue,
    customer: string,
    numbers: readonly number[],
    opts?: JobsOptions,
  ): Promise<WorkJob[]> {
    const jobs: WorkJob[] = []
    for (const nr of numbers) jobs.push(await queue.add('work', { customer, nr }, opts))
    return jobs
  }

  /** Opened at the latest when the side is closed. */
  gate(): Gate {
    let open = (): void => undefined
    const passed = new Promise<void>((resolve) => {
      open = resolve
    })
    this.#closers.push(() => {
      open()
      return Promise.resolve()
    })
    return { passed, open }
  }

  /** The jobs in the order in which they were started. */
  get order(): readonly number[] {
    return this.runs.map(({ nr }) => nr)
  }

  /** What ran, whatever the order. */
  get ran(): readonly number[] {
    return this.order.toSorted((a, b) => a - b)
  }

  orderOf(customer: string): readonly number[] {
    return this.runs.filter((run) => run.customer === customer).map(({ nr }) => nr)
  }

  /** How many times two jobs of one customer ran at once. */
  get overlaps(): number {
    return this.runs.filter((one, index) =>
      this.runs
        .slice(0, index)
        .some((before) => before.customer === one.customer && !(endOf(before) <= one.startedAt)),
    ).length
  }

  /** Between the end of one job's last run and the start of another one's. */
  gap(from: number, to: number): number {
    const before = this.runs.findLast(({ nr }) => nr === from)
    const after = this.runs.find(({ nr }) => nr === to)
    if (before === undefined || after === undefined) throw new Error(`${from} or ${to} did not run`)
    return after.startedAt - endOf(before)
  }

  startOf(nr: number): number {
    const run = this.runs.find((one) => one.nr === nr)
    if (run === undefined) throw new Error(`${nr} did not run`)
    return run.startedAt
  }

  started(nr: number): Promise<void> {
    return this.until(`job ${nr} starts`, () => this.runs.some((run) => run.nr === nr))
  }

  /** Waits until so many runs have ended. */
  ended(count: number, limitMs?: number): Promise<void> {
    const ended = (): number => this.runs.filter(({ endedAt }) => endedAt !== undefined).length
    return this.until(
      () => `${count} runs have ended; started: ${this.order.join()}`,
      () => ended() >= count,
      limitMs,
    )
  }

  /** The order in which jobs were started, when so many runs have ended. */
  async orderAfter(count: number): Promise<{ readonly order: readonly number[] }> {
    await this.ended(count)
    return { order: this.order }
  }

  /** Waits until so many jobs of the side's own queue are completed. */
  completed(count: number): Promise<void> {
    const isDone = async (): Promise<boolean> => (await this.own.getCompletedCount()) === count
    return this.until(`${count} jobs are completed`, isDone)
  }

  /** … or have failed for good. */
  failed(count: number): Promise<void> {
    const isDone = async (): Promise<boolean> => (await this.own.getFailedCount()) === count
    return this.until(`${count} jobs have failed`, isDone)
  }

  async until(
    what: string | (() => string),
    condition: () => boolean | Promise<boolean>,
    limitMs = PATIENCE_MS,
  ): Promise<void> {
    const deadline = performance.now() + limitMs
    while (!(await condition())) {
      if (performance.now() > deadline) {
        throw new Error(`gave up waiting until ${typeof what === 'string' ? what : what()}`)
      }
      await pause(5)
    }
  }

  defer(close: () => Promise<unknown>): void {
    this.#closers.push(close)
  }

  async close(): Promise<void> {
    // Gates first, as workers wait for their jobs; queues last.
    for (const close of this.#closers.splice(0)) {
      await Promise.race([close().catch(() => undefined), pause(CLOSE_LIMIT_MS)])
    }
  }

  async #record(job: WorkJob, process: () => unknown): Promise<unknown> {
    const { customer, nr } = job.data
    const run: Run = { customer, nr, startedAt: performance.now(), endedAt: undefined }
    this.runs.push(run)
    try {
      return await process()
    } finally {
      run.endedAt = performance.now()
    }
  }

  #watched<
    T extends {
      on(event: 'error', listener: (error: Error) => void): unknown
      close(force?: boolean): Promise<void>
    },
  >(made: T): T {
    made.on('error', (error) => {
      this.errors.push(error)
    })
    this.#closers.push(async () => {
      const closing = made.close()
      await Promise.race([closing, pause(CLOSE_LIMIT_MS / 2).then(() => made.close(true))])
    })
    return made
  }
}

/** BullMQ's types do not say that there may be no job. */
export async function fetched(
  worker: WorkWorker,
  token: string,
  options: { readonly block?: boolean } = {},
): Promise<WorkJob | undefined> {
  return worker.getNextJob(token, options)
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}

function endOf(run: Run): number {
  return run.endedAt ?? Number.POSITIVE_INFINITY
}
