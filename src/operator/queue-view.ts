/**
 * What an operator asks of the queue's Redis without the application: a job, the lines it stands in, and why it waits.
 * Lines are found by their keys, so nobody needs the function that names a job's resource.
 */
import { Job, Queue } from 'bullmq'
import { systemClock, type Clock } from '../clock.ts'
import type { Inspection } from '../lock/inspection.ts'
import type { MasterAddress } from '../redis/connection-settings.ts'
import { Probe } from '../redis/probe.ts'
import type { QueueConnection } from '../redis/queue-connection.ts'
import { inspectResource, whyWaits, type LineEntry } from '../worker/inspection.ts'
import { termsKey, type Terms } from '../worker/agreement.ts'
import { stepsStore } from '../worker/job-runs.ts'
import { encodeTicket } from '../worker/ticket.ts'
import { globEscape } from './glob.ts'
import { bullmqConnection } from './queue-address.ts'
import { LineHeads } from './line-heads.ts'

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

export interface JobPlaces {
  readonly resources: readonly string[]
  /** False when the queue's Redis has more keys than were looked at. */
  readonly complete: boolean
}

/** Lines in which somebody waits. */
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
const MAX_LOOKED = 1_000_000
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

  /** Who waits in the line of a resource, from its head on, and what for. */
  async line(resource: string, look: Look): Promise<readonly LineEntry[]> {
    const backend = this.#queue('any').getBackend()
    const { line } = await inspectResource(resource, { inspect: look }, this.#lines(), backend)
    return line
  }

  /** Where jobs wait, and what for. A line is found here when somebody sleeps in it. */
  async waiting({ text = '', limit, heads }: LineSearch, look: Look): Promise<WaitingLines> {
    const index = `${this.#options.namespace}:lines`
    const [total, names] = (await Promise.all([
      this.#probe.command('ZCARD', index),
      this.#probe.command('ZRANGE', index, 0, MAX_LINES - 1),
    ])) as [number, string[]]
    const lines = this.#lines(heads)
    const lengths = await Promise.all(
      names
        .filter((resource) => resource.includes(text))
        .map(async (resource) => ({ resource, jobs: await lines.length(resource) })),
    )
    const longest = lengths
      .filter(({ jobs }) => jobs > 0)
      .sort((a, b) => b.jobs - a.jobs || (a.resource < b.resource ? -1 : 1))
    const backend = this.#queue('any').getBackend()
    return {
      lines: await Promise.all(
        longest.slice(0, limit).map(async ({ resource, jobs }) => {
          const { line } = await inspectResource(resource, { inspect: look }, lines, backend)
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
    const store = stepsStore({ id: jobId, prefix, queueName: queue })
    const fields = await this.#probe.command('HKEYS', `${namespace}:{${store}}:values`)
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

  async why(job: Job, resources: readonly string[], look: Look): Promise<string> {
    const backend = this.#queue(job.queueName).getBackend()
    return whyWaits(job, () => [...resources], { inspect: look }, this.#lines(), backend)
  }

  /** The other namespaces that the queue's workers and producers had lately; none where that may not be read. */
  async otherNamespaces(queue: string): Promise<readonly string[]> {
    const { prefix, namespace } = this.#options
    const reply = this.#probe.command('ZRANGE', termsKey({ prefix, queue }), 0, -1)
    const said = (await reply.catch(() => [])) as string[]
    const names = said.map((terms) => (JSON.parse(terms) as Terms).namespace)
    return [...new Set(names)].filter((name) => name !== namespace)
  }

  /** The resources in whose lines the job stands. */
  async placesOf(queue: string, jobId: string, maxLooked: number = MAX_LOOKED): Promise<JobPlaces> {
    const { namespace, prefix } = this.#options
    const ticket = encodeTicket({ prefix, queue, jobId })
    const [before, after] = [`${namespace}:{`, '}:line']
    const resources = new Set<string>()
    const pages = this.#probe.scan(`${globEscape(namespace)}:{*}:line`, maxLooked)
    for (;;) {
      const page = await pages.next()
      if (page.done === true) return { resources: [...resources].sort(), complete: page.value }
      const scores = await Promise.all(
        page.value.map((key) => this.#probe.command('ZSCORE', key, ticket)),
      )
      for (const [index, key] of page.value.entries()) {
        if (scores[index] === null || scores[index] === undefined) continue
        resources.add(key.slice(before.length, -after.length))
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()))
    this.#probe.close()
  }

  #queue(name: string): Queue {
    const known = this.#queues.get(name)
    if (known !== undefined) return known
    const { url, prefix } = this.#options
    const connection = {
      ...bullmqConnection(url),
      maxRetriesPerRequest: 1,
      retryStrategy: () => null,
    }
    const queue = new Queue(name, { connection, prefix, skipMetasUpdate: true })
    queue.on('error', () => undefined) // Whoever asks gets the rejection.
    this.#queues.set(name, queue)
    return queue
  }

  #lines(heads: number = MAX_HEADS): LineHeads {
    const connection: QueueConnection = {
      run: (script, keys, args) => this.#probe.run(script, keys, args),
      command: (name, ...args) => this.#probe.command(name, ...args),
      close: () => undefined,
    }
    const backend = this.#queue('any').getBackend()
    const { namespace, clock = systemClock } = this.#options
    return new LineHeads(connection, backend, { namespace, heads }, clock)
  }
}
