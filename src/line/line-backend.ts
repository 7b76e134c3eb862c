/**
 * BullMQ's Redis backend with lines: a subclass that sends the composed scripts where BullMQ would
 * send its own. All that BullMQ does to jobs passes here: a job and its places change in one trip.
 */
// Through the namespace: a BullMQ without these names is refused later, with what to do.
import { randomUUID } from 'node:crypto'
import * as bullmq from 'bullmq'
import type {
  BackendFactory,
  MinimalJob,
  QueueBaseOptions,
  RedisQueueBackend,
  WorkerOptions,
} from 'bullmq'
import { atEndOfTurn, sleep, systemClock } from '../clock.ts'
import type { Slots } from '../slots.ts'
import { ADDS, FETCHES, lineScripts, type Replacement } from './line-scripts.ts'
import {
  ASLEEP_DELAY_MS,
  keyIn,
  ScriptSender,
  VIRTUAL_TIME,
  type Arguments,
  type Client,
  type LineRunner,
} from './line-runner.ts'
import type { LineSettings } from './line-settings.ts'
import {
  endClosedCluster,
  leaveReplicas,
  leaveSentinels,
  prepareClient,
  reconnectSoon,
} from './queue-connection.ts'
import { sweepAll } from './sweep.ts'
import { Additions, Ends } from './together.ts'
import type { Join, LineVisit } from './visit.ts'
import { ownScript } from './bullmq/composed-script.ts'
import { requireKnownBullmq } from './bullmq/known-bullmq.ts'

type Method<Name extends keyof RedisQueueBackend> = RedisQueueBackend[Name] extends (
  ...args: infer Args
) => infer Reply
  ? { readonly args: Args; readonly reply: Reply }
  : never

const KEEP_ALL = { count: -1 }
const NO_JOB = { id: '', opts: {} } as MinimalJob
const REFUSED_PAUSE_MS = 250
/** From here on `maxWaitMs` is no limit. */
const ANY_TIME_MS = Number.MAX_SAFE_INTEGER / 2

const Backend: typeof RedisQueueBackend =
  (bullmq as Partial<typeof bullmq>).RedisQueueBackend ?? (Object as never)

export class LineBackend extends Backend implements LineRunner {
  /** Of the queue or worker. */
  readonly options: QueueBaseOptions & Partial<WorkerOptions>
  readonly settings: LineSettings
  readonly sender: ScriptSender
  readonly #scripts = lineScripts()
  readonly #additions = new Additions(this)
  /** Of this worker, among those of the queue. */
  readonly #name: string = randomUUID()
  readonly #ends: Ends
  /** How far the clock here is ahead of that of the queue's Redis. */
  #aheadMs = 0
  /** Of the jobs that have to take their places. */
  #lastJoin: Promise<unknown> = Promise.resolve()
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

  private constructor(inner: RedisQueueBackend, name: string, given: LineSettings) {
    const { connection, blockingConnection, keys } = inner
    const { queue, ownsConnection } = inner as unknown as {
      readonly queue: { readonly opts: QueueBaseOptions }
      readonly ownsConnection: boolean
    }
    for (const each of [connection, blockingConnection]) {
      if (each === undefined) continue
      // This backend forwards what they emit; the inner one must not do it as well.
      for (const event of ['error', 'ready', 'close']) each.removeAllListeners(event)
      leaveReplicas(each)
      reconnectSoon(each, queue.opts.connection)
    }
    const toKey = (type: string): string => inner.toKey(type)
    super(connection, name, keys, toKey, queue.opts, blockingConnection, ownsConnection)
    const { maxWaitMs = Infinity } = given
    this.options = queue.opts
    this.settings = { ...given, maxWaitMs: maxWaitMs > ANY_TIME_MS ? undefined : maxWaitMs }
    this.sender = new ScriptSender(toKey(''), given.slots)
    const { script, keys: count } = this.#scriptFor('finish')
    const finishKeys = this.moveToCompletedArgs(NO_JOB, '', false, '0').slice(0, count)
    this.#ends = new Ends(this, script.command, finishKeys)
    prepareClient(connection, (client) => {
      this.sender.ready(client, [...this.#scripts.values()])
    })
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
    await this.run('line/lua/wake-worker', {})
  }

  get queueName(): string {
    return this.name
  }

  keyOf(key: string): string {
    return keyIn(this.toKey(''), key)
  }

  async run(path: string, args: Arguments): Promise<unknown> {
    // A key on the queue's slot of a cluster.
    return this.sender.run(await this.#client(), ownScript(path), this.keys['meta'] ?? '', args)
  }

  /** @param name of what takes the place of a script: see `lineScripts`. */
  async send(name: string, args: readonly unknown[], ours: Arguments): Promise<unknown> {
    return this.sender.send(await this.#client(), this.#scriptFor(name), args, ours)
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
    const looks = { runs: this.settings.visits?.size, worker: this.#name }
    const told = name === 'moveToActive' ? looks : replaced.told?.(args.slice(replaced.keys))
    const sent = this.sender.send(to, replaced, args, told)
    return FETCHES.includes(name) ? this.#fetched(name, sent) : sent
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

  override async reconnectBlocking(): Promise<void> {
    endClosedCluster(this.blockingConnection)
    await super.reconnectBlocking()
  }

  override async close(force?: boolean): Promise<void> {
    await super.close(force)
    leaveSentinels(this)
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

  /**
   * The job that a reply brings, if any, with what the reply says about its turn.
   * @param asksNone another job was not asked for.
   */
  heard(reply: unknown, asksNone = false): LineVisit | undefined {
    if (Array.isArray(reply) && Array.isArray(reply[0])) {
      // In the order of replies: BullMQ opens the job later.
      this.#toldDrained = false
      const [, jobId, , , told] = reply as readonly unknown[]
      const [turn, lines = '', burst, slots, share = '', charged] = told as readonly string[]
      const visit = this.settings.visits?.fetched(String(jobId))
      if (visit === undefined) return undefined
      visit.turn = turn as LineVisit['turn']
      visit.lines = lines
      visit.usedMs = Number(burst)
      if (slots) visit.slots = JSON.parse(slots) as Slots
      visit.share = share
      visit.chargedMs = Number(charged)
      if (turn === 'none' || turn === 'no') visit.join = this.#nextJoin()
      return visit
    }
    // Nothing is left, not even a delayed job.
    let asleep = reply === 0 && !asksNone ? 0 : undefined
    if (Array.isArray(reply)) {
      // BullMQ is told when there will be a job: it counts on the clock here.
      const [, , , delayUntil = 0, serverMs, areAsleep] = reply as number[]
      if (serverMs !== undefined) this.#aheadMs = systemClock.wallNow() - serverMs
      // rule: waits-by-its-own-clock
      if (delayUntil > 0) reply[3] = delayUntil + this.#aheadMs
      asleep = areAsleep
    }
    // rule: worker-is-drained-once-when-no-job-sleeps
    if (this.#toldDrained || asleep !== 0) return undefined
    this.#toldDrained = true
    if (this.settings.onDrained) atEndOfTurn(this.settings.onDrained)
    return undefined
  }

  #nextJoin(): Join {
    let done = (): void => undefined
    const earlier = this.#lastJoin
    this.#lastJoin = new Promise<void>((resolve) => {
      done = resolve
    })
    return { earlier, done }
  }

  async #fetched(name: string, sent: Promise<unknown>): Promise<unknown> {
    try {
      const reply = await sent
      this.heard(reply)
      return reply
    } catch (error) {
      // BullMQ asks again at once when the server refuses to give it a job.
      if (name === 'moveToActive') await sleep(systemClock, REFUSED_PAUSE_MS)
      throw error
    }
  }

  #scriptFor(name: string): Replacement {
    return this.#scripts.get(name) as Replacement
  }

  #client(): Promise<Client> {
    return this.connection.client
  }
}
