/**
 * BullMQ's Redis backend with lines: a subclass that sends the composed scripts where BullMQ would
 * send its own. All that BullMQ does to jobs passes here: a job and its places change in one trip.
 */
// Through the namespace: a BullMQ without these names is refused later, with what to do.
import * as bullmq from 'bullmq'
import type {
  BackendFactory,
  MinimalJob,
  QueueBaseOptions,
  RedisQueueBackend,
  WorkerOptions,
} from 'bullmq'
import { sleep, systemClock } from '../clock.ts'
import { tlsMismatch } from '../tls-check.ts'
import { ASLEEP_DELAY_MS, VIRTUAL_TIME } from './asleep.ts'
import { Additions, type AddSettings } from './additions.ts'
import { Ends, type EndSettings } from './ends.ts'
import { ADDS, FETCHES, lineScripts, type Replacement } from './line-scripts.ts'
import { keyIn, ScriptSender, type Arguments, type Client, type LineRunner } from './line-runner.ts'
import { leaveReplicas, prepareClient, unreadyClientOf } from './queue-connection.ts'
import { Replies } from './replies.ts'
import { sweepAll } from './sweep.ts'
import { ownScript, type ComposedScript } from './bullmq/composed-script.ts'
import { requireKnownBullmq } from './bullmq/known-bullmq.ts'

/** What a queue and its workers agree on. */
export interface LineSettings extends AddSettings, EndSettings {
  readonly slots: number
  /** What a job that failed for good does to its lines. */
  readonly onFailure: 'continue' | 'block'
  /** JSON of the resources of a job that fails before it has lines; undefined where it has none. */
  readonly linesOf?: ((job: MinimalJob) => string | undefined) | undefined
}

type Method<Name extends keyof RedisQueueBackend> = RedisQueueBackend[Name] extends (
  ...args: infer Args
) => infer Reply
  ? { readonly args: Args; readonly reply: Reply }
  : never

const KEEP_ALL = { count: -1 }
const wakeScript = ownScript('line/lua/wake-worker')
const NO_JOB = { id: '', opts: {} } as MinimalJob
/** BullMQ asks again at once when the server refuses to give it a job. */
const REFUSED_PAUSE_MS = 250
/** From here on `maxWaitMs` is no limit. */
const ANY_TIME_MS = Number.MAX_SAFE_INTEGER / 2

const Backend: typeof RedisQueueBackend =
  (bullmq as Partial<typeof bullmq>).RedisQueueBackend ?? (Object as never)

export class LineBackend extends Backend implements LineRunner {
  /** Of the queue or worker. */
  readonly options: QueueBaseOptions & Partial<WorkerOptions>
  readonly settings: LineSettings
  readonly replies: Replies
  readonly #scripts = lineScripts()
  readonly #sender: ScriptSender
  readonly #ends: Ends
  readonly #additions: Additions

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

  private constructor(inner: RedisQueueBackend, name: string, given: LineSettings) {
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
    const { maxWaitMs = Infinity } = given
    const settings = { ...given, maxWaitMs: maxWaitMs > ANY_TIME_MS ? undefined : maxWaitMs }
    this.options = queue.opts
    this.settings = settings
    this.#sender = new ScriptSender(toKey(''), settings.slots)
    this.replies = new Replies(this, settings)
    const { script, keys: count } = this.#scriptFor('finish')
    const finishKeys = this.moveToCompletedArgs(NO_JOB, '', false, '0').slice(0, count)
    this.#ends = new Ends(this, this.#sender, script, finishKeys)
    this.#additions = new Additions(this.#sender, settings, this)
    prepareClient(connection, (client) => {
      this.#sender.ready(client, [...this.#scripts.values()])
    })
  }

  /** `host:port` of the queue's Redis, where its client tells it. */
  async address(): Promise<string> {
    await this.connection.client
    const { host = '', port = '' } = unreadyClientOf(this.connection)?.options ?? {}
    return `${host}:${port}`
  }

  /** What to write instead of `redis://` or `rediss://`, where the queue's Redis speaks the other. */
  async tlsMismatch(): Promise<string | undefined> {
    const options = unreadyClientOf(this.connection)?.options
    return options?.host === undefined ? undefined : tlsMismatch(options as never)
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

  /** @param name of what takes the place of a script: see `lineScripts`. */
  async send(name: string, args: readonly unknown[], ours: Arguments): Promise<unknown> {
    return this.#sender.send(await this.#client(), this.#scriptFor(name), args, ours)
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as BullMQ declares it.
  override execCommand(client: unknown, name: string, args: any[]): any {
    const replaced = this.#scripts.get(name)
    const adds = ADDS.includes(name)
    if (replaced === undefined || (adds && this.settings.placement === undefined)) {
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
    const keepJobs = this.getKeepJobs(remove, this.options.removeOnComplete)
    const mayFetch = fetches && this.queue.closing === undefined
    return this.#ends.end(job, JSON.stringify(value), token, mayFetch, keepJobs)
  }

  override moveToFailed(...args: Method<'moveToFailed'>['args']): Method<'moveToFailed'>['reply'] {
    const [job, reason, remove, token, fetches, fields = {}] = args
    const mayFetch = fetches && this.queue.closing === undefined
    const blocks = this.settings.onFailure === 'block'
    // It holds its line, and so do those that failed before it.
    // rule: held-line-loses-no-job
    const keepJobs = blocks ? KEEP_ALL : this.getKeepJobs(remove, this.options.removeOnFail)
    return this.#ends.end(job, reason, token, mayFetch, keepJobs, {
      target: 'failed',
      holds: blocks || undefined,
      lines: blocks ? this.settings.linesOf?.(job) : undefined,
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
    const visit = this.settings.visits?.waiting(producerId as string)
    if (visit === undefined) return add()
    visit.addNext = add
    return Promise.resolve(null)
  }

  override addJobs(entries: Method<'addJobs'>['args'][0]): Method<'addJobs'>['reply'] {
    if (this.settings.placement === undefined) return super.addJobs(entries)
    return Promise.all(
      entries.map(({ job, jobId, parentKeyOpts }) => this.addJob(job, jobId, parentKeyOpts)),
    )
  }

  override async waitForJob(timeout: number): Method<'waitForJob'>['reply'] {
    const found = await super.waitForJob(timeout)
    if (found && found.score > 0) found.score += this.replies.aheadMs
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

  async #fetch(client: Client, replaced: Replacement, args: readonly unknown[]): Promise<unknown> {
    const isDelay = replaced.name === 'moveToDelayed'
    const reply = await this.#sender.send(client, replaced, args, isDelay ? { does: 'delay' } : {})
    this.replies.heard(reply)
    return reply
  }

  #scriptFor(name: string): Replacement {
    return this.#scripts.get(name) as Replacement
  }

  async #client(): Promise<Client> {
    return await this.connection.client
  }
}

async function refusedLater(error: unknown): Promise<never> {
  await sleep(systemClock, REFUSED_PAUSE_MS)
  throw error
}
