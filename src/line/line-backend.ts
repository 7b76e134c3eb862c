/**
 * BullMQ's Redis backend with lines: it sends the composed scripts where BullMQ would send its own.
 * All that BullMQ does to jobs passes here: a job and its places change in one trip.
 */
import { randomUUID } from 'node:crypto'
import * as bullmq from 'bullmq'
import type { BackendFactory, MinimalJob, RedisQueueBackend } from 'bullmq'
import { allEnded } from '../all-ended.ts'
import { atEndOfTurn, ownCallback, systemClock } from '../clock.ts'
import type { Slots } from '../slots.ts'
import { ownScript, type ComposedScript } from './bullmq/composed-script.ts'
import { requireKnownBullmq } from './bullmq/known-bullmq.ts'
import { ADDS, FETCHES, lineScripts, type Replacement } from './line-scripts.ts'
import { absentKeyIn, type Arguments, type Client, type LineRunner } from './line-runner.ts'
import type { LineSettings } from './line-settings.ts'
import type { LinePlacement } from './placement.ts'
import { ConnectedBackend, prepareClient } from './queue-connection.ts'
import { DENIES, says } from './refusals.ts'
import { asRefused, mayChange } from './rights.ts'
import { Additions, Ends } from './together.ts'
import { BACK, FROM, RAN } from './turns.ts'
import { GIVE_BACK_LIMIT_MS, type Join, type LineVisit } from './visit.ts'

type Method<Name extends keyof RedisQueueBackend> = RedisQueueBackend[Name] extends (
  ...args: infer Args
) => infer Reply
  ? { readonly args: Args; readonly reply: Reply }
  : never

const KEEP_ALL = { count: -1 }
const NO_JOB = { id: '', opts: {} } as MinimalJob
/** From here on `maxWaitMs` is no limit. */
const ANY_TIME_MS = Number.MAX_SAFE_INTEGER / 2

/** JSON for Lua, which refuses half a surrogate pair. The message of an error may end in one. */
export function jsonText(value: unknown): string {
  const text = JSON.stringify(value)
  if (!text.includes('\\ud')) return text
  // As a client writes it: half a surrogate pair becomes a replacement character.
  return text.replace(/\\\\|\\ud.../g, (found) => (found === '\\\\' ? found : '\ufffd'))
}

export class LineBackend extends ConnectedBackend implements LineRunner {
  declare readonly name: string
  readonly settings: LineSettings
  readonly base: string
  readonly absentKey: string
  /** Once it is connected: before anything is sent. */
  readyClient!: Client
  readonly #scripts = lineScripts()
  /** Commands that the client knows. */
  readonly #defined = new Set<string>()
  /** Those that its user may run whole, as far as is known. */
  readonly #allowed = new Set<string>()
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
    super(inner, name)
    const { maxWaitMs = Infinity } = given
    this.settings = { ...given, maxWaitMs: maxWaitMs > ANY_TIME_MS ? undefined : maxWaitMs }
    this.base = this.toKey('')
    this.absentKey = absentKeyIn(this.base)
    const finish = this.#scripts.get('finish') as Replacement
    const finishKeys = this.moveToCompletedArgs(NO_JOB, '', false, '0').slice(0, finish.keys)
    this.#ends = new Ends(this, finish, finishKeys)
    // The next server may have other users.
    // rule: rights-are-asked-for-after-a-connection
    this.on('close', () => {
      this.#allowed.clear()
    })
    prepareClient(this.connection, (client) => {
      this.readyClient = client
      // Pipelines and transactions know only what was defined before they were made.
      for (const { script: each } of this.#scripts.values()) this.#define(client, each)
    })
  }

  /** An idle worker of this queue looks whether there is a job. */
  async wakeWorker(): Promise<void> {
    await this.run('line/lua/wake-worker', {})
  }

  async run(path: string, args: Arguments): Promise<unknown> {
    const script = ownScript(path)
    const client: Client = await this.connection.client
    this.#define(client, script)
    // A key on the queue's slot of a cluster.
    return this.sendTo(client, { name: path, script, keys: 1 }, [this.keys['meta']], args)
  }

  /** @param name of what takes the place of a script: see `lineScripts`. */
  async send(name: string, args: readonly unknown[], ours: Arguments): Promise<unknown> {
    const replaced = this.#scripts.get(name) as Replacement
    return this.sendTo(await this.connection.client, replaced, args, ours)
  }

  /** BullMQ's keys and arguments, and ours as one. Whatever goes wrong, it rejects. */
  async sendTo(
    client: Client,
    { name, script, keys: count }: Omit<Replacement, 'ours'>,
    args: readonly unknown[],
    ours: Arguments | undefined,
  ): Promise<unknown> {
    const { base, absentKey, settings } = this
    // rule: added-job-is-there-for-the-next-call
    void this.#additions.flush()
    const keys = args.slice(0, count)
    // It may take the place of another script, which has more of them.
    while (keys.length < script.numberOfKeys - 1) keys.push(args[0])
    const asks = !this.#allowed.has(script.command) && mayChange(name)
    const text = jsonText({
      base,
      slots: settings.slots,
      replaces: name,
      asks: asks || undefined,
      ...ours,
    })
    const all = [...keys, absentKey, ...args.slice(count), text]
    try {
      const reply: unknown = await client.runCommand(script.command, all)
      if (reply !== client) this.#allowed.add(script.command) // A transaction has no reply yet.
      return reply
    } catch (error) {
      // rule: rights-are-asked-for-after-a-refusal
      if (says(error, DENIES)) this.#allowed.clear()
      throw asRefused(error, this.qualifiedName)
    }
  }

  #define(client: Client, { command, numberOfKeys, lua }: ComposedScript): void {
    if (this.#defined.has(command)) return
    client.defineCommand(command, { numberOfKeys, lua })
    this.#defined.add(command)
    const { options } = client
    const others = options['autoPipeliningIgnoredCommands'] as readonly string[] | undefined
    if (others === undefined || others.includes(command)) return
    // A pipeline of `enableAutoPipelining` that was made before a script was defined does not know
    // it. Then ioredis gives every caller of that pipeline the reply of another one.
    // rule: script-joins-no-older-pipeline
    options['autoPipeliningIgnoredCommands'] = [...others, command]
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as BullMQ declares it.
  override execCommand(client: unknown, name: string, args: any[]): any {
    const replaced = this.#scripts.get(name)
    // BullMQ has passed on what `addJob` gave it in place of a client.
    const placement = client as LinePlacement | { readonly lines?: never }
    if (replaced !== undefined && placement.lines !== undefined) {
      return this.#additions.place(replaced, args, placement)
    }
    if (replaced === undefined || ADDS.includes(name)) {
      void this.#additions.flush()
      return super.execCommand(client as never, name, args)
    }
    const looks = { runs: this.settings.visits?.byId.size, worker: this.#name }
    const ours = name === 'moveToActive' ? looks : replaced.ours
    const sent = this.sendTo(client as Client, replaced, args, ours)
    return FETCHES.includes(name) ? this.#fetched(sent) : sent
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

  override async addJob(
    ...[job, jobId, parentKeyOpts]: Method<'addJob'>['args']
  ): Method<'addJob'>['reply'] {
    const placement = this.settings.placement?.(job.data, jobId)
    const client = await this.connection.client
    return this.addJobToTransaction((placement ?? client) as never, job, jobId, parentKeyOpts)
  }

  override async addJobs(entries: Method<'addJobs'>['args'][0]): Method<'addJobs'>['reply'] {
    const { placement } = this.settings
    if (placement === undefined) return super.addJobs(entries)
    // None is added where one names nothing.
    const placed = entries.map(({ job, jobId, parentKeyOpts }) => {
      return [placement(job.data, jobId) as never, job, jobId, parentKeyOpts] as const
    })
    await this.connection.client
    return allEnded(placed.map((each) => this.addJobToTransaction(...each)))
  }

  static {
    type Ask = (this: LineBackend, id: string, ...more: unknown[]) => Promise<unknown>
    const own = LineBackend.prototype as unknown as Record<string, Ask>
    // What BullMQ asks without a script of jobs that were just added.
    for (const name of ['getJobData', 'getDeduplicationJobId', 'deleteDeduplicationKey']) {
      const ask = own[name] as Ask
      own[name] = async function (id) {
        await this.connection.client
        void this.#additions.flush()
        return ask.call(this, id)
      }
    }
    // By which a job goes back by hand.
    for (const name of ['moveJobFromActiveToWait', 'retryJob', 'moveToWaitingChildren']) {
      const move = own[name] as Ask
      own[name] = function (...args) {
        return this.#moves(args[0], move.apply(this, args))
      }
    }
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
    const [jobId, timestamp, delay, token, how] = args
    const { visits } = this.settings
    const visit = how?.skipAttempt === true ? visits?.byId.get(jobId) : undefined
    // A job that its own processor delays is not given back.
    const marks = visit && {
      ...(visit.hasRun && { [RAN]: '1' }),
      ...(visit.giveUp === undefined && { [BACK]: '1' }),
    }
    const told = marks && { ...how, fieldsToUpdate: { ...how?.fieldsToUpdate, ...marks } }
    const moved = super.moveToDelayed(jobId, timestamp, delay, token, told ?? how)
    const found = await this.#moves(jobId, moved)
    // rule: retry-without-a-job-says-nothing
    return found?.length === 0 ? undefined : found
  }

  /** A job goes back by hand. */
  #moves<Answer>(jobId: string, trip: Promise<Answer>): Promise<Answer> {
    return this.settings.visits?.moving(jobId, trip) ?? trip
  }

  /** After a silence of the server a check only marks, and the next one comes soon. */
  override async moveStalledJobsToWait(): Method<'moveStalledJobsToWait'>['reply'] {
    const args = this.moveStalledJobsToWaitArgs()
    const reply = await this.send('moveStalledJobsToWait', args, {})
    const [stalled, sparedMs] = reply as readonly [string[], number]
    if (sparedMs > 0) systemClock.after(sparedMs, () => this.settings.onCheckDue?.()).unref?.()
    return stalled
  }

  /** A reply that may bring a job: in the order of the server, and before it is heard. */
  arrived(reply: unknown): void {
    // rule: given-job-ends-what-was-drained
    if (Array.isArray(reply) && Array.isArray(reply[0])) this.#toldDrained = false
  }

  /**
   * The job that a reply brings, if any, with what the reply says about its turn.
   * @param askedAt on the monotonic clock, before it was asked.
   * @param isEnd of a job that ended, where another one was asked for: 0 says that there is none.
   */
  heard(reply: unknown, askedAt: number, isEnd = false): LineVisit | undefined {
    if (Array.isArray(reply) && Array.isArray(reply[0])) {
      const [fields, jobId, , , told] = reply as readonly unknown[]
      const [turn, lines = '', burst, slots, share = '', charged, limitEndsAt] =
        told as readonly string[]
      const visit = this.settings.visits?.fetched(String(jobId))
      if (visit === undefined) return undefined
      visit.lockedUntil = askedAt + (this.options.lockDuration ?? Infinity)
      visit.turn = turn as LineVisit['turn']
      visit.lines = lines
      visit.usedMs = Number(burst)
      if (slots) visit.slots = JSON.parse(slots) as Slots
      visit.share = share
      visit.chargedMs = Number(charged)
      visit.limitEndsAt = Number(limitEndsAt)
      const hash = fields as readonly string[]
      for (let nr = 0; nr < hash.length; nr += 2) {
        if (hash[nr] === RAN) visit.hasRun = true
        else if (hash[nr] === FROM) visit.from = Number(hash[nr + 1])
      }
      if (turn === 'none' || turn === 'no') visit.join = this.#nextJoin()
      return visit
    }
    // Nothing is left, not even a delayed job.
    let asleep = reply === 0 && isEnd ? 0 : undefined
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

  override async close(force?: boolean): Promise<void> {
    // rule: what-was-added-is-sent-before-the-end
    await ownCallback()
    // What waits for its lease goes back by itself, where the worker stops all.
    // rule: forced-close-gives-back-what-waits
    await this.settings.visits?.idleWithin(GIVE_BACK_LIMIT_MS, 'waiting')
    await super.close(force)
  }

  #nextJoin(): Join {
    let done = (): void => undefined
    const earlier = this.#lastJoin
    this.#lastJoin = new Promise<void>((resolve) => {
      done = resolve
    })
    return { earlier, done }
  }

  async #fetched(sent: Promise<unknown>): Promise<unknown> {
    const askedAt = systemClock.now()
    const reply = await sent
    this.arrived(reply)
    this.heard(reply, askedAt)
    return reply
  }
}
