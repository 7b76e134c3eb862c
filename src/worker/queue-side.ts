/**
 * What a worker keeps in the queue's Redis beside BullMQ: the lines, and values that outlive it. Jobs leave their lines, and
 * their checkpoints go, when they have finished.
 */
import type { IQueueBackend, Job } from 'bullmq'
import { endOfTurn, withinMs, type Clock, type Timer } from '../clock.ts'
import { OneWrite } from '../redis/one-write.ts'
import { openQueueConnection, type QueueConnection } from '../redis/queue-connection.ts'
import type { LineCensus } from '../telemetry/worker-source.ts'
import { stepsStore } from './job-runs.ts'
import { Agreement, SAY_EVERY_MS } from './agreement.ts'
import { KeptValues } from './kept-values.ts'
import { LineKeeper } from './line-keeper.ts'
import { Lines } from './lines.ts'
import type { Ending } from './relay.ts'
import { resourcesOf, type ResourceOf } from './resource.ts'
import { ticketOf, type Ticket } from './ticket.ts'

export interface QueueSideOptions<Data> {
  readonly connection: unknown
  readonly clock: Clock
  readonly queue: Pick<Ticket, 'prefix' | 'queue'>
  readonly backend: Pick<IQueueBackend, 'forQueue'>
  readonly nobodyElseWaits: () => boolean
  readonly namespace: string
  readonly slots: number
  readonly resource: ResourceOf<Data>
  readonly order: 'strict' | 'relaxed'
  readonly onFailure: 'continue' | 'block'
  readonly checkpoints: boolean
  readonly maxValueBytes: number
  readonly endingOf: (job: Job<Data>) => Ending | undefined
  readonly onError: (error: unknown) => void
}

/** How often some worker looks for lines that stand still. */
const LINE_KEEPER_MS = 1_000
/** A scrape waits this long at most, and looks at this many lines. */
const CENSUS_LIMIT_MS = 500
const CENSUS_LINES = 1_000

export class QueueSide<Data> {
  readonly lines: Lines
  readonly kept: KeptValues
  readonly oneWrite: OneWrite
  readonly #options: QueueSideOptions<Data>
  readonly #redis: QueueConnection
  readonly #keeper: LineKeeper | undefined
  readonly #agreement: Agreement
  #agreeing: Timer | undefined
  readonly #finishing = new Set<Promise<void>>()
  #closed = false

  constructor(options: QueueSideOptions<Data>) {
    this.#options = options
    this.#redis = openQueueConnection(options.connection)
    const { clock } = options
    this.lines = new Lines(this.#redis, options.backend, options, clock)
    this.kept = new KeptValues(this.#redis, options.namespace, options.maxValueBytes)
    this.oneWrite = new OneWrite(clientOf(options.backend))
    if (options.order === 'strict') {
      this.#keeper = new LineKeeper(this.lines, {
        clock,
        everyMs: LINE_KEEPER_MS,
        keepFailed: options.onFailure === 'block',
        onError: options.onError,
      })
    }
    const terms = { ...options, by: 'LockedWorker' } as const
    this.#agreement = new Agreement(this.#redis, options.queue, terms, clock)
    void this.#agree()
  }

  completed(job: Job<Data>): void {
    this.#finish(job, true, true)
  }

  /** A failed attempt that is going to be retried keeps the job's place and its checkpoints. */
  failed(job: Job<Data>): void {
    // One that failed for good may be retried by hand, and goes on where it stopped.
    if (job.finishedOn) this.#finish(job, this.#options.onFailure === 'continue', false)
  }

  /** Waits until jobs that have just finished have left and woken the next ones. */
  async settle(): Promise<void> {
    await Promise.all(this.#finishing)
  }

  /** How many jobs wait in their lines; undefined when the queue's Redis does not answer soon. */
  async census(): Promise<LineCensus | undefined> {
    try {
      return await withinMs(this.#options.clock, CENSUS_LIMIT_MS, this.lines.census(CENSUS_LINES))
    } catch {
      return undefined // The queue's Redis is away: others report that.
    }
  }

  /** With `force` nothing is waited for: the queue's Redis may be gone. */
  async close(force: boolean): Promise<void> {
    this.#keeper?.stop()
    if (!force) await this.settle()
    this.#closed = true
    this.#agreeing?.cancel()
    this.#redis.close()
  }

  async #agree(): Promise<void> {
    // Where the queue's Redis is away others report that.
    const differences = await this.#agreement.exchange().catch(() => [])
    if (this.#closed) return
    for (const difference of differences) this.#options.onError(difference)
    this.#agreeing = this.#options.clock.after(SAY_EVERY_MS, () => void this.#agree())
  }

  #finish(job: Job<Data>, leave: boolean, forget: boolean): void {
    const finished = Promise.all([
      leave && this.#options.order === 'strict' ? this.#leave(job) : undefined,
      forget && this.#options.checkpoints ? this.kept.drop(stepsStore(job)) : undefined,
    ]).then(
      () => undefined,
      (error: unknown) => {
        if (!this.#closed) this.#options.onError(error) // Else it was given up on purpose.
      },
    )
    this.#finishing.add(finished)
    void finished.finally(() => this.#finishing.delete(finished))
  }

  async #leave(job: Job<Data>): Promise<void> {
    if ((await this.#options.endingOf(job)?.finished()) === true) return
    await endOfTurn() // The next one, which has just been fetched, starts first.
    let resources: readonly string[]
    try {
      resources = resourcesOf(() => this.#options.resource(job), job.id)
    } catch {
      return // It failed because of this, and has no place anywhere.
    }
    await this.lines.leave(resources, ticketOf(job))
  }
}

/** Redis backends of BullMQ have a client, others may not. */
function clientOf(backend: object): object | undefined {
  return (backend as { readonly client?: Promise<object> }).client
}
