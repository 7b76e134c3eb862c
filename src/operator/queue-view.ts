/**
 * What an operator asks of the queue's Redis without the application: a job, the lines it stands in,
 * and why it waits. A job's hash names its lines, so the function that names a resource is not needed.
 */
import { Job, Queue } from 'bullmq'
import { systemClock, type Clock } from '../clock.ts'
import type { Inspection } from '../lock/inspection.ts'
import type { MasterAddress } from '../redis/connection-settings.ts'
import { Probe } from '../redis/probe.ts'
import { LineBackend } from '../worker/bullmq/line-backend.ts'
import { inspectResource, membersOf, whyWaits, type LineEntry } from '../worker/line/inspection.ts'
import { settingsKey, type SharedSettings } from '../worker/line/settings-check.ts'
import { stepsKey } from '../worker/run/result-store.ts'
import { bullmqConnection } from './queue-address.ts'

export interface QueueViewOptions {
  /** `redis://`, `rediss://`, or ioredis options. */
  readonly url: MasterAddress
  readonly namespace: string
  /** BullMQ's. */
  readonly prefix: string
  readonly timeoutMs: number
  readonly clock?: Clock
}

/** What the masters say about a resource. */
export type Look = (resource: string) => Promise<Inspection>

/** Lines in which jobs wait. */
export interface WaitingLines {
  /** The longest first. */
  readonly lines: readonly WaitingLine[]
  /** All that there are, also those that were not looked at. */
  readonly total: number
  /** There are more than were looked at, or more that match than were asked for. */
  readonly truncated: boolean
}

export interface WaitingLine {
  readonly resource: string
  /** Jobs in it, also the one whose turn it is. */
  readonly jobs: number
  /** Its head: the first few. */
  readonly first: readonly LineEntry[]
}

export interface LineSearch {
  /** Part of a resource's name. @defaultValue any */
  readonly text?: string
  /** The most lines to return. */
  readonly limit: number
  /** How many of each line. */
  readonly heads: number
}

/** The last lines of a job's log that are shown: requeues say there why. */
const LOG_LINES = 5
/** So many jobs of a line are shown. */
const MAX_HEADS = 100
/** As checkpoints are kept. */
const STEP_FIELD = 'value:'
/** So many lines are looked at to find the longest. */
const MAX_LINES = 500

export class QueueView {
  readonly #options: QueueViewOptions
  readonly #probe: Probe
  readonly #queues = new Map<string, Queue>()

  constructor(options: QueueViewOptions) {
    this.#options = options
    const { url, timeoutMs, clock = systemClock } = options
    this.#probe = new Probe(url, { timeoutMs, clock })
  }

  /** The server itself. */
  get server(): Probe {
    return this.#probe
  }

  /** The jobs in the line of a resource, from its head on, and what each waits for. */
  async line(resource: string, look: Look): Promise<readonly LineEntry[]> {
    const { line } = await inspectResource(resource, { inspect: look }, this.#lines(), MAX_HEADS)
    return line
  }

  /** Where jobs wait, and what for. A line is found here when a job sleeps in it. */
  async waiting({ text = '', limit, heads }: LineSearch, look: Look): Promise<WaitingLines> {
    const index = `${this.#options.namespace}:sleeping-lines`
    const [total, names] = (await Promise.all([
      this.#probe.command('ZCARD', index),
      this.#probe.command('ZRANGE', index, 0, MAX_LINES - 1),
    ])) as [number, string[]]
    const lines = this.#lines()
    const lengths = await Promise.all(
      names
        .filter((resource) => resource.includes(text))
        .map(async (resource) => {
          const { length } = await membersOf(resource, lines, 0)
          return { resource, jobs: length }
        }),
    )
    const longest = lengths
      .filter(({ jobs }) => jobs > 0)
      .sort((a, b) => b.jobs - a.jobs || (a.resource < b.resource ? -1 : 1))
    return {
      lines: await Promise.all(
        longest.slice(0, limit).map(async ({ resource, jobs }) => {
          const { line } = await inspectResource(resource, { inspect: look }, lines, heads)
          return { resource, jobs, first: line }
        }),
      ),
      total,
      truncated: total > names.length || longest.length > limit,
    }
  }

  /** The steps of a job that are done; empty where its worker keeps no checkpoints. */
  async completedSteps(queue: string, jobId: string): Promise<readonly string[]> {
    const { namespace, prefix } = this.#options
    const store = stepsKey({ id: jobId, prefix, queueName: queue })
    const fields = await this.#probe.command('HKEYS', `${namespace}:${store}`)
    return (fields as string[]).flatMap((field) =>
      field.startsWith(STEP_FIELD) ? [field.slice(STEP_FIELD.length)] : [],
    )
  }

  async job(queue: string, jobId: string): Promise<Job | undefined> {
    return Job.fromId(this.#queue(queue), jobId)
  }

  /** What the job's log says last. */
  async log(queue: string, jobId: string): Promise<readonly string[]> {
    const { logs } = await this.#queue(queue).getJobLogs(jobId, -LOG_LINES, -1, true)
    return logs
  }

  /** Undefined for a job that has no place in the lines of the resources. */
  async why(job: Job, resources: readonly string[], look: Look): Promise<string | undefined> {
    return whyWaits(job, resources, { inspect: look }, this.#lines())
  }

  /** The other namespaces that the queue's workers and producers had lately. */
  async otherNamespaces(queue: string): Promise<readonly string[]> {
    const { prefix, namespace } = this.#options
    const reply = this.#probe.command('ZRANGE', settingsKey({ prefix, queue }), 0, -1)
    const said = (await reply.catch(() => [])) as string[] // Where that may not be read: none.
    const names = said.map((terms) => (JSON.parse(terms) as SharedSettings).namespace)
    return [...new Set(names)].filter((name) => name !== namespace)
  }

  /** The resources in whose lines the job stands. */
  async placesOf(queue: string, jobId: string): Promise<readonly string[]> {
    const { prefix } = this.#options
    const key = `${prefix}:${queue}:${jobId}`
    const recorded = await this.#probe.command('HGET', key, 'redlock:lines')
    return typeof recorded === 'string' ? (JSON.parse(recorded) as string[]) : []
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()))
    this.#probe.close()
  }

  #queue(name: string): Queue {
    const known = this.#queues.get(name)
    if (known !== undefined) return known
    const { url, prefix, namespace } = this.#options
    const retry = { maxRetriesPerRequest: 1, retryStrategy: () => null }
    const connection = { ...bullmqConnection(url), ...retry }
    const lines = { namespace, slots: 1, within: 'added', maxWaitMs: Infinity } as const
    const factory = LineBackend.factory({ ...lines, onFailure: 'continue' })
    const queue = new Queue(name, { connection, prefix, skipMetasUpdate: true }, factory)
    queue.on('error', () => undefined) // The question that failed rejects.
    this.#queues.set(name, queue)
    return queue
  }

  /** Any queue will do: lines belong to no queue. */
  #lines(): LineBackend {
    return LineBackend.of(this.#queue('any'))
  }
}
