/** What an operator asks of the queue's Redis: a job, the lines it is in, and why it waits. */
import { commandLine } from '../../command-line.ts'
import { Job, Queue } from 'bullmq'
import { systemClock, withinMs } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import { messageOf } from '../../message-of.ts'
import type { Finding } from '../../services/finding.ts'
import type { Inspection } from '../../lock/inspection.ts'
import type { MasterAddress } from '../../redlock/wire/connection-settings.ts'
import { defineScript, type Script } from '../../lua.ts'
import { QueueServer } from './queue-server.ts'
import { LineBackend } from '../../line/line-backend.ts'
import { cancelJobs, type CancelOptions } from '../../line/cancel.ts'
import {
  explainJob,
  inspectResource,
  noSuchJob,
  standstillOf,
  type Explanation,
  type LineEntry,
  type Standstill,
} from '../../worker/inspection.ts'
import { leaveLines, skipJob } from '../../line/leave-lines.ts'
import { LineLimits, type ResourceLimits } from '../../line/limits.ts'
import { membersOf } from '../../line/members.ts'
import { positionOf, type LinePosition } from '../../line/position.ts'
import { stepsKey } from '../../worker/run/result-store.ts'
import { duration } from './duration.ts'
import { globEscape } from './glob.ts'
import { checkJobs, oldestJob, type OldestJob } from './standing-jobs.ts'
import { Places, type QueuePlace } from './places.ts'
import { absentKeyIn, argumentsText, keyIn, type LineRunner } from '../../line/line-runner.ts'

export interface QueueViewOptions {
  /** `redis://`, `rediss://`, or ioredis options. */
  readonly url: MasterAddress
  /** BullMQ's. */
  readonly prefix: string
  readonly timeoutMs: number
}

/** What the masters say about a resource. */
export type Inspect = (resource: string) => Promise<Inspection>

/** Lines in which jobs wait. */
export interface WaitingLines {
  /** The longest first. */
  readonly lines: readonly WaitingLine[]
  /** All that there are, also those that were not looked at. */
  readonly total: number
  /** There are more than were looked at, so a longer or a matching line may be missing. */
  readonly truncated: boolean
}

export interface WaitingLine {
  readonly queue: string
  readonly resource: string
  /** Jobs in it, also the one whose turn it is. */
  readonly jobs: number
  /** Its head: the first few. */
  readonly first: readonly LineEntry[]
  /** What is set for the resource. */
  readonly limits: ResourceLimits
}

/** The line of a resource in one queue. */
export interface ResourceInQueue {
  readonly queue: string
  readonly jobs: number
  readonly limits: ResourceLimits
}

export interface LineSearch {
  /** Part of the name of a resource, or of the tenant of its first job. */
  readonly text: string
  /** The most lines to return. */
  readonly limit: number
  /** How many of each line. */
  readonly heads: number
}

export interface JobExplanation extends Explanation {
  /** In whose lines it stands. */
  readonly resources: readonly string[]
  /** Its place in its line; with an estimate where the job, its line and its queue move. */
  readonly position?: LinePosition
}

/** The last lines of a job's log that are shown: requeues say there why. */
const LOG_LINES = 5
/** The most jobs of a line that are shown. */
const MAX_HEADS = 100
/** As checkpoints are kept. */
const STEP_FIELD = 'value:'
/** The most lines of a queue that are looked at to find the longest. */
const MAX_LINES = 500
/** The most lines of a queue among whose names a search looks. */
const MAX_NAMES = 100_000
const NAMES_AT_ONCE = 1_000
/** How often new queues are looked for. */
const FIND_EVERY_MS = 60_000
/** The most keys that are looked at to find them. */
const MAX_SCANNED = 1_000_000
/** Whose lines and counts are shown. */
export const MAX_QUEUES = 50
/** A question takes a few round trips, each of which may take `timeoutMs`. */
const MAX_TRIPS = 5
const CLOSE_LIMIT_MS = 500
/** BullMQ's keys of a queue: one that was used has at least one of them. */
const QUEUE_KEYS = [
  ...['meta', 'id', 'wait', 'paused', 'active', 'prioritized', 'delayed', 'waiting-children'],
  ...['completed', 'failed', 'repeat'],
]
/** To fail the jobs that wait, up to 10,000. */
const CANCEL_LIMIT_MS = 60_000
/** It moves a thousand jobs at a time. */
const LEAVE_LINES_LIMIT_MS = 600_000

export class QueueView {
  /** The server itself, or the cluster. */
  readonly server: QueueServer
  readonly places: Places
  readonly #prefix: string
  readonly #options: QueueViewOptions
  readonly #queues = new Map<string, Queue>()
  readonly #scripts = new Map<string, Script>()
  #names: readonly string[] = []
  #areAllKnown = false
  #foundAt = -Infinity

  constructor(options: QueueViewOptions) {
    this.#options = options
    const { url, prefix, timeoutMs } = options
    this.server = new QueueServer(url, timeoutMs)
    this.places = new Places(this.server, prefix)
    this.#prefix = prefix
  }

  /** What is wrong with a queue's name; undefined if the server has that queue. */
  async missing(queue: string): Promise<string | undefined> {
    const [place] = await this.places.of(queue)
    const keys = QUEUE_KEYS.map((key) => `${place?.base ?? ''}${key}`)
    const found = await this.server.command('EXISTS', ...keys).catch((error: unknown) => {
      if (!messageOf(error).startsWith('CROSSSLOT')) throw error
      throw new Error(
        `The queue's Redis is a cluster: give the queue's prefix in braces, as --prefix {bull}`,
      )
    })
    if (Number(found) > 0) return undefined
    return `There is no queue \`${queue}\` with the prefix \`${this.#prefix}\`. Check the name and --prefix.`
  }

  /** Why there is no such job. */
  async absence(queue: string, jobId: string): Promise<string> {
    return (await this.missing(queue)) ?? noSuchJob(queue, jobId)
  }

  /** The queues of this prefix. A sharded queue is one. */
  async names(): Promise<readonly string[]> {
    if (systemClock.now() - this.#foundAt < FIND_EVERY_MS) return this.#names
    const names = new Set<string>()
    // Every queue has a key with its settings.
    const [befores, after] = [this.places.prefixes.map((each) => `${each}:`), ':meta']
    const common = this.#prefix.replace(/[{}]/g, '')
    const pages = this.server.scan(`*${globEscape(common)}*${after}`, MAX_SCANNED)
    let page = await pages.next()
    for (; page.done !== true; page = await pages.next()) {
      for (const key of page.value) {
        const before = befores.find((each) => key.startsWith(each))
        if (before !== undefined) names.add(key.slice(before.length, -after.length))
      }
    }
    this.places.forget()
    this.#areAllKnown = page.value
    // BullMQ allows no colon: such a key is of a resource or a job.
    this.#names = [...names].filter((name) => !name.includes(':')).sort()
    // A server with no queue yet is asked again at once.
    if (this.#names.length > 0) this.#foundAt = systemClock.now()
    return this.#names
  }

  /** The jobs in the lines of a resource, queue by queue, and what each waits for. */
  async line(resource: string, inspect: Inspect): Promise<readonly LineEntry[]> {
    const names = await this.names()
    if (!this.#areAllKnown) {
      throw new Error(`not all queues were found among ${MAX_SCANNED} keys of ${this.server.name}`)
    }
    const found = await Promise.all(
      names.map(async (queue) => {
        const place = await this.places.ofResource(queue, resource)
        const stands = (): Promise<Standstill | undefined> => this.#standstill(place)
        return inspectResource(resource, { inspect }, this.#runner(place), stands, MAX_HEADS)
      }),
    )
    return found.flatMap(({ line }) => line)
  }

  /** Where jobs wait, and what for. A line is found here when a job sleeps in it. */
  async waiting(search: LineSearch, inspect: Inspect): Promise<WaitingLines> {
    const { text, limit, heads } = search
    const ofQueues = await Promise.all(
      (await this.#places()).map((place) => this.#sleepingLines(place, text)),
    )
    // Only a search needs the tenant.
    const first = text === '' ? 0 : 1
    const isMeant = (resource: string, tenant = ''): boolean =>
      resource.includes(text) || tenant.includes(text)
    const lengths = await Promise.all(
      ofQueues.flatMap(({ place, resources }) =>
        resources.map(async (resource) => {
          const { length, members } = await membersOf(resource, this.#runner(place), first)
          const matches = isMeant(resource, members[0]?.share?.tenant)
          return { place, resource, jobs: matches ? length : 0 }
        }),
      ),
    )
    const longest = lengths
      .filter(({ jobs }) => jobs > 0)
      .sort((a, b) => b.jobs - a.jobs || (a.resource < b.resource ? -1 : 1))
    const known = new Map<QueuePlace, Promise<Standstill | undefined>>()
    return {
      lines: await Promise.all(
        longest.slice(0, limit).map(async ({ place, resource, jobs }) => {
          const stands = (): Promise<Standstill | undefined> =>
            getOrInsert(known, place, () => this.#standstill(place))
          const runner = this.#runner(place)
          const found = await inspectResource(resource, { inspect }, runner, stands, heads)
          return { queue: place.queue, resource, jobs, first: found.line, limits: found.limits }
        }),
      ),
      total: ofQueues.reduce((all, { total }) => all + total, 0),
      truncated: ofQueues.some(({ total, resources }) => total > resources.length),
    }
  }

  /** Lines that are looked at: those whose last look is oldest, and those that the text names. */
  async #sleepingLines(
    place: QueuePlace,
    text: string,
  ): Promise<{ readonly place: QueuePlace; readonly total: number; readonly resources: string[] }> {
    const index = this.#runner(place).keyOf('sleeping-lines')
    const [total, oldest] = (await Promise.all([
      this.server.command('ZCARD', index),
      this.server.command('ZRANGE', index, 0, MAX_LINES - 1),
    ])) as [number, string[]]
    if (text === '') return { place, total, resources: oldest }
    const named = new Set([text])
    for (let cursor = '0', looked = 0; looked < MAX_NAMES && named.size < MAX_LINES;) {
      const match = ['MATCH', `*${globEscape(text)}*`, 'COUNT', NAMES_AT_ONCE] as const
      const page = await this.server.command('ZSCAN', index, cursor, ...match)
      const [next, found] = page as [string, string[]]
      for (let nr = 0; nr < found.length; nr += 2) named.add(found[nr] ?? '')
      looked += NAMES_AT_ONCE
      cursor = next
      if (next === '0') break
    }
    return { place, total, resources: [...new Set([...named, ...oldest])] }
  }

  /** What keeps jobs waiting, queue by queue. */
  async findings(): Promise<readonly Finding[]> {
    const found = (await this.#places()).map((place) =>
      checkJobs(this.#runner(place), () => this.#standstill(place)),
    )
    const all = (await Promise.all(found)).flat()
    // Shards of a queue may have the same one.
    return [...new Map(all.map((each) => [JSON.stringify(each), each])).values()]
  }

  /** The job that has waited longest, of all queues; undefined where none waits. */
  async oldest(): Promise<OldestJob | undefined> {
    const places = await this.#places()
    const found = await Promise.all(places.map((place) => oldestJob(this.#runner(place))))
    return found
      .filter((one) => one !== undefined)
      .reduce<OldestJob | undefined>((a, b) => (a && a.since <= b.since ? a : b), undefined)
  }

  /** How long the line of a resource is in each queue, and its limits there. */
  async linesOf(resource: string): Promise<readonly ResourceInQueue[]> {
    const names = (await this.names()).slice(0, MAX_QUEUES)
    return Promise.all(
      names.map(async (queue) => {
        const place = await this.places.ofResource(queue, resource)
        const { length, limits } = await membersOf(resource, this.#runner(place), 0)
        return { queue, jobs: length, limits }
      }),
    )
  }

  /** The steps of a job that are done; empty where its worker keeps no checkpoints. */
  async completedSteps(queue: string, jobId: string): Promise<readonly string[]> {
    const place = await this.places.ofJob(queue, jobId)
    const store = this.#runner(place).keyOf(stepsKey({ id: jobId }))
    const [own, number, fields] = await Promise.all([
      this.server.command('HGET', place.base + jobId, 'redlock:steps'),
      this.server.command('HGET', store, 'number'),
      this.server.command('HKEYS', store),
    ])
    if (own !== number) return [] // Of an earlier job with this id.
    return (fields as string[]).flatMap((field) =>
      field.startsWith(STEP_FIELD) ? [field.slice(STEP_FIELD.length)] : [],
    )
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
    const place = await this.places.ofJob(queue, jobId)
    const job = await this.#within(place, (opened) => Job.fromId(opened, jobId))
    if (job === undefined) return undefined
    const lines = resources ?? (await this.#linesOf(place, jobId))
    let isUngranted = false
    const asks = async (resource: string): Promise<Inspection> => {
      const found = await inspect(resource)
      isUngranted ||= found.ungranted !== undefined
      return found
    }
    const told = await this.#within(place, (opened) =>
      explainJob(job, lines, { inspect: asks }, LineBackend.of(opened), () =>
        this.#standstill(place),
      ),
    )
    const stands = told.standstill !== undefined || told.state === 'active' || isUngranted
    const position = await positionOf(this.#runner(place), jobId, () => Promise.resolve(stands))
    if (position === undefined) return { ...told, resources: lines }
    return { ...told, why: told.why + estimateIn(position), resources: lines, position }
  }

  /** What keeps every job of a queue from starting; undefined for nothing. */
  async #standstill({ queue, prefix, base }: QueuePlace): Promise<Standstill | undefined> {
    const [isPaused, clients, isCluster] = await Promise.all([
      this.server.command('HEXISTS', `${base}meta`, 'paused'),
      // Who may not ask does not know: then one may be there.
      this.server.command('CLIENT', 'LIST').catch(() => undefined),
      this.server.isCluster(),
    ])
    // As BullMQ names the connections of its workers.
    const name = `${prefix}:${Buffer.from(queue).toString('base64')}`
    const ofWorkers = [` name=${name} `, ` name=${name}:w:`]
    const isThere =
      typeof clients !== 'string' || ofWorkers.some((field) => clients.includes(field))
    // A node of a cluster does not see the workers of the others.
    return standstillOf(queue, isPaused === 1, isThere || isCluster)
  }

  /** Tries a failed job again, in its place in line. @returns the state in which it was found. */
  async retry(queue: string, jobId: string): Promise<string | undefined> {
    return this.#within(await this.places.ofJob(queue, jobId), async (opened) => {
      const job = await Job.fromId(opened, jobId)
      const state = await job?.getState()
      if (state === 'failed') await job?.retry()
      return state
    })
  }

  /** A failed job lets its lines go on, and stays failed. @returns whether it held them. */
  async skip(queue: string, jobId: string): Promise<boolean> {
    const place = await this.places.ofJob(queue, jobId)
    return this.#within(place, (opened) => skipJob(LineBackend.of(opened), jobId))
  }

  /** Why nothing came of `retry` or `skip`. */
  async refusal(queue: string, jobId: string, fault: string): Promise<string> {
    const place = await this.places.ofJob(queue, jobId)
    const state = await this.#within(place, (opened) => opened.getJobState(jobId))
    if (state === 'unknown') return this.absence(queue, jobId)
    return `Job ${jobId} ${fault}: it is ${state}. See \`${commandLine`why ${queue} ${jobId}`}\`.`
  }

  /** What the job's log says last. BullMQ asks in a transaction, which a full server refuses. */
  async log(queue: string, jobId: string): Promise<readonly string[]> {
    const { base } = await this.places.ofJob(queue, jobId)
    return (await this.server.command('LRANGE', `${base}${jobId}:logs`, -LOG_LINES, -1)) as string[]
  }

  /** What is set for a resource of a queue, or for all of which something is set. */
  async limits(queue: string, resource?: string): Promise<ReadonlyMap<string, ResourceLimits>> {
    const places =
      resource === undefined
        ? await this.places.of(queue)
        : [await this.places.ofResource(queue, resource)]
    const found = await Promise.all(places.map((place) => this.#limits(place).get(resource)))
    return new Map(found.flatMap((each) => [...each]))
  }

  /** Sets or ends limits of a resource. */
  async changeLimits(
    queue: string,
    resource: string,
    change: (limits: LineLimits) => Promise<void>,
  ): Promise<void> {
    await change(this.#limits(await this.places.ofResource(queue, resource)))
  }

  /** Cancels a job, or all jobs of the queue in the line of a resource. */
  async cancel(
    queue: string,
    target: Parameters<typeof cancelJobs>[1],
    options: CancelOptions & { readonly timeoutMs: number },
  ): ReturnType<typeof cancelJobs> {
    const limitMs = options.timeoutMs + CANCEL_LIMIT_MS
    const place =
      typeof target === 'string'
        ? await this.places.ofJob(queue, target)
        : await this.places.ofResource(queue, target.resource)
    return this.#within(place, (opened) => cancelJobs(opened, target, options), limitMs)
  }

  /** Every job of the queue that waits for its turn becomes an ordinary waiting job. */
  async leaveLines(queue: string): Promise<number> {
    const leave = (opened: Queue): Promise<number> => leaveLines(LineBackend.of(opened))
    let left = 0
    for (const place of await this.places.of(queue)) {
      left += await this.#within(place, leave, LEAVE_LINES_LIMIT_MS)
    }
    return left
  }

  /** The resources in whose lines the job stands. */
  async #linesOf({ base }: QueuePlace, jobId: string): Promise<readonly string[]> {
    const recorded = await this.server.command('HGET', base + jobId, 'redlock:lines')
    return typeof recorded === 'string' ? (JSON.parse(recorded) as string[]) : []
  }

  async close(): Promise<void> {
    await this.#disconnect()
    this.server.close()
  }

  async #disconnect(): Promise<void> {
    const queues = [...this.#queues.values()]
    this.#queues.clear()
    const closing = queues.map((queue) => {
      LineBackend.of(queue).disconnectNow()
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
    limitMs: number = MAX_TRIPS * this.#options.timeoutMs,
  ): Promise<Value> {
    const address = await this.server.addressOf(`${place.base}meta`)
    const queue = getOrInsert(this.#queues, place.base, () => this.#opened(place, address))
    try {
      const pending = question(queue).then((value) => ({ value }))
      const answer = await withinMs(systemClock, limitMs, pending)
      if (answer === undefined) throw new Error(`no reply within ${limitMs} ms`)
      return answer.value
    } catch (error) {
      await this.#disconnect() // The next question connects again.
      throw error
    }
  }

  #opened({ queue: name, prefix }: QueuePlace, address: MasterAddress): Queue {
    const retry = { maxRetriesPerRequest: 1, retryStrategy: () => null }
    const connection = { ...bullmqConnection(address), ...retry }
    const lines = { slots: 1, within: 'added', maxWaitMs: Infinity } as const
    const factory = LineBackend.factory({ ...lines, onFailure: 'continue' })
    const queue = new Queue(name, { connection, prefix, skipMetasUpdate: true }, factory)
    queue.on('error', () => undefined) // The question that failed rejects.
    return queue
  }

  #limits(place: QueuePlace): LineLimits {
    return new LineLimits(this.#runner(place))
  }

  /** Those that are shown. */
  async #places(): Promise<readonly QueuePlace[]> {
    return this.places.ofAll((await this.names()).slice(0, MAX_QUEUES))
  }

  /** Reads and writes lines of any queue by the one connection. */
  #runner({ queue: queueName, base }: QueuePlace): LineRunner {
    return {
      queueName,
      keyOf: (key) => keyIn(base, key),
      run: (own, args) => {
        const script = getOrInsert(this.#scripts, own.command, () =>
          defineScript(own.command, own.lua),
        )
        return this.server.run(
          script,
          [`${base}meta`, absentKeyIn(base)],
          [argumentsText(base, 1, args)],
        )
      },
    }
  }
}

/** A sentence; '' where there is no estimate. */
function estimateIn({ ahead, length, resource, estimate }: LinePosition): string {
  if (estimate === undefined) return ''
  const wait = `about ${duration(estimate.startsInMs)} (± ${duration(estimate.spreadMs)})`
  return ` It is number ${ahead + 1} of ${length} in line for \`${resource}\` and should start in ${wait}.`
}

/** As BullMQ takes it. What the options say beside the address, such as a certificate, stays. */
export function bullmqConnection(address: MasterAddress): { readonly url: string } {
  if (typeof address === 'string') return { url: address }
  const { host = '127.0.0.1', port = 6379, path } = address
  const name = host.includes(':') ? `[${host}]` : host
  return { ...address, url: path ?? `redis://${name}:${port}` }
}
