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
import { argumentsText, keyIn, type Arguments, type LineRunner } from './line-runner.ts'
import { sweepAll } from './sweep.ts'
import { ownScript, type ComposedScript } from './bullmq/composed-script.ts'
import { requireKnownBullmq } from './bullmq/known-bullmq.ts'
import { finishOptions, workerOptions, type FinishOptions } from './bullmq/finish-options.ts'
import { TurnGroup } from './turn-group.ts'

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

/** Whether a fetched job may run. */
export interface Turn {
  /**
   * `woken`: the job before it woke it in the trip that fetched it. `yes`: no job is
   * ahead of it. `no`: the worker has to ask. `none`: it has no place yet.
   */
  readonly turn: 'woken' | 'yes' | 'no' | 'none'
  /** Its resources as the queue's Redis has them (JSON); '' where it has none. */
  readonly lines: string
  /** What its line has used of its burst, in milliseconds of work. */
  readonly usedMs: number
  /** The slots of its resources, where they are set; undefined where the worker's own count. */
  readonly slots: Slots | undefined
  /** As the queue's Redis has it; '' where the job has none. */
  readonly share: string
  /** What its start has counted for its tenant already. */
  readonly chargedMs: number
}

/** How a job's last trip moves its lines. */
export interface Move {
  readonly timestamp: number
  /** As {@link Turn.lines}. */
  readonly lines: string
  /** Where the next job goes: before the jobs that wait, or behind them. */
  readonly next: 'front' | 'back'
  /** What its line has used of its burst then. It travels with the line's next job. */
  readonly usedMs: number
  /** Of the job, '' where it has none; and what to count for its tenant. */
  readonly share: string
  readonly chargeMs: number
  /** The next job is left to other workers, if it is the only one that waits. */
  readonly offers: boolean
}

/** The end of a job. */
export interface Ending {
  readonly move: Move
  /** The trip is under way. */
  sent(): void
  /** The trip is back with the job that it fetched, if any. */
  returned(jobId: string | undefined, turn: Turn | undefined): void
}

const ENDING: unique symbol = Symbol('how the last trip moves the lines of a job')

type WaitingJob = Pick<Job, 'id' | 'timestamp' | 'opts' | 'attemptsMade'>

interface EndingJob {
  readonly id?: string
  [ENDING]?: Ending | undefined
}

/** Which jobs of a line a batch takes behind its first one. */
export interface Taking {
  readonly resource: string
  /** Of the worker, with which it locks them. */
  readonly token: string
  readonly most: number
  /** Jobs that it has taken before. */
  readonly before: number
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

/** One of those that are sent together. */
interface Sent {
  readonly settle: (reply: unknown, sentAtMs: number) => void
  readonly fail: (error: Error) => void
}

/** A job that ends in this turn of the event loop. */
interface End extends Sent {
  readonly id: string
  readonly token: string
  readonly move: Move | undefined
  readonly opts: FinishOptions
  /** What is not usual with it: see `lua/finish.lua`. */
  readonly more: Readonly<Record<string, unknown>>
  /** What it returned, or failed with. */
  readonly value: string
  readonly ending: Ending | undefined
}

/** Of jobs that end together, as `lua/finish.lua` has them. */
type Lists = Record<'ids' | 'tokens' | 'timestamps' | 'lines' | 'bursts' | 'more', unknown[]>

/** A job that is added in this turn of the event loop. */
interface Addition extends Sent {
  readonly script: ComposedScript
  /** BullMQ's keys and arguments. */
  readonly args: readonly unknown[]
  /** As `lua/add.lua` has it. */
  readonly job: Arguments
}

interface Join {
  readonly earlier: Promise<unknown>
  readonly done: () => void
}

/** A job of which nothing is known yet. */
export const NO_TURN: Turn = {
  turn: 'none',
  lines: '',
  usedMs: 0,
  slots: undefined,
  share: '',
  chargedMs: 0,
}
const KEEP_ALL = { count: -1 }
const wakeScript = ownScript('line/lua/wake-worker')
const NO_JOB = { id: '', opts: {} } as MinimalJob
/** Replies of the park script. */
const ITS_TURN = -100
const TOO_LATE = -101
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
  readonly #turns = new Map<string, Turn>()
  readonly #defined = new Set<string>()
  /** Jobs without a place take theirs in the order in which this worker was given them. */
  readonly #joins = new Map<string, Join>()
  #lastJoin: Promise<unknown> = Promise.resolve()
  readonly #ends = new TurnGroup<End>(ENDS_TOGETHER, (ends) => {
    this.#finish(ends)
  })
  readonly #additions = new TurnGroup<Addition>(ADDED_TOGETHER, (all) => {
    this.#addAll(all)
  })
  readonly #options: QueueBaseOptions & Partial<WorkerOptions>
  /** What BullMQ's script for a finished job is given as KEYS. Some are other ones for each job. */
  readonly #finishKeys: readonly unknown[]
  /** How far the clock here is ahead of that of the queue's Redis. */
  #aheadMs = 0
  /** Calls of several jobs that were sent, and are not settled. */
  #underWay = 0
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
    this.#finishKeys = this.moveToCompletedArgs(NO_JOB, '', false, '0').slice(0, numberOfKeys)
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

  /** Says how the trip that ends `job` moves its lines. Without a word the job leaves them. */
  ends(job: EndingJob, ending: Ending): void {
    job[ENDING] = ending
  }

  /** Whether it is the turn of a job that was fetched. Known once. */
  takeTurn(jobId: string): Turn {
    const turn = this.#turns.get(jobId) ?? NO_TURN
    this.#turns.delete(jobId)
    return turn
  }

  /** The next jobs that sleep behind the first job of a batch, locked with the same token. */
  async take(
    { id = '', timestamp }: Pick<Job, 'id' | 'timestamp'>,
    { resource, token, most, before }: Taking,
  ): Promise<readonly TakenJob[]> {
    // BullMQ's own keys and arguments, for another script.
    let found: unknown
    const execCommand = async (client: Client, _name: string, args: unknown[]): Promise<void> => {
      const ours = { resource, token, most, before, id, timestamp: String(timestamp) }
      found = await this.#send(client, this.#scripts.take, args, ours)
    }
    const recorder = Object.create(this, { execCommand: { value: execCommand } }) as this
    await super.moveToActive.call(recorder, token, this.#settings.workerName)
    return (found as unknown[][]).map((job) => bullmq.raw2NextJobData(job) as unknown as TakenJob)
  }

  /** The job takes no place, or has sent for it: those behind it need not wait for it. */
  joined(jobId: string): void {
    this.#joins.get(jobId)?.done()
    this.#joins.delete(jobId)
  }

  /**
   * Takes the job's places, and parks it if others are ahead of it.
   * @returns `slots`: no job is ahead of it, and these slots are set; `late`: it has waited for
   * `maxWaitMs`.
   */
  async park(
    { id = '', timestamp, opts, attemptsMade }: WaitingJob,
    resources: readonly string[],
    token: string | undefined,
  ): Promise<'parked' | 'late' | { readonly slots: Slots | undefined }> {
    const now = systemClock.wallNow()
    const delayMs = ASLEEP_DELAY_MS - now
    const args = this.moveToDelayedArgs(id, now, token ?? '0', delayMs, { skipAttempt: true })
    const ours = {
      id,
      timestamp: String(timestamp),
      resources: JSON.stringify(resources),
      // Who was started has waited.
      maxWaitMs: attemptsMade > 0 ? undefined : limitOf(this.#settings.maxWaitMs),
      dueAt: dueAt({ timestamp, opts }),
    }
    const client = await this.#client()
    const earlier = this.#joins.get(id)?.earlier
    if (earlier !== undefined) await withinMs(systemClock, JOIN_LIMIT_MS, earlier)
    const sent = this.#send(client, this.#scripts.park, args, ours)
    this.joined(id)
    const reply = this.#heard(await sent)
    if (Array.isArray(reply) && reply[0] === ITS_TURN) return { slots: slotsFrom(reply[1]) }
    if (reply === TOO_LATE) return 'late'
    if (typeof reply === 'number' && reply < 0) {
      throw this.finishedErrors({ code: reply, jobId: id, command: 'park', state: 'active' })
    }
    return 'parked'
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
    return client.runCommand(script.command, [this.keys['meta'], this.#named(args)])
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as BullMQ declares it.
  override execCommand(client: unknown, name: string, args: any[]): any {
    const script = this.#scripts.composed.get(name)
    if (script === undefined) return super.execCommand(client as never, name, args)
    const to = client as Client
    const argv = args.slice(script.numberOfKeys) as (string | number)[]
    switch (name) {
      case 'addStandardJob':
      case 'addPrioritizedJob':
      case 'addDelayedJob':
      case 'addParentJob':
        return this.#add(to, script, args, String(argv[1]))
      case 'moveToActive':
        return this.#fetch(to, script, args, {}).catch(refusedLater)
      case 'moveToDelayed':
        return this.#fetch(to, script, args, { delays: true })
      case 'promote':
        return this.#send(to, script, args, { id: argv[1] })
      case 'removeJob':
        return this.#send(to, script, args, { id: argv[0] })
      case 'moveToWaitingChildren':
        return this.#send(to, script, args, { id: argv[3] })
      case 'changePriority':
        return this.#send(to, script, args, {
          id: argv[2],
          priority: argv[0],
          lifo: argv[3] === 1,
          within: this.#settings.within,
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
    ...[job, value, remove, token, fetches]: Method<'moveToCompleted'>['args']
  ): Method<'moveToCompleted'>['reply'] {
    const keepJobs = this.getKeepJobs(remove, this.#options.removeOnComplete)
    const opts = finishOptions(job.opts, keepJobs)
    return this.#end(job, JSON.stringify(value), token, fetches, opts, {})
  }

  override moveToFailed(...args: Method<'moveToFailed'>['args']): Method<'moveToFailed'>['reply'] {
    const [job, reason, remove, token, fetches, fields = {}] = args
    const blocks = this.#settings.onFailure === 'block'
    // It holds its line, and so do those that failed before it.
    // rule: held-line-loses-no-job
    const keepJobs = blocks ? KEEP_ALL : this.getKeepJobs(remove, this.#options.removeOnFail)
    const opts = finishOptions(job.opts, keepJobs)
    return this.#end(job, reason, token, fetches, opts, {
      target: 'failed',
      holds: blocks ? true : undefined,
      fields: Object.entries(fields).flatMap(([name, value]) =>
        value === undefined ? [] : [name, value as unknown],
      ),
    })
  }

  override addJobs(entries: Method<'addJobs'>['args'][0]): Method<'addJobs'>['reply'] {
    if (this.#settings.placement === undefined) return super.addJobs(entries)
    return Promise.all(
      entries.map(({ job, jobId, parentKeyOpts }) => this.addJob(job, jobId, parentKeyOpts)),
    )
  }

  override async waitForJob(...args: Method<'waitForJob'>['args']): Method<'waitForJob'>['reply'] {
    const found = await super.waitForJob(...args)
    return found && found.score > 0 ? { ...found, score: found.score + this.#aheadMs } : found
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

  #add(client: Client, script: ComposedScript, args: unknown[], data: string): Promise<unknown> {
    const { placement, within, maxWaitMs } = this.#settings
    const { replaces: name } = script
    if (placement === undefined) {
      return super.execCommand(client as never, name, args) as Promise<unknown>
    }
    const { resources, slots, rate, share } = placement(JSON.parse(data))
    const job = {
      resources: JSON.stringify(resources),
      maxWaitMs: limitOf(maxWaitMs),
      isDelayed: name === 'addDelayedJob' || undefined,
      mayStart: name === 'addStandardJob' || name === 'addPrioritizedJob',
      rate: rate && JSON.stringify([rate.limit, rate.perMs, rate.burst, rate.cost]),
      share: share && shareText(share),
      slots: slots && JSON.stringify(slots),
    }
    // The replies of a transaction come together.
    if (client !== this.#ready) return this.#send(client, script, args, { within, job })
    return this.#addAsItFits({ script, args, job }, data.length)
  }

  async #addAsItFits(
    addition: Pick<Addition, 'script' | 'args' | 'job'>,
    bytes: number,
    tries = MAX_DROPS,
  ): Promise<unknown> {
    const reply = await new Promise((settle, fail) => {
      this.#additions.add({ ...addition, settle, fail }, bytes)
    })
    if (!Array.isArray(reply) || reply[0] !== LINE_FULL) return reply
    const [, resource, id] = reply as [number, string, string]
    if (id === '' || tries === 0) {
      throw new LineFullError(this.name, resource, this.#settings.maxLength ?? 0)
    }
    await this.remove(id, false)
    return this.#addAsItFits(addition, bytes, tries - 1)
  }

  #clean(client: Client, script: ComposedScript, args: unknown[], state: string): Promise<unknown> {
    const { cleanWaiting } = this.#scripts
    if (state === 'prioritized') return this.#send(client, cleanWaiting, args, { which: state })
    if (state !== 'wait' && state !== 'paused') return this.#send(client, script, args, {})
    return this.#send(client, cleanWaiting, args, { which: 'wait' })
  }

  /** Adds jobs in their order: of one kind at a time. */
  #addAll(additions: readonly Addition[]): void {
    const { within, maxLength, drops } = this.#settings
    for (let from = 0, to = 0; from < additions.length; from = to) {
      const { script, args } = additions[from] as Addition
      while (additions[to]?.script === script) to++
      const some = additions.slice(from, to)
      const { numberOfKeys } = script
      const jobs = some.map(({ job }) => job)
      const ours = { within, maxLength, drops, count: args.length - numberOfKeys, jobs }
      const all = [...args.slice(0, numberOfKeys)]
      for (const each of some) all.push(...each.args.slice(numberOfKeys))
      const sent = this.#send(this.#ready as Client, script, all, ours)
      void this.#settleAll(some, sent)
    }
  }

  /** A job ends. It leaves its lines as `ends` has said; without a word it just leaves them. */
  #end(
    job: EndingJob & Pick<Job, 'opts'>,
    value: string | undefined,
    token: string,
    fetches: boolean | undefined,
    opts: FinishOptions,
    own: Arguments,
  ): Promise<Completed> {
    const { id = '', [ENDING]: ending } = job
    // BullMQ tries again after a broken connection: it is an ordinary ending then.
    job[ENDING] = undefined
    const keeps = fetches !== true || this.queue.closing !== undefined
    const move = ending?.move
    const more = { ...own, keeps: keeps || undefined, ...(move && unusualOf(move)) }
    return new Promise((resolve, reject) => {
      const settle = (reply: unknown, finishedOn: number): void => {
        if (typeof reply === 'number' && reply < 0) {
          const state = { command: 'moveToFinished', state: 'active' }
          fail(this.finishedErrors({ code: reply, jobId: id, ...state }))
          return
        }
        const result = bullmq.raw2NextJobData(this.#heard(reply) as unknown[])
        const [, jobId] = result as unknown as readonly [unknown, string?]
        ending?.returned(jobId, jobId === undefined ? undefined : this.#turns.get(jobId))
        resolve({ result, finishedOn })
      }
      const fail = (error: Error): void => {
        ending?.returned(undefined, undefined)
        reject(error)
      }
      const end = { id, token, move, opts, more, value: value ?? 'null', ending, settle, fail }
      this.#ends.add(end, end.value.length)
    })
  }

  #finish(ends: readonly End[]): void {
    const at = systemClock.wallNow()
    const { finish } = this.#scripts
    const { opts } = ends[0] as End
    const lists = { ids: [], tokens: [], timestamps: [], lines: [], bursts: [], more: [] } as Lists
    const values: string[] = []
    for (const { id, token, move, more, opts: own, value } of ends) {
      lists.ids.push(id)
      lists.tokens.push(token)
      // Without a word the queue's Redis says of which lines it is.
      lists.timestamps.push(move === undefined ? '' : String(move.timestamp))
      lists.lines.push(move === undefined ? '' : move.lines || '[]')
      lists.bursts.push(move === undefined ? '' : Math.round(move.usedMs))
      // Most jobs have the same options.
      lists.more.push(own === opts ? more : { ...more, opts: own })
      values.push(value)
    }
    const ours = { at: String(at), worker: workerOptions(this.#options), opts, ...lists }
    const sent = this.#send(this.#ready as Client, finish, [...this.#finishKeys, ...values], ours)
    for (const { ending } of ends) ending?.sent()
    void this.#settleAll(ends, sent, at)
  }

  /** Each has its own reply: see `lua/together.lua`. */
  async #settleAll(all: readonly Sent[], sent: Promise<unknown>, at = 0): Promise<void> {
    this.#underWay++
    try {
      const reply = await sent
      // Replies that came together are settled in a turn each. So what the jobs of one call send
      // leaves, and the server works, before those of the next call are settled.
      if (this.#underWay > 1) await new Promise((resolve) => setImmediate(resolve))
      const replies = (typeof reply === 'string' ? JSON.parse(reply) : reply) as readonly unknown[]
      for (const [index, { settle, fail }] of all.entries()) {
        const own = replies[index]
        const message: unknown = Array.isArray(own) ? own[0] : undefined
        try {
          if (typeof message !== 'string') settle(own, at)
          else fail(Object.assign(new Error(message), { name: 'ReplyError' }))
        } catch (error) {
          fail(error as Error) // What BullMQ cannot read of one job is no other job's error.
        }
      }
    } catch (error) {
      for (const { fail } of all) fail(error as Error)
    } finally {
      this.#underWay--
    }
  }

  async #fetch(
    client: Client,
    script: ComposedScript,
    args: readonly unknown[],
    ours: Arguments,
  ): Promise<unknown> {
    return this.#heard(await this.#send(client, script, args, ours))
  }

  /** Keeps what a reply says about the turn of the job that it brings. */
  #heard(reply: unknown): unknown {
    if (!Array.isArray(reply)) return reply
    if (!Array.isArray(reply[0])) return this.#byOwnClock(reply as readonly number[])
    const [, jobId, , , told] = reply as readonly unknown[]
    const [turn, lines = '', burst, slots, share = '', charged] = told as readonly string[]
    this.#turns.set(String(jobId), {
      turn: turn as Turn['turn'],
      lines,
      usedMs: Number(burst),
      slots: slotsFrom(slots),
      share,
      chargedMs: Number(charged),
    })
    if (turn === 'none' || turn === 'no') this.#expectJoin(String(jobId))
    return reply
  }

  /** Where there is no job, BullMQ is told when there will be one: it counts on the clock here. */
  #byOwnClock([
    data = 0,
    id = 0,
    limitMs = 0,
    delayUntil = 0,
    serverMs,
  ]: readonly number[]): readonly number[] {
    if (serverMs !== undefined) this.#aheadMs = systemClock.wallNow() - serverMs
    // rule: waits-by-its-own-clock
    return [data, id, limitMs, delayUntil > 0 ? delayUntil + this.#aheadMs : delayUntil]
  }

  #expectJoin(jobId: string): void {
    let done = (): void => undefined
    const earlier = this.#lastJoin
    this.#lastJoin = new Promise<void>((resolve) => {
      done = resolve
    })
    this.#joins.set(jobId, { earlier, done })
  }

  /** BullMQ's keys, our arguments as one, BullMQ's arguments. Whatever goes wrong, it rejects. */
  async #send(
    client: Client,
    { command, numberOfKeys }: ComposedScript,
    args: readonly unknown[],
    ours: Arguments,
  ): Promise<unknown> {
    return await client.runCommand(command, args.toSpliced(numberOfKeys, 0, this.#named(ours)))
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
