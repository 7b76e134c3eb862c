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
  KeepJobs,
  MinimalJob,
  QueueBaseOptions,
  RedisQueueBackend,
  WorkerOptions,
} from 'bullmq'
import { atEndOfTurn, sleep, systemClock, withinMs } from '../clock.ts'
import type { Slots } from '../slots.ts'
import { tlsMismatch } from '../tls-check.ts'
import { ASLEEP_DELAY_MS, VIRTUAL_TIME } from './asleep.ts'
import { Additions, type AddSettings } from './additions.ts'
import { Ends, finishOptions, type End } from './ends.ts'
import { ADDS, FETCHES, lineScripts, type LineScripts, type Replacement } from './line-scripts.ts'
import { keyIn, ScriptSender, type Arguments, type Client, type LineRunner } from './line-runner.ts'
import { sweepAll } from './sweep.ts'
import { ownScript, type ComposedScript } from './bullmq/composed-script.ts'
import { requireKnownBullmq } from './bullmq/known-bullmq.ts'
import type { Join, LineVisit, LineVisits, Move, Told } from './visit.ts'

/** What a queue and its workers agree on. */
export interface LineSettings extends AddSettings {
  readonly slots: number
  /** A job that was added this long ago is looked at, whether or not it is its turn. */
  readonly maxWaitMs: number
  /** What a job that failed for good does to its lines. */
  readonly onFailure: 'continue' | 'block'
  /** JSON of the resources of a job that fails before it has lines; undefined where it has none. */
  readonly linesOf?: ((job: MinimalJob) => string | undefined) | undefined
  /** Jobs have results of steps, which end with them. */
  readonly keepsSteps?: boolean
  /** BullMQ writes it to the jobs that a worker of this name is given. */
  readonly workerName?: string | undefined
  /** Of a worker. */
  readonly visits?: LineVisits | undefined
  /** Called when the queue's Redis has no job to give, and none sleeps in line. */
  readonly onDrained?: (() => void) | undefined
}

/** A job as BullMQ knows it, and its id. */
export type TakenJob = readonly [job: JobJson, id: string]

type Method<Name extends keyof RedisQueueBackend> = RedisQueueBackend[Name] extends (
  ...args: infer Args
) => infer Reply
  ? { readonly args: Args; readonly reply: Reply }
  : never
type Completed = Awaited<Method<'moveToCompleted'>['reply']>

/** What the script that cancels a job found: see its text. */
export type CancelOutcome = 'failed' | 'running' | 'finished' | 'missing' | 'refused'

const KEEP_ALL = { count: -1 }
const backScript = ownScript('line/lua/goes-back')
const wakeScript = ownScript('line/lua/wake-worker')
const NO_JOB = { id: '', opts: {} } as MinimalJob
/** Replies of the park script. */
const ITS_TURN = -100
const TOO_LATE = -101
/** A job waits this long at most for jobs that this worker was given before it. */
const JOIN_LIMIT_MS = 50
/** BullMQ asks again at once when the server refuses to give it a job. */
const REFUSED_PAUSE_MS = 250

/** A replica refuses many calls at once, and ioredis would end the same connection for each. */
const LEAVE_ONCE_MS = 50

const Backend: typeof RedisQueueBackend =
  (bullmq as Partial<typeof bullmq>).RedisQueueBackend ?? (Object as never)

export class LineBackend extends Backend implements LineRunner {
  readonly #settings: LineSettings
  /** How long a job may wait; undefined for any time. */
  readonly #maxWaitMs: number | undefined
  readonly #scripts: LineScripts
  readonly #sender: ScriptSender
  readonly #ends: Ends
  readonly #additions: Additions
  /** Of the jobs that have to take their places. */
  #lastJoin: Promise<unknown> = Promise.resolve()
  readonly #options: QueueBaseOptions & Partial<WorkerOptions>
  /** How far the clock here is ahead of that of the queue's Redis. */
  #aheadMs = 0
  /** It was told that the queue is drained, and no job was given since. */
  #toldDrained = false

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
      if (each !== undefined) leaveReplicas(each)
    }
    const { queue, ownsConnection } = inner as unknown as {
      readonly queue: { readonly opts: QueueBaseOptions }
      readonly ownsConnection: boolean
    }
    const toKey = (type: string): string => inner.toKey(type)
    super(connection, name, keys, toKey, queue.opts, blockingConnection, ownsConnection)
    this.#settings = settings
    const { maxWaitMs } = settings
    this.#maxWaitMs = maxWaitMs > Number.MAX_SAFE_INTEGER / 2 ? undefined : maxWaitMs
    this.#options = queue.opts
    this.#scripts = lineScripts()
    const { replaced, cancel, finish } = this.#scripts
    this.#sender = new ScriptSender(toKey(''), settings.slots)
    const finishKeys = this.moveToCompletedArgs(NO_JOB, '', false, '0').slice(0, finish.keys)
    this.#ends = new Ends(this.#sender, finish.script, finishKeys)
    this.#additions = new Additions(this.#sender, { ...settings, maxWaitMs: this.#maxWaitMs }, this)
    // What BullMQ waits for before it sends anything. Private in its types.
    const waiting = connection as unknown as { initializing: Promise<Client> }
    const prepared = waiting.initializing.then((client) => {
      this.#sender.ready(client, [...replaced.values(), cancel, finish])
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
    const options = unreadyClientOf(this.connection)?.options
    // A cluster has no `host`.
    return options?.host === undefined ? undefined : tlsMismatch(options as never)
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
    const { lockDuration, limiter } = this.#options
    const opts = { token, lockDuration, limiter, name: this.#settings.workerName }
    const found = await this.#sendAs('moveToActive', [this.keys['meta']], {
      ...{ does: 'take', resource, most, before, id, timestamp: String(timestamp), opts },
      at: String(systemClock.wallNow()),
    })
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
    const delayMs = ASLEEP_DELAY_MS - systemClock.wallNow()
    const stands = { id, timestamp: String(timestamp), resources: JSON.stringify(resources) }
    await this.connection.client
    if (join !== undefined) await withinMs(systemClock, JOIN_LIMIT_MS, join.earlier)
    const sent = this.#putBack(id, token, delayMs, {
      does: 'park',
      ...stands,
      ...this.#waiting(job),
    })
    join?.done()
    const reply = await sent
    this.#heard(reply)
    if (Array.isArray(reply) && reply[0] === ITS_TURN)
      return { slots: reply[1] === '' ? undefined : (JSON.parse(reply[1] as string) as Slots) }
    if (reply === TOO_LATE) return 'late'
    this.#refuse(reply, id, 'park')
    return 'parked'
  }

  /** A job whose resources sleep starts again when they wake, or are resumed. */
  async rest({ job: { id = '' }, token }: LineVisit, delayMs: number): Promise<void> {
    this.#refuse(await this.#putBack(id, token, Math.ceil(delayMs), { does: 'rest' }), id, 'rest')
  }

  /** Notes that a job goes back for a while. @returns false where it has waited for `maxWaitMs`. */
  async goBack(job: LineVisit['job']): Promise<boolean> {
    const waiting = this.#waiting(job)
    if (waiting.maxWaitMs === undefined) return true
    return (await this.run(backScript, { id: job.id, ...waiting })) === 0
  }

  /** The resources in whose lines the job was put; undefined for a job that has no place yet. */
  async recordedResources(jobId: string): Promise<readonly string[] | undefined> {
    const lines = await (await this.#client()).hget(this.toKey(jobId), 'redlock:lines')
    return lines ? (JSON.parse(lines) as string[]) : undefined
  }

  /** When the delay of a job ends; undefined for one that has none. */
  async dueAt(jobId: string): Promise<Date | undefined> {
    const score = await (await this.#client()).zscore(this.toKey('delayed'), jobId)
    return score ? new Date(Number(score) / 4096) : undefined
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
    const client = await this.#client()
    return (await this.#sender.send(client, this.#scripts.cancel, args, {
      id,
      reason,
    })) as CancelOutcome
  }

  /** An idle worker of this queue looks whether there is a job. */
  async wakeWorker(): Promise<void> {
    await this.run(wakeScript, {})
  }

  /** BullMQ waits for a connection before it closes it; this ends its clients at once. */
  disconnectNow(): void {
    for (const each of [this.connection, this.blockingConnection]) {
      unreadyClientOf(each)?.disconnect()
    }
  }

  get queueName(): string {
    return this.name
  }

  keyOf(key: string): string {
    return keyIn(this.toKey(''), key)
  }

  async run(script: ComposedScript, args: Arguments): Promise<unknown> {
    // A key on the queue's slot of a cluster.
    return this.#sender.run(await this.#client(), script, this.keys['meta'] ?? '', args)
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as BullMQ declares it.
  override execCommand(client: unknown, name: string, args: any[]): any {
    const replaced = this.#scripts.replaced.get(name)
    const adds = ADDS.includes(name)
    if (replaced === undefined || (adds && this.#settings.placement === undefined)) {
      return super.execCommand(client as never, name, args)
    }
    const to = client as Client
    if (adds) return this.#additions.place(to, replaced, args)
    if (name === 'moveToActive') return this.#fetch(to, replaced, args).catch(refusedLater)
    if (FETCHES.includes(name)) return this.#fetch(to, replaced, args)
    return this.#sender.send(to, replaced, args, replaced.told(args.slice(replaced.keys)))
  }

  override moveToCompleted(
    ...[job, value, remove, token, fetches = false]: Method<'moveToCompleted'>['args']
  ): Method<'moveToCompleted'>['reply'] {
    const keepJobs = this.getKeepJobs(remove, this.#options.removeOnComplete)
    return this.#end(job, JSON.stringify(value), token, fetches, keepJobs)
  }

  override moveToFailed(...args: Method<'moveToFailed'>['args']): Method<'moveToFailed'>['reply'] {
    const [job, reason, remove, token, fetches, fields = {}] = args
    const blocks = this.#settings.onFailure === 'block'
    // It holds its line, and so do those that failed before it.
    // rule: held-line-loses-no-job
    const keepJobs = blocks ? KEEP_ALL : this.getKeepJobs(remove, this.#options.removeOnFail)
    return this.#end(job, reason, token, fetches, keepJobs, {
      target: 'failed',
      holds: blocks || undefined,
      lines: blocks ? this.#settings.linesOf?.(job) : undefined,
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
    const visit = this.#settings.visits?.waiting(producerId as string)
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

  override async waitForJob(timeout: number): Method<'waitForJob'>['reply'] {
    const found = await super.waitForJob(timeout)
    if (found && found.score > 0) found.score += this.#aheadMs
    return found
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

  override async cleanJobsByState(state: string, at: number, limit?: number): Promise<string[]> {
    const removed = await super.cleanJobsByState(state, at, limit)
    if (removed.length > 0) await sweepAll(this)
    return removed
  }

  override async getQueueMeta(): Method<'getQueueMeta'>['reply'] {
    const { [VIRTUAL_TIME]: _, ...meta } = await super.getQueueMeta()
    return meta
  }

  override async isJobInState(state: string, jobId: string): Promise<boolean> {
    const found = await this.getState(jobId)
    return found === 'waiting' ? state === 'waiting' || state === 'wait' : found === state
  }

  override async getJobData(jobId: string): Method<'getJobData'>['reply'] {
    const job = await super.getJobData(jobId)
    return job?.delay === ASLEEP_DELAY_MS ? { ...job, delay: 0 } : job
  }

  /** As `lua/deadline.lua` has it. Who was started has waited. */
  #waiting(job: LineVisit['job']): { maxWaitMs: number | undefined; dueAt: number } {
    return { maxWaitMs: job.attemptsMade > 0 ? undefined : this.#maxWaitMs, dueAt: dueAt(job) }
  }

  /** A job ends. It leaves its lines as its visit says; without a word it just leaves them. */
  async #end(
    job: Pick<Job, 'id' | 'opts'>,
    value: string | undefined,
    token: string,
    fetches: boolean,
    keepJobs: KeepJobs,
    { target, holds, lines, fields }: Arguments = {},
  ): Promise<Completed> {
    const { id = '' } = job
    // Asked once. BullMQ tries again after a broken connection: it is an ordinary ending then.
    const visit = this.#settings.visits?.ending(job)
    const keeps = !fetches || this.queue.closing !== undefined || undefined
    const { back, offers, share, chargeMs }: Partial<Move> = visit?.move ?? {}
    const steps = this.#settings.keepsSteps || undefined
    // Named one by one: JSON of an object that is spread from others takes ten times as long.
    const more = { target, holds, lines, fields, steps, keeps, back, offers, share, chargeMs }
    const opts = finishOptions(job.opts, keepJobs, this.#options)
    const end: End = { id, token, opts, more, value: value ?? 'null', visit, finishedOn: 0 }
    let next: LineVisit | undefined
    try {
      const reply = await this.#ends.add(end, end.value.length)
      this.#refuse(reply, id, 'moveToFinished')
      const asksNone = keeps === true || offers === true
      next = this.#heard(reply, asksNone)
      const found = bullmq.raw2NextJobData(reply as unknown[])
      // rule: reply-that-asked-nothing-says-nothing
      const result = asksNone && found.length === 0 ? undefined : found
      return { result, finishedOn: end.finishedOn }
    } finally {
      visit?.settle?.(next)
    }
  }

  async #fetch(client: Client, replaced: Replacement, args: readonly unknown[]): Promise<unknown> {
    const isDelay = replaced.name === 'moveToDelayed'
    const reply = await this.#sender.send(client, replaced, args, isDelay ? { does: 'delay' } : {})
    this.#heard(reply)
    return reply
  }

  /**
   * The job that a reply brings, if any, with what the reply says about its turn.
   * @param asksNone another job was not asked for.
   */
  #heard(reply: unknown, asksNone = false): LineVisit | undefined {
    // Nothing is left, not even a delayed job.
    if (reply === 0 && !asksNone) this.#tellDrained(0)
    if (!Array.isArray(reply)) return undefined
    if (!Array.isArray(reply[0])) {
      // BullMQ is told when there will be a job: it counts on the clock here.
      const [, , , delayUntil = 0, serverMs, asleep] = reply as number[]
      if (serverMs !== undefined) this.#aheadMs = systemClock.wallNow() - serverMs
      // rule: waits-by-its-own-clock
      if (delayUntil > 0) reply[3] = delayUntil + this.#aheadMs
      this.#tellDrained(asleep)
      return undefined
    }
    // In the order of replies: BullMQ opens the job later.
    this.#toldDrained = false
    const [, jobId, , , told] = reply as readonly unknown[]
    const [turn, lines = '', burst, slots, share = '', charged] = told as readonly string[]
    const visit = this.#settings.visits?.fetched(String(jobId), {
      turn: turn as Told['turn'],
      lines,
      usedMs: Number(burst),
      slots: slots ? (JSON.parse(slots) as Slots) : undefined,
      share,
      chargedMs: Number(charged),
    })
    if (visit !== undefined && (turn === 'none' || turn === 'no')) visit.join = this.#nextJoin()
    return visit
  }

  /** @param asleep 1 where jobs sleep in lines. */
  #tellDrained(asleep: number | undefined): void {
    // rule: worker-is-drained-once-when-no-job-sleeps
    if (this.#toldDrained || asleep !== 0) return
    this.#toldDrained = true
    if (this.#settings.onDrained) atEndOfTurn(this.#settings.onDrained)
  }

  #nextJoin(): Join {
    let done = (): void => undefined
    const earlier = this.#lastJoin
    this.#lastJoin = new Promise<void>((resolve) => {
      done = resolve
    })
    return { earlier, done }
  }

  /** Of a job that a worker has, without using an attempt. */
  #putBack(
    id: string,
    token: string | undefined,
    delayMs: number,
    ours: Arguments,
  ): Promise<unknown> {
    const now = systemClock.wallNow()
    const args = this.moveToDelayedArgs(id, now, token ?? '0', delayMs, { skipAttempt: true })
    return this.#sendAs('moveToDelayed', args, ours)
  }

  /** @throws what BullMQ says where its script refuses a job. */
  #refuse(reply: unknown, jobId: string, command: string): void {
    if (typeof reply === 'number' && reply < 0) {
      throw this.finishedErrors({ code: reply, jobId, command, state: 'active' })
    }
  }

  async #sendAs(name: string, args: readonly unknown[], ours: Arguments): Promise<unknown> {
    const replaced = this.#scripts.replaced.get(name) as Replacement
    return this.#sender.send(await this.#client(), replaced, args, ours)
  }

  async #client(): Promise<Client> {
    return await this.connection.client
  }
}

/** When a job could start first, as far as its options say it. */
export function dueAt({ timestamp, opts: { delay = 0 } }: Pick<Job, 'timestamp' | 'opts'>): number {
  return (Number.isFinite(timestamp) ? timestamp : 0) + delay
}

type Connection = RedisQueueBackend['connection']

/** There before it is connected. Protected in BullMQ's types. */
function unreadyClientOf(connection: Connection | undefined): UnreadyClient | undefined {
  return (connection as { readonly _client?: UnreadyClient } | undefined)?._client
}

interface UnreadyClient {
  readonly options?: { readonly host?: string; reconnectOnError?: unknown }
  disconnect(): void
}

/**
 * After a failover the former master may keep its connections, as a replica that refuses every
 * write. Its name leads to the new master, for a client that connects anew.
 */
function leaveReplicas(connection: Connection): void {
  const options = unreadyClientOf(connection)?.options
  if (options === undefined) return
  let leftAt = -Infinity
  options.reconnectOnError ??= ({ message }: Error) => {
    const now = systemClock.now()
    // rule: replica-is-left
    const leaves = message.startsWith('READONLY') && now - leftAt > LEAVE_ONCE_MS
    if (leaves) leftAt = now
    return leaves
  }
}

async function refusedLater(error: unknown): Promise<never> {
  await sleep(systemClock, REFUSED_PAUSE_MS)
  throw error
}
