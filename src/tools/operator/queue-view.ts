/** What an operator asks BullMQ of a queue's jobs, and does to them. */
import { commandLine } from '../../command-line.ts'
import { Job, Queue } from 'bullmq'
import { ShardUnreachableError } from '../../errors.ts'
import { mustAnswer, systemClock, withinMs } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import type { Inspection } from '../../lock/inspection.ts'
import { isWatched, type MasterAddress } from '../../redlock/wire/connection-settings.ts'
import { QueueServer } from './queue-server.ts'
import { LineBackend } from '../../line/line-backend.ts'
import { cancelJobs, leaveLines, skipJob } from '../../line/cancel.ts'
import type { Cancelled, CancelOptions } from '../../line/cancel.ts'
import { explainJob, noSuchJob, type Explanation } from '../../worker/explanation.ts'
import { LineLimits, type ResourceLimits } from '../../line/limits.ts'
import { disconnectNow } from '../../line/queue-connection.ts'
import { positionOf, type LinePosition } from '../../line/position.ts'
import { duration } from './words.ts'
import type { Inspect } from './lines.ts'
import { Places, type QueuePlace } from './places.ts'

export interface JobExplanation extends Explanation {
  /** In whose lines it stands. */
  readonly resources: readonly string[]
  /** Its place in its line; with an estimate where the job, its line and its queue move. */
  readonly position?: LinePosition
}

export interface Acted {
  readonly isDone: boolean
  readonly outcome: string
  /** A sentence. */
  readonly told: string
}

/** A question takes a few round trips, each of which may take `timeoutMs`. */
const MAX_TRIPS = 5
const CLOSE_LIMIT_MS = 500
/** To fail the jobs that wait, up to 10,000. */
const CANCEL_LIMIT_MS = 60_000
/** It moves a thousand jobs at a time. */
const LEAVE_LINES_LIMIT_MS = 600_000

export class QueueView {
  readonly server: QueueServer
  readonly places: Places
  readonly #timeoutMs: number
  readonly #queues = new Map<string, Queue>()

  /** @param prefix BullMQ's. */
  constructor(address: MasterAddress, prefix: string, timeoutMs: number) {
    this.#timeoutMs = timeoutMs
    this.server = new QueueServer(address, timeoutMs)
    this.places = new Places(this.server, prefix)
  }

  /** @throws Error where the server does not answer, or lacks the queue. */
  async mustHave(queue?: string): Promise<void> {
    // Who takes no writes also refuses PING.
    await this.server.command('TIME').catch((error: unknown) => {
      throw new Error(this.server.whyUnanswered(error))
    })
    const missing = queue === undefined ? undefined : await this.places.missing(queue)
    if (missing !== undefined) throw new Error(missing)
  }

  /** Why there is no such job. */
  async absence(queue: string, jobId: string): Promise<string> {
    return (await this.places.missing(queue)) ?? noSuchJob(queue, jobId)
  }

  /**
   * What becomes of a job, in words; undefined where there is none.
   * @param resources what it touches, where its hash does not name its lines.
   */
  async explain(
    queue: string,
    jobId: string,
    inspect: Inspect,
    resources?: readonly string[],
  ): Promise<JobExplanation | undefined> {
    const place = await this.#placeOf(queue, jobId, resources?.[0])
    const job = place && (await this.#within(place, (opened) => Job.fromId(opened, jobId)))
    if (place === undefined || job === undefined) return undefined
    const recorded = await this.server.command('HGET', place.base + jobId, 'redlock:lines')
    const lines = resources ?? linesIn(recorded)
    let isUngranted = false
    const asks = async (resource: string): Promise<Inspection> => {
      const found = await inspect(resource)
      isUngranted ||= found.ungranted !== undefined
      return found
    }
    const told = await this.#within(place, (opened) =>
      explainJob(job, lines, {
        ...{ locks: { inspect: asks }, lines: LineBackend.of(opened) },
        standstill: () => this.places.standstill(place),
      }),
    )
    const stands = told.standstill !== undefined || told.state === 'active' || isUngranted
    const position = await positionOf(place, jobId, () => Promise.resolve(stands))
    if (position === undefined) return { ...told, resources: lines }
    return { ...told, why: told.why + estimateIn(jobId, position), resources: lines, position }
  }

  retry(queue: string, jobId: string): Promise<Acted> {
    return this.#act(queue, jobId, 'has not failed', async (opened) => {
      const job = await Job.fromId(opened, jobId)
      const state = await job?.getState()
      if (state !== 'failed') return { isDone: false, outcome: state ?? 'missing' }
      await job?.retry()
      return { isDone: true, outcome: 'retried', told: `Job ${jobId} waits again.` }
    })
  }

  /** A failed job lets its lines go on, and stays failed. */
  skip(queue: string, jobId: string): Promise<Acted> {
    return this.#act(queue, jobId, 'holds no line', async (opened) => {
      const isDone = await skipJob(LineBackend.of(opened), jobId)
      if (!isDone) return { isDone, outcome: 'holds no line' }
      const told = `The line goes on. Job ${jobId} stays failed.`
      return { isDone, outcome: 'skipped', told }
    })
  }

  async #placeOf(queue: string, jobId: string, resource?: string): Promise<QueuePlace | undefined> {
    const place = await this.places.ofJob(queue, jobId, resource)
    return (await this.places.hasJob(place, jobId)) ? place : undefined
  }

  /** @param fault of a job to which it cannot be done. */
  async #act(
    queue: string,
    jobId: string,
    fault: string,
    act: (opened: Queue) => Promise<Omit<Acted, 'told'> & Partial<Acted>>,
  ): Promise<Acted> {
    const place = await this.#placeOf(queue, jobId)
    if (place === undefined) {
      return { isDone: false, outcome: 'missing', told: await this.absence(queue, jobId) }
    }
    const acted = await this.#within(place, act)
    if (acted.told !== undefined) return { ...acted, told: acted.told }
    const state = await this.#within(place, (opened) => opened.getJobState(jobId))
    const seeWhy = commandLine`why ${queue} ${jobId}`
    return { ...acted, told: `Job ${jobId} ${fault}: it is ${state}. See ${seeWhy}.` }
  }

  /** What is set for all resources of a queue of which something is set. */
  async limits(queue: string): Promise<ReadonlyMap<string, ResourceLimits>> {
    const places = await this.places.of(queue)
    const found = await Promise.all(places.map((place) => new LineLimits(place).get()))
    return new Map(found.flatMap((each) => [...each]))
  }

  /** Where the limits of a resource are set and read. */
  async limitsOf(queue: string, resource: string): Promise<LineLimits> {
    return new LineLimits(await this.places.ofResource(queue, resource))
  }

  async cancel(
    queue: string,
    target: Parameters<typeof cancelJobs>[1],
    options: CancelOptions & { readonly timeoutMs: number },
  ): ReturnType<typeof cancelJobs> {
    const limitMs = options.timeoutMs + CANCEL_LIMIT_MS
    const place =
      typeof target === 'string'
        ? await this.#placeOf(queue, target)
        : await this.places.ofResource(queue, target.resource)
    if (place === undefined) return [{ jobId: target as string, outcome: 'missing' }]
    return this.#within(place, (opened) => cancelJobs(opened, target, options), limitMs)
  }

  /** Every job of the queue that waits for its turn becomes an ordinary waiting job. */
  async leaveLines(queue: string): Promise<{ readonly jobs: number; readonly errors: unknown[] }> {
    const leave = (opened: Queue): Promise<number> => leaveLines(LineBackend.of(opened))
    const places = await this.places.of(queue)
    const errors: unknown[] = []
    let jobs = 0
    for (const [shard, place] of places.entries()) {
      try {
        jobs += await this.#within(place, leave, LEAVE_LINES_LIMIT_MS)
      } catch (error) {
        const name = `${place.prefix}:${queue}`
        errors.push(places.length === 1 ? error : new ShardUnreachableError(name, shard, error))
      }
    }
    return { jobs, errors }
  }

  async close(): Promise<void> {
    await this.#disconnect()
    this.server.close()
  }

  async #disconnect(): Promise<void> {
    const queues = [...this.#queues.values()]
    this.#queues.clear()
    const closing = queues.map((queue) => {
      disconnectNow(LineBackend.of(queue))
      return queue.close()
    })
    await withinMs(systemClock, CLOSE_LIMIT_MS, Promise.allSettled(closing))
  }

  /**
   * BullMQ's connection waits for a server that is away without a limit.
   * @throws Error with what the server or the network said, or that the limit passed.
   */
  async #within<Value>(
    place: QueuePlace,
    question: (queue: Queue) => Promise<Value>,
    limitMs: number = MAX_TRIPS * this.#timeoutMs,
  ): Promise<Value> {
    const address = await this.server.addressOf(`${place.base}meta`)
    const queue = getOrInsert(this.#queues, place.base, () => opened(place, address))
    try {
      const late = `no reply within ${limitMs} ms`
      return await mustAnswer(systemClock, limitMs, question(queue), late)
    } catch (error) {
      await this.#disconnect() // The next question connects again.
      throw error
    }
  }
}

function opened({ name, prefix }: QueuePlace, address: MasterAddress): Queue {
  const retry = { maxRetriesPerRequest: 1, retryStrategy: () => null }
  const connection = { ...bullmqConnection(address), ...retry }
  const factory = LineBackend.factory({ slots: 1 })
  const queue = new Queue(name, { connection, prefix, skipMetasUpdate: true }, factory)
  queue.on('error', () => undefined) // The question that failed rejects.
  return queue
}

/** The lines in which a job stands, as its hash has them. */
export function linesIn(recorded: unknown): readonly string[] {
  return typeof recorded === 'string' ? (JSON.parse(recorded) as string[]) : []
}

/** It does not run, and will not. */
export function isCancelled({ outcome }: Pick<Cancelled, 'outcome'>): boolean {
  return !['running', 'missing', 'refused'].includes(outcome)
}

/** A sentence; '' where there is no estimate. */
function estimateIn(jobId: string, { ahead, length, resource, estimate }: LinePosition): string {
  if (estimate === undefined) return ''
  const wait = `about ${duration(estimate.startsInMs)} (± ${duration(estimate.spreadMs)})`
  return ` Job ${jobId} is number ${ahead + 1} of ${length} in line for \`${resource}\` and should start in ${wait}.`
}

/** As BullMQ takes it. What the options say beside the address, such as a certificate, stays. */
export function bullmqConnection(address: MasterAddress): { readonly url?: string } {
  if (typeof address === 'string') return { url: address }
  if (isWatched(address)) return address as object
  const { host = '127.0.0.1', port = 6379, path } = address
  const name = host.includes(':') ? `[${host}]` : host
  return { ...address, url: path ?? `redis://${name}:${port}` }
}
