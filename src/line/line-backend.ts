/**
 * BullMQ's Redis backend with lines: a subclass that sends the composed scripts where BullMQ would
 * send its own. Everything that BullMQ does to jobs passes `execCommand`, so a job and its places
 * change in the same trip.
 */
// Through the namespace: a BullMQ without these names is refused later, with what to do.
import * as bullmq from 'bullmq'
import type {
  BackendFactory,
  Job,
  JobJson,
  MinimalJob,
  QueueBaseOptions,
  RedisQueueBackend,
  WorkerOptions,
} from 'bullmq'
import { sleep, systemClock, withinMs } from '../clock.ts'
import { LineFullError } from '../errors.ts'
import type { Slots } from '../slots.ts'
import { tlsMismatch } from '../tls-check.ts'
import { ASLEEP_DELAY_MS, VIRTUAL_TIME } from './asleep.ts'
import { lineScripts, type LineScripts } from './line-scripts.ts'
import type { JobRate } from './limits.ts'
import { shareText, type Share } from './shares.ts'
import {
  absentKeyIn,
  argumentsText,
  jsonText,
  keyIn,
  type Arguments,
  type LineRunner,
} from './line-runner.ts'
import { sweepAll } from './sweep.ts'
import { ownScript, type ComposedScript } from './bullmq/composed-script.ts'
import { bullmqScripts } from './bullmq/bullmq-scripts.ts'
import { requireKnownBullmq } from './bullmq/known-bullmq.ts'
import { finishOptions } from './bullmq/finish-options.ts'
import { TurnGroup } from './turn-group.ts'
import type { Join, LineVisit, LineVisits, Move, Turn } from './visit.ts'

/** What a queue and its workers agree on. */
export interface LineSettings {
  readonly slots: number
  /** The order inside a line: that of adding, or BullMQ's order of waiting jobs. */
  readonly within: 'added' | 'priority'
  /** A job that was added this long ago is looked at, whether or not it is its turn. */
  readonly maxWaitMs: number
  /** What a job that failed for good does to its lines. */
  readonly onFailure: 'continue' | 'block'
  /** BullMQ writes it to the jobs that a worker of this name is given. */
  readonly workerName?: string | undefined
  /** Of a worker. */
  readonly visits?: LineVisits | undefined
  /** How a job that is added here stands in line, by its data; undefined for a worker. */
  readonly placement?: (data: unknown) => LinePlacement
  /** How many jobs a line has at most; undefined for any number. */
  readonly maxLength?: number | undefined
  /** Which sleeping job of a full line is removed for a new one; undefined for none. */
  readonly drops?: 'oldest' | 'newest' | undefined
}

/** How a job that is added stands in line. */
export interface LinePlacement {
  readonly resources: readonly string[]
  /** Of its resources; undefined where the job says none. */
  readonly slots: Slots | undefined
  readonly rate: Required<JobRate> | undefined
  readonly share: Share | undefined
}

/** A job as BullMQ knows it, and its id. */
export type TakenJob = readonly [job: JobJson, id: string]

interface Client {
  hget(key: string, field: string): Promise<string | null | undefined>
  zscore(key: string, member: string): Promise<string | null | undefined>
  runCommand(name: string, args: unknown[]): Promise<unknown>
  defineCommand(name: string, definition: { numberOfKeys: number; lua: string }): void
}

type Method<Name extends keyof RedisQueueBackend> = RedisQueueBackend[Name] extends (
  ...args: infer Args
) => infer Reply
  ? { readonly args: Args; readonly reply: Reply }
  : never
type Completed = Awaited<Method<'moveToCompleted'>['reply']>

/** What the script that cancels a job found: see its text. */
export type CancelOutcome = 'failed' | 'running' | 'finished' | 'missing' | 'refused'

/** A job that ends in this turn of the event loop. */
interface End {
  readonly id: string
  readonly token: string
  /** Of BullMQ, as JSON. */
  readonly opts: string
  /** What is not usual with it: see `lua/finish.lua`. */
  readonly more: Readonly<Record<string, unknown>>
  /** What it returned, or failed with. */
  readonly value: string
  readonly visit: LineVisit | undefined
  finishedOn: number
  readonly resolve: (completed: Completed) => void
  readonly reject: (error: unknown) => void
}

/** A job that is added in this turn of the event loop. */
interface Addition {
  /** Of BullMQ's script. */
  readonly name: string
  /** BullMQ's keys and arguments, and ours of the job: see `lua/add.lua`. */
  readonly args: readonly unknown[]
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
}

const KEEP_ALL = { count: -1 }
const backScript = ownScript('line/lua/goes-back')
const wakeScript = ownScript('line/lua/wake-worker')
const NO_JOB = { id: '', opts: {} } as MinimalJob
/** Replies of the park script. */
const ITS_TURN = -100
const TOO_LATE = -101
/** A job that is added so may start without a delay or children. */
const AT_ONCE: ReadonlySet<string> = new Set(['addStandardJob', 'addPrioritizedJob'])
/** Reply of the add script. */
const LINE_FULL = -200
/** Other producers may take the room that was made. */
const MAX_DROPS = 20
/** The server and its clients wait for each other where more leave together. */
const ENDS_TOGETHER = { items: 8, bytes: 100_000 }
const ADDED_TOGETHER = { items: 16, bytes: 100_000 }
/** A job waits this long at most for jobs that this worker was given before it. */
const JOIN_LIMIT_MS = 50
/** BullMQ asks again at once when the server refuses to give it a job. */
const REFUSED_PAUSE_MS = 250

const Backend: typeof RedisQueueBackend =
  (bullmq as Partial<typeof bullmq>).RedisQueueBackend ?? (Object as never)

export class LineBackend extends Backend implements LineRunner {
  readonly #settings: LineSettings
  readonly #scripts: LineScripts
  readonly #defined = new Set<string>()
  /** Of the jobs that have to take their places. */
  #lastJoin: Promise<unknown> = Promise.resolve()
  readonly #ends = new TurnGroup<End>(
    ENDS_TOGETHER,
    this.#finish.bind(this),
    this.#ended.bind(this),
  )
  readonly #additions = new TurnGroup<Addition>(
    ADDED_TOGETHER,
    this.#addAll.bind(this),
    ({ resolve, reject }, reply) => {
      if (reply instanceof Error) reject(reply)
      else resolve(reply)
    },
  )
  /** Where full lines drop jobs for new ones. */
  #lastAdd: Promise<unknown> = Promise.resolve()
  /** Jobs are added in their order: of one kind at a time. */
  #addedBy: string | undefined
  readonly #options: QueueBaseOptions & Partial<WorkerOptions>
  /** What BullMQ's script for a finished job is given as KEYS. Some are other ones for each job. */
  readonly #finishKeys: readonly unknown[]
  readonly #absentKey: string
  /** How far the clock here is ahead of that of the queue's Redis. */
  #aheadMs = 0
  /** The queue's Redis had no job to give last, and none slept in line. */
  #isDrained = false
  /** The worker was told so, and was given no job since. */
  #toldDrained = false
  /** Our arguments of jobs that end, for those options of BullMQ. */
  #finishArguments: { readonly opts: string; readonly text: string } | undefined
  /** Once it is connected: before anything is sent. */
  #ready: Client | undefined

  /**
   * What `Queue` and `Worker` take as their backend.
   * @throws TypeError for a BullMQ whose scripts are not as known.
   */
  static factory(settings: LineSettings): BackendFactory<LineBackend> {
    requireKnownBullmq()
    return (name, options, more) =>
      new LineBackend(bullmq.createRedisBackend(name, options, more), name, settings)
  }

  /** The backend of a queue or worker that was made with {@link LineBackend.factory}. */
  static of(owner: { getBackend(): unknown }): LineBackend {
    const backend = owner.getBackend()
    if (backend instanceof LineBackend) return backend
    throw new TypeError('This queue or worker keeps no lines')
  }

  private constructor(inner: RedisQueueBackend, name: string, settings: LineSettings) {
    const { connection, blockingConnection, keys } = inner
    // This backend forwards what the connections emit; the inner one must not do it as well.
    for (const each of [connection, blockingConnection]) {
      for (const event of ['error', 'ready', 'close']) each?.removeAllListeners(event)
    }
    const { queue, ownsConnection } = inner as unknown as {
      readonly queue: { readonly opts: QueueBaseOptions }
      readonly ownsConnection: boolean
    }
    const toKey = (type: string): string => inner.toKey(type)
    super(connection, name, keys, toKey, queue.opts, blockingConnection, ownsConnection)
    this.#settings = settings
    this.#options = queue.opts
    this.#scripts = lineScripts()
    const { numberOfKeys } = this.#scripts.finish
    this.#finishKeys = this.moveToCompletedArgs(NO_JOB, '', false, '0').slice(0, numberOfKeys - 1)
    this.#absentKey = absentKeyIn(toKey(''))
    // What BullMQ waits for before it sends anything. Private in its types.
    const waiting = connection as unknown as { initializing: Promise<Client> }
    const prepared = waiting.initializing.then((client) => {
      this.#prepare(client)
      return client
    })
    prepared.catch(() => undefined) // BullMQ reports a connection that fails.
    waiting.initializing = prepared
  }

  /** `host:port` of the queue's Redis, where its client tells it. */
  async address(): Promise<string> {
    const client = (await this.#client()) as { readonly options?: { host?: string; port?: number } }
    return `${client.options?.host ?? ''}:${client.options?.port ?? ''}`
  }

  /** What to write instead of `redis://` or `rediss://`, where the queue's Redis speaks the other. */
  async tlsMismatch(): Promise<string | undefined> {
    // There before it is connected. Protected in BullMQ's types. A cluster has no `host`.
    const { _client: client } = this.connection as unknown as {
      readonly _client?: { readonly options?: Parameters<typeof tlsMismatch>[0] }
    }
    const { options } = client ?? {}
    return options?.host === undefined ? undefined : tlsMismatch(options)
  }

  /**
   * At most so many of the next jobs that sleep behind the first job of a batch, locked with its
   * token.
   * @param before jobs that it has taken before.
   */
  async take(
    { job: { id = '', timestamp }, token = '0', resources: [resource] }: LineVisit,
    most: number,
    before: number,
  ): Promise<readonly TakenJob[]> {
    // BullMQ's own keys and arguments, for another script.
    let found: unknown
    const execCommand = async (client: Client, _name: string, args: unknown[]): Promise<void> => {
      const ours = { resource, token, most, before, id, timestamp: String(timestamp) }
      found = await this.#sendFor(client, 'moveToActive', args, { does: 'take', ...ours })
    }
    const recorder = Object.create(this, { execCommand: { value: execCommand } }) as this
    await super.moveToActive.call(recorder, token, this.#settings.workerName)
    return (found as unknown[][]).map((job) => bullmq.raw2NextJobData(job) as unknown as TakenJob)
  }

  /**
   * Takes the job's places, and parks it if others are ahead of it.
   * @returns `slots`: no job is ahead of it, and these slots are set; `late`: it has waited for
   * `maxWaitMs`.
   */
  async park({
    job,
    token,
    resources,
    join,
  }: LineVisit): Promise<'parked' | 'late' | { readonly slots: Slots | undefined }> {
    const { id = '', timestamp } = job
    const now = systemClock.wallNow()
    const delayMs = ASLEEP_DELAY_MS - now
    const args = this.moveToDelayedArgs(id, now, token ?? '0', delayMs, { skipAttempt: true })
    const ours = {
      id,
      timestamp: String(timestamp),
      resources: JSON.stringify(resources),
      ...this.#waiting(job),
    }
    const client = await this.#client()
    if (join !== undefined) await withinMs(systemClock, JOIN_LIMIT_MS, join.earlier)
    const sent = this.#sendFor(client, 'moveToDelayed', args, { does: 'park', ...ours })
    join?.done()
    const reply = await sent
    this.#heard(reply)
    if (Array.isArray(reply) && reply[0] === ITS_TURN) return { slots: slotsFrom(reply[1]) }
    if (reply === TOO_LATE) return 'late'
    if (typeof reply === 'number' && reply < 0) {
      throw this.finishedErrors({ code: reply, jobId: id, command: 'park', state: 'active' })
    }
    return 'parked'
  }

  /** Notes that a job goes back for a while. @returns false where it has waited for `maxWaitMs`. */
  async goBack(job: LineVisit['job']): Promise<boolean> {
    const waiting = this.#waiting(job)
    if (waiting.maxWaitMs === undefined) return true
    return (await this.run(backScript, { id: job.id, ...waiting })) === 0
  }

  /** The resources in whose lines the job was put; undefined for a job that has no place yet. */
  async recordedResources(jobId: string): Promise<readonly string[] | undefined> {
    const client = await this.#client()
    const lines = await client.hget(this.toKey(jobId), 'redlock:lines')
    return lines === null || lines === undefined ? undefined : (JSON.parse(lines) as string[])
  }

  /** When the delay of a job ends; undefined for one that has none. */
  async dueAt(jobId: string): Promise<Date | undefined> {
    const client = await this.#client()
    const score = await client.zscore(this.toKey('delayed'), jobId)
    return score === null || score === undefined ? undefined : new Date(Number(score) / 4096)
  }

  /** Fails a job that waits, by BullMQ's own way; asks the worker of one that runs to stop it. */
  async cancel(job: Job, error: Error, reason: string): Promise<CancelOutcome> {
    const { id = '', opts } = job
    const { removeOnFail, stackTraceLimit = Infinity } = opts
    const removes = removeOnFail === true || removeOnFail === 0 // Others may hold their lines.
    // As BullMQ's `job.moveToFailed` keeps it.
    const stacks = stackTraceLimit > 0 ? [...(job.stacktrace ?? []), error.stack] : []
    const stacktrace = JSON.stringify(stacks.slice(-stackTraceLimit))
    const fields = { failedReason: error.message, stacktrace }
    const args = this.moveToFailedArgs(job, error.message, removes, '0', false, fields)
    const reply = await this.#send(await this.#client(), this.#scripts.cancel, args, { id, reason })
    return reply as CancelOutcome
  }

  /** An idle worker of this queue looks whether there is a job. */
  async wakeWorker(): Promise<void> {
    await this.run(wakeScript, {})
  }

  /** BullMQ waits for a connection before it closes it; this ends its clients at once. */
  disconnectNow(): void {
    for (const each of [this.connection, this.blockingConnection]) {
      const { _client: client } = (each ?? {}) as { readonly _client?: { disconnect(): void } }
      client?.disconnect()
    }
  }

  /** True once for each time that the queue's Redis has no job to give, and none sleeps in line. */
  tellDrained(): boolean {
    // rule: worker-is-drained-once-when-no-job-sleeps
    if (this.#toldDrained || !this.#isDrained) return false
    this.#toldDrained = true
    return true
  }

  get queueName(): string {
    return this.name
  }

  keyOf(key: string): string {
    return keyIn(this.toKey(''), key)
  }

  async run(script: ComposedScript, args: Arguments): Promise<unknown> {
    const client = await this.#client()
    this.#define(client, script)
    // A key on the queue's slot of a cluster.
    return this.#call(client, script, [this.keys['meta'], this.#named(args)])
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as BullMQ declares it.
  override execCommand(client: unknown, name: string, args: any[]): any {
    const script = this.#scripts.composed.get(name)
    if (script === undefined) return super.execCommand(client as never, name, args)
    const to = client as Client
    const argv = args.slice(keysOf(name)) as (string | number)[]
    switch (name) {
      case 'addStandardJob':
      case 'addPrioritizedJob':
      case 'addDelayedJob':
      case 'addParentJob':
        return this.#add(to, name, args, String(argv[1]))
      case 'moveToActive':
        return this.#fetch(to, name, args, {}).catch(refusedLater)
      case 'moveToDelayed':
        return this.#fetch(to, name, args, { does: 'delay' })
      case 'promote':
        return this.#send(to, script, args, { id: argv[1] })
      case 'addJobScheduler':
        return this.#send(to, script, args, { time: 7 })
      case 'updateJobScheduler':
        return this.#send(to, script, args, { time: 5 })
      case 'removeJob':
      case 'reprocessJob':
        return this.#send(to, script, args, { id: argv[0] })
      case 'moveToWaitingChildren':
        return this.#send(to, script, args, { id: argv[3] })
      case 'changePriority':
        return this.#send(to, script, args, {
          id: argv[2],
          priority: argv[0],
          lifo: argv[3] === 1,
        })
      case 'drain':
        return this.#send(to, script, args, { which: 'both' })
      case 'cleanJobsInSet':
        return this.#clean(to, script, args, String(argv[3]))
      default:
        return this.#send(to, script, args, {})
    }
  }

  override moveToCompleted(
    ...[job, value, remove, token, fetches = false]: Method<'moveToCompleted'>['args']
  ): Method<'moveToCompleted'>['reply'] {
    const keepJobs = this.getKeepJobs(remove, this.#options.removeOnComplete)
    const opts = finishOptions(job.opts, keepJobs, this.#options)
    return this.#end(job, JSON.stringify(value), token, fetches, opts, {})
  }

  override moveToFailed(...args: Method<'moveToFailed'>['args']): Method<'moveToFailed'>['reply'] {
    const [job, reason, remove, token, fetches, fields = {}] = args
    const blocks = this.#settings.onFailure === 'block'
    // It holds its line, and so do those that failed before it.
    // rule: held-line-loses-no-job
    const keepJobs = blocks ? KEEP_ALL : this.getKeepJobs(remove, this.#options.removeOnFail)
    const opts = finishOptions(job.opts, keepJobs, this.#options)
    return this.#end(job, reason, token, fetches, opts, {
      target: 'failed',
      holds: blocks ? true : undefined,
      fields: Object.entries(fields).flatMap(([name, value]) =>
        value === undefined ? [] : [name, value as unknown],
      ),
    })
  }

  /** BullMQ adds the next job of a scheduler when it fetches one, which may have to wait here. */
  override updateJobSchedulerNextMillis(
    ...args: Method<'updateJobSchedulerNextMillis'>['args']
  ): Method<'updateJobSchedulerNextMillis'>['reply'] {
    const add = (): Promise<string | null> => super.updateJobSchedulerNextMillis(...args)
    const producerId = args.at(4)
    const visit =
      typeof producerId === 'string' ? this.#settings.visits?.waiting(producerId) : undefined
    if (visit === undefined) return add()
    visit.addNext = add
    return Promise.resolve(null)
  }

  override addJobs(entries: Method<'addJobs'>['args'][0]): Method<'addJobs'>['reply'] {
    if (this.#settings.placement === undefined) return super.addJobs(entries)
    return Promise.all(
      entries.map(({ job, jobId, parentKeyOpts }) => this.addJob(job, jobId, parentKeyOpts)),
    )
  }

  override async waitForJob(...args: Method<'waitForJob'>['args']): Method<'waitForJob'>['reply'] {
    const found = await super.waitForJob(...args)
    if (!found || found.score <= 0) return found
    return { ...found, score: found.score + this.#aheadMs }
  }

  /** At an empty reply BullMQ forgets what it heard of rates and delays; at none it does not. */
  override async moveToDelayed(
    ...args: Method<'moveToDelayed'>['args']
  ): Method<'moveToDelayed'>['reply'] {
    const found = await super.moveToDelayed(...args)
    // rule: retry-without-a-job-says-nothing
    return found?.length === 0 ? undefined : found
  }

  override async drain(delayed: boolean): Promise<void> {
    await super.drain(delayed)
    await sweepAll(this)
  }

  override async cleanJobsByState(
    ...args: Method<'cleanJobsByState'>['args']
  ): Method<'cleanJobsByState'>['reply'] {
    const removed = await super.cleanJobsByState(...args)
    if (removed.length > 0) await sweepAll(this)
    return removed
  }

  override async getQueueMeta(): Method<'getQueueMeta'>['reply'] {
    const { [VIRTUAL_TIME]: _, ...meta } = await super.getQueueMeta()
    return meta
  }

  override async isJobInState(
    ...[state, jobId]: Method<'isJobInState'>['args']
  ): Method<'isJobInState'>['reply'] {
    const found = await this.getState(jobId)
    return found === 'waiting' ? state === 'waiting' || state === 'wait' : found === state
  }

  override async getJobData(jobId: string): Method<'getJobData'>['reply'] {
    const job = await super.getJobData(jobId)
    return job?.delay === ASLEEP_DELAY_MS ? { ...job, delay: 0 } : job
  }

  /** As `lua/deadline.lua` has it. Who was started has waited. */
  #waiting({ timestamp, opts, attemptsMade }: LineVisit['job']): {
    maxWaitMs: number | undefined
    dueAt: number
  } {
    const maxWaitMs = attemptsMade > 0 ? undefined : limitOf(this.#settings.maxWaitMs)
    return { maxWaitMs, dueAt: dueAt({ timestamp, opts }) }
  }

  async #add(client: Client, name: string, args: unknown[], data: string): Promise<unknown> {
    const { placement, drops } = this.#settings
    if (placement === undefined) {
      return super.execCommand(client as never, name, args) as Promise<unknown>
    }
    const { resources, slots, rate, share } = placement(JSON.parse(data))
    const more = {
      rate: rate && JSON.stringify([rate.limit, rate.perMs, rate.burst, rate.cost]),
      share: share && shareText(share),
      slots: slots && JSON.stringify(slots),
    }
    const all = [...args, JSON.stringify(resources), jsonText(more)]
    // The replies of a transaction come together.
    if (client !== this.#ready) return this.#sendAdded(client, name, all, true)
    const add = (): Promise<unknown> => this.#addWithRoom(name, all, data.length)
    if (drops === undefined) return add()
    // rule: room-is-made-in-the-order-of-adds
    const added = this.#lastAdd.then(add)
    this.#lastAdd = added.catch(() => undefined)
    return added
  }

  /** Of a full line, a job is dropped first, where `whenFull` says so. */
  async #addWithRoom(name: string, args: readonly unknown[], bytes: number): Promise<unknown> {
    const { maxLength = 0 } = this.#settings
    for (let drops = 0; ; drops++) {
      const reply = await new Promise((resolve, reject) => {
        if (this.#addedBy !== name) void this.#additions.flush()
        this.#addedBy = name
        this.#additions.add({ name, args, resolve, reject }, bytes)
      })
      if (!Array.isArray(reply) || reply[0] !== LINE_FULL) return reply
      const [, resource, id] = reply as [number, string, string]
      if (id === '' || drops === MAX_DROPS) throw new LineFullError(this.name, resource, maxLength)
      await this.remove(id, false)
    }
  }

  #sendAdded(
    client: Client,
    name: string,
    args: readonly unknown[],
    isOne: boolean,
  ): Promise<unknown> {
    const { within, maxWaitMs, maxLength, drops } = this.#settings
    const key = args[0] as string
    return this.#sendFor(client, name, args, {
      // A flow adds jobs to several queues.
      base: key.slice(0, key.lastIndexOf(':') + 1),
      mayStart: AT_ONCE.has(name) || undefined,
      isDelayed: name === 'addDelayedJob' || undefined,
      maxWaitMs: limitOf(maxWaitMs),
      isOne: isOne || undefined,
      ...(isOne ? { within } : { within, maxLength, drops }),
    })
  }

  #clean(client: Client, script: ComposedScript, args: unknown[], state: string): Promise<unknown> {
    const { cleanWaiting } = this.#scripts
    if (state === 'prioritized') return this.#send(client, cleanWaiting, args, { which: state })
    if (state !== 'wait' && state !== 'paused') return this.#send(client, script, args, {})
    return this.#send(client, cleanWaiting, args, { which: 'wait' })
  }

  #addAll(additions: readonly Addition[]): Promise<unknown> {
    const { name, args } = additions[0] as Addition
    const all = [...args]
    for (const each of additions.slice(1)) all.push(...each.args.slice(keysOf(name)))
    return this.#sendAdded(this.#ready as Client, name, all, false)
  }

  /** A job ends. It leaves its lines as its visit says; without a word it just leaves them. */
  #end(
    job: Pick<Job, 'id' | 'opts'>,
    value: string | undefined,
    token: string,
    fetches: boolean,
    opts: string,
    unusual: Arguments,
  ): Promise<Completed> {
    const { id = '' } = job
    // Asked once. BullMQ tries again after a broken connection: it is an ordinary ending then.
    const visit = this.#settings.visits?.ending(job)
    const keeps = !fetches || this.queue.closing !== undefined
    const more = {
      ...unusual,
      keeps: keeps || undefined,
      ...(visit?.move && unusualOf(visit.move)),
    }
    return new Promise((resolve, reject) => {
      const text = value ?? 'null'
      const end = { id, token, opts, more, value: text, visit, finishedOn: 0, resolve, reject }
      this.#ends.add(end, text.length)
    })
  }

  #finish(ends: readonly End[]): Promise<unknown> {
    const at = systemClock.wallNow()
    const { opts } = ends[0] as End
    if (this.#finishArguments?.opts !== opts) {
      this.#finishArguments = { opts, text: this.#named({ opts: JSON.parse(opts) as unknown }) }
    }
    const args = [...this.#finishKeys, String(at)]
    for (const end of ends) {
      const { id, token, more, opts: own, value, visit } = end
      const move = visit?.move
      end.finishedOn = at
      args.push(id, token)
      // Without a word the queue's Redis says of which lines it is.
      if (move === undefined) args.push('', '', '')
      else args.push(String(move.timestamp), move.lines || '[]', String(Math.round(move.usedMs)))
      const unusual = own === opts ? more : { ...more, opts: JSON.parse(own) as unknown }
      args.push(value, jsonText(unusual))
    }
    args.push(this.#finishArguments.text)
    const sent = this.#call(this.#ready as Client, this.#scripts.finish, args)
    for (const { visit } of ends) if (visit !== undefined) this.#settings.visits?.sent(visit)
    return sent
  }

  #ended({ id, more, visit, finishedOn, resolve, reject }: End, reply: unknown): void {
    let next: LineVisit | undefined
    try {
      if (reply instanceof Error) throw reply
      if (typeof reply === 'number' && reply < 0) {
        const state = { command: 'moveToFinished', state: 'active' }
        throw this.finishedErrors({ code: reply, jobId: id, ...state })
      }
      const asksNone = more['keeps'] === true || more['offers'] === true
      // It asked for another job, and nothing is left, not even a delayed one.
      if (reply === 0 && !asksNone) this.#isDrained = true
      next = this.#heard(reply)
      const found = bullmq.raw2NextJobData(reply as unknown[])
      // rule: reply-that-asked-nothing-says-nothing
      resolve({ result: asksNone && found.length === 0 ? undefined : found, finishedOn })
    } catch (error) {
      reject(error) // What BullMQ cannot read of one job is no other job's error.
    }
    if (visit !== undefined) this.#settings.visits?.returned(visit, next)
  }

  async #fetch(
    client: Client,
    name: string,
    args: readonly unknown[],
    ours: Arguments,
  ): Promise<unknown> {
    const reply = await this.#sendFor(client, name, args, ours)
    this.#heard(reply)
    return reply
  }

  /** The job that a reply brings, if any, with what the reply says about its turn. */
  #heard(reply: unknown): LineVisit | undefined {
    if (!Array.isArray(reply)) return undefined
    if (!Array.isArray(reply[0])) {
      this.#countByOwnClock(reply as number[])
      this.#isDrained = reply[5] === 0
      return undefined
    }
    // In the order of replies: BullMQ opens the job later.
    this.#isDrained = this.#toldDrained = false
    const [, jobId, , , told] = reply as readonly unknown[]
    const [turn, lines = '', burst, slots, share = '', charged] = told as readonly string[]
    const visit = this.#settings.visits?.fetched(String(jobId), {
      turn: turn as Turn['turn'],
      lines,
      usedMs: Number(burst),
      slots: slotsFrom(slots),
      share,
      chargedMs: Number(charged),
    })
    if (visit !== undefined && (turn === 'none' || turn === 'no')) visit.join = this.#nextJoin()
    return visit
  }

  /** Where there is no job, BullMQ is told when there will be one: it counts on the clock here. */
  #countByOwnClock(reply: number[]): void {
    const [, , , delayUntil = 0, serverMs] = reply
    if (serverMs !== undefined) this.#aheadMs = systemClock.wallNow() - serverMs
    // rule: waits-by-its-own-clock
    if (delayUntil > 0) reply[3] = delayUntil + this.#aheadMs
  }

  #nextJoin(): Join {
    let done = (): void => undefined
    const earlier = this.#lastJoin
    this.#lastJoin = new Promise<void>((resolve) => {
      done = resolve
    })
    return { earlier, done }
  }

  /** BullMQ's keys and arguments, and ours as one. */
  #send(
    client: Client,
    script: ComposedScript,
    args: readonly unknown[],
    ours: Arguments,
  ): Promise<unknown> {
    return this.#call(client, script, [...args, this.#named(ours)])
  }

  /** The same for a script that takes the place of several of BullMQ's. */
  #sendFor(
    client: Client,
    name: string,
    args: readonly unknown[],
    ours: Arguments,
  ): Promise<unknown> {
    const script = this.#scripts.composed.get(name) as ComposedScript
    const own = keysOf(name)
    const more = Array<unknown>(script.numberOfKeys - 1 - own).fill(args[0])
    return this.#send(client, script, args.toSpliced(own, 0, ...more), { replaces: name, ...ours })
  }

  /** Whatever goes wrong, it rejects. @param args without the absent key. */
  async #call(client: Client, script: ComposedScript, args: unknown[]): Promise<unknown> {
    args.splice(script.numberOfKeys - 1, 0, this.#absentKey)
    return await client.runCommand(script.command, args)
  }

  #named(ours: Arguments): string {
    return argumentsText(this.toKey(''), this.#settings.slots, ours)
  }

  async #client(): Promise<Client> {
    return await this.connection.client
  }

  /** Pipelines and transactions know only what was defined before they were made. */
  #prepare(client: Client): void {
    this.#ready = client
    const { composed, ...others } = this.#scripts
    for (const script of [...composed.values(), ...Object.values(others)]) {
      this.#define(client, script)
    }
  }

  #define(client: Client, script: ComposedScript): void {
    const { command, numberOfKeys } = script
    if (this.#defined.has(command)) return
    client.defineCommand(command, { numberOfKeys, lua: script.lua })
    this.#defined.add(command)
  }
}

/** As `lua/finish.lua` has it. */
function unusualOf({ next, offers, share, chargeMs }: Move): Arguments {
  return {
    back: next === 'back' || undefined,
    offers: offers || undefined,
    share: share || undefined,
    chargeMs: share === '' ? undefined : chargeMs,
  }
}

function keysOf(name: string): number {
  return bullmqScripts().get(name)?.numberOfKeys ?? 0
}

function slotsFrom(text: unknown): Slots | undefined {
  return typeof text === 'string' && text !== '' ? (JSON.parse(text) as Slots) : undefined
}

/** How long a job may wait; undefined for any time. */
function limitOf(maxWaitMs: number): number | undefined {
  return maxWaitMs > Number.MAX_SAFE_INTEGER / 2 ? undefined : maxWaitMs
}

/** When a job could start first, as far as its options say it. */
export function dueAt({ timestamp, opts: { delay = 0 } }: Pick<Job, 'timestamp' | 'opts'>): number {
  return (Number.isFinite(timestamp) ? timestamp : 0) + delay
}

async function refusedLater(error: unknown): Promise<never> {
  await sleep(systemClock, REFUSED_PAUSE_MS)
  throw error
}
