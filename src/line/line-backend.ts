/**
 * BullMQ's Redis backend with lines: a subclass that sends the composed scripts where BullMQ would
 * send its own. Everything that BullMQ does to jobs passes `execCommand`, so a job and its places
 * change in the same trip.
 */
// Through the namespace: a BullMQ without these names is refused later, with what to do.
import type { Writable } from 'node:stream'
import * as bullmq from 'bullmq'
import type { BackendFactory, Job, JobJson, QueueBaseOptions, RedisQueueBackend } from 'bullmq'
import { sleep, systemClock, withinMs } from '../clock.ts'
import { tlsMismatch } from '../tls-check.ts'
import { ASLEEP_DELAY_MS, VIRTUAL_TIME } from './asleep.ts'
import { lineScripts, type LineScripts } from './line-scripts.ts'
import { forgetTenants } from './leave-lines.ts'
import type { JobRate } from './limits.ts'
import { shareText, type Share } from './shares.ts'
import type { LineRunner } from './line-runner.ts'
import { sweepAll } from './sweep.ts'
import type { ComposedScript } from './bullmq/composed-script.ts'
import { EndingGroup, type LastTrip } from './ending-group.ts'
import { requireKnownBullmq } from './bullmq/known-bullmq.ts'

/** What a queue and its workers agree on. */
export interface LineSettings {
  readonly namespace: string
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
}

/** How a job that is added stands in line. */
export interface LinePlacement {
  readonly resources: readonly string[]
  /** Of its resource; undefined where the job says none. */
  readonly slots: number | undefined
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
  /** Jobs seem to wait behind it. */
  readonly isFollowed: boolean
  /** The slots of its resource, where they are set; undefined where the worker's own count. */
  readonly slots: number | undefined
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
  /** What the batch of the next job takes, behind this trip; undefined for none. */
  readonly takes?: Taking | undefined
}

/** The end of a job. */
export interface Ending {
  readonly move: Move
  /** What the batch of the next job has taken; once the trip is under way. */
  taken?: Promise<TakenJobs | undefined> | undefined
  /** The trip is under way. */
  sent(): void
  /** The trip is back with the job that it fetched, if any. */
  returned(jobId: string | undefined, turn: Turn | undefined): void
}

const ENDING: unique symbol = Symbol('how the last trip moves the lines of a job')

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

/** Jobs of a batch behind its first one. */
interface TakenJobs {
  readonly firstId: string
  readonly jobs: readonly TakenJob[]
}

interface Client {
  readonly isCluster?: boolean
  /** The socket of an ioredis client. */
  readonly stream?: Partial<Pick<Writable, 'cork' | 'uncork'>>
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
export type CancelOutcome = 'failed' | 'running' | 'finished' | 'missing'

/** Of a script: ours, or BullMQ's. */
type Arguments = readonly (string | number)[]

interface Join {
  readonly earlier: Promise<unknown>
  readonly done: () => void
}

/** A job of which nothing is known yet. */
export const NO_TURN: Turn = {
  turn: 'none',
  lines: '',
  usedMs: 0,
  isFollowed: false,
  slots: undefined,
  share: '',
  chargedMs: 0,
}
/** Replies of the park script. */
const ITS_TURN = -100
const TOO_LATE = -101
const COMMANDS_PER_WRITE = 4
/** Of BullMQ's arguments of `moveToFinished`: what the job returned, or failed with. */
const RETURN_VALUE = 3
/** A worker whose clock is ahead is given a held job early, and gives it back: not more often. */
const HELD_AGAIN_MS = 10
/** A job waits this long at most for jobs that this worker was given before it. */
const JOIN_LIMIT_MS = 50
/** BullMQ asks again at once when the server refuses to give it a job. */
const REFUSED_PAUSE_MS = 250

const Backend: typeof RedisQueueBackend =
  (bullmq as Partial<typeof bullmq>).RedisQueueBackend ?? (Object as never)

export class LineBackend extends Backend implements LineRunner {
  readonly #settings: LineSettings
  readonly #slots: string
  readonly #scripts: LineScripts
  readonly #turns = new Map<string, Turn>()
  readonly #endingIds = new Map<string, Ending>()
  /** What is sent in place of the last trip of a job that is cancelled here now. */
  readonly #cancelling = new Map<string, (client: Client, args: unknown[]) => Promise<unknown>>()
  /** Taken for the batch of a job that was fetched in the trip before. By the id of that job. */
  readonly #ahead = new Map<string, Promise<TakenJobs | undefined>>()
  /** Of jobs whose last trips become one. */
  readonly #groups = new Map<string, EndingGroup>()
  readonly #defined = new Set<string>()
  /** Commands of this turn of the event loop. */
  #unsent = 0
  /** Jobs without a place take theirs in the order in which this worker was given them. */
  readonly #joins = new Map<string, Join>()
  #lastJoin: Promise<unknown> = Promise.resolve()
  /** What the names of our keys begin with. On a cluster they share the queue's hash tag. */
  #space: string

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
    this.#slots = String(settings.slots)
    this.#scripts = lineScripts()
    this.#space = `${settings.namespace}:`
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
    taking: Taking,
  ): Promise<readonly TakenJob[]> {
    const ahead = await this.takenAhead(id)
    return ahead ?? (await this.#take(taking, id, timestamp)).jobs
  }

  /** What was taken for the batch of a job before it began. Known once. */
  takenAhead(jobId: string): Promise<readonly TakenJob[] | undefined> | undefined {
    const ahead = this.#ahead.get(jobId)
    this.#ahead.delete(jobId)
    return ahead?.then((taken) => (taken?.firstId === jobId ? taken.jobs : undefined))
  }

  async #take(
    { resource, token, most, before }: Taking,
    id: string,
    timestamp: number | '',
  ): Promise<TakenJobs> {
    // BullMQ's own keys, arguments and decoding, around another script.
    const asBullmq = (
      execCommand: (client: Client, name: string, args: unknown[]) => unknown,
    ): Method<'moveToActive'>['reply'] =>
      super.moveToActive.call(
        Object.create(this, { execCommand: { value: execCommand } }),
        token,
        this.#settings.workerName,
      )
    let found: readonly unknown[] = []
    await asBullmq(async (client, _name, args) => {
      const ours = [resource, most, before, token, id, timestamp]
      found = (await this.#send(client, this.#scripts.take, args, ours)) as readonly unknown[]
    })
    const [firstId = '', ...others] = found
    const jobs = others.map((job) => bullmq.raw2NextJobData(job as unknown[]) as unknown)
    return { firstId: String(firstId), jobs: jobs as readonly TakenJob[] }
  }

  /** The last trips of these jobs become one. `remove` takes out a job that has ended otherwise. */
  endTogether(ids: readonly string[]): Pick<EndingGroup, 'remove' | 'sent'> {
    const group = new EndingGroup(ids, (trips, sent) => this.#finishMany(trips, sent))
    for (const id of ids) this.#groups.set(id, group)
    const remove = (id: string): void => {
      this.#groups.delete(id)
      group.remove(id)
    }
    return { remove, sent: group.sent }
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
    { id, timestamp }: { readonly id: string; readonly timestamp: number },
    resources: readonly string[],
    token: string | undefined,
  ): Promise<'parked' | 'late' | { readonly slots: number | undefined }> {
    const now = systemClock.wallNow()
    const delayMs = ASLEEP_DELAY_MS - now
    const args = this.moveToDelayedArgs(id, now, token ?? '0', delayMs, { skipAttempt: true })
    const due = timestamp + this.#settings.maxWaitMs
    const ours = [
      id,
      timestamp,
      JSON.stringify(resources),
      due <= now ? 'late' : deadlineOf(due),
      this.keys['limiter'],
      now + HELD_AGAIN_MS,
    ]
    const client = await this.#client()
    const earlier = this.#joins.get(id)?.earlier
    if (earlier !== undefined) await withinMs(systemClock, JOIN_LIMIT_MS, earlier)
    const sent = this.#heard(this.#send(client, this.#scripts.park, args, ours))
    this.joined(id)
    const reply = await sent
    if (Array.isArray(reply) && reply[0] === ITS_TURN) return { slots: slotsOf(reply[1]) }
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

  /** When the delay of a job of any queue ends; undefined for one that has none. */
  async dueAt({ id, queueName, prefix }: Job): Promise<Date | undefined> {
    const client = await this.#client()
    const score = await client.zscore(`${prefix}:${queueName}:delayed`, id ?? '')
    return score === null || score === undefined ? undefined : new Date(Number(score) / 4096)
  }

  /** Fails a job that waits, by BullMQ's own way; asks the worker of one that runs to stop it. */
  async cancel(job: Job, error: Error, reason: string): Promise<CancelOutcome> {
    const id = job.id ?? ''
    let outcome: CancelOutcome = 'missing'
    this.#cancelling.set(id, async (client, args) => {
      const reply = await this.#send(client, this.#scripts.cancel, args, [id, reason])
      outcome = reply as CancelOutcome
      return 0
    })
    try {
      await job.moveToFailed(error, '0')
    } finally {
      this.#cancelling.delete(id)
    }
    return outcome
  }

  /** BullMQ waits for a connection before it closes it; this ends its clients at once. */
  disconnectNow(): void {
    for (const each of [this.connection, this.blockingConnection]) {
      const { _client: client } = (each ?? {}) as { readonly _client?: { disconnect(): void } }
      client?.disconnect()
    }
  }

  /** The whole name of one of our keys. */
  keyOf(key: string): string {
    return this.#space + key
  }

  async run(script: ComposedScript, key: string, args: Arguments): Promise<unknown> {
    const client = await this.#client() // The space is known then.
    return this.#run(client, script, this.keyOf(key), args)
  }

  async runOn(script: ComposedScript, key: string, args: Arguments): Promise<unknown> {
    return this.#run(await this.#client(), script, key, args)
  }

  #run(client: Client, script: ComposedScript, key: string, args: Arguments): Promise<unknown> {
    this.#define(client, script)
    return client.runCommand(script.command, [key, this.#space, this.#settings.slots, ...args])
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
      case 'moveToFinished':
        return this.#finish(to, script, args, argv)
      case 'moveToActive':
        return this.#heard(this.#send(to, script, args, [])).catch(refusedLater)
      case 'moveToDelayed':
        return this.#heard(this.#send(to, script, args, []))
      case 'promote':
        return this.#send(to, script, args, [argv[1]])
      case 'removeJob':
        return this.#send(to, script, args, [argv[0]])
      case 'moveToWaitingChildren':
        return this.#send(to, script, args, [argv[3]])
      case 'changePriority':
        return this.#send(to, script, args, [argv[2], argv[0], argv[3], this.#settings.within])
      case 'drain':
        return this.#send(to, script, args, ['both'])
      case 'cleanJobsInSet':
        return this.#clean(to, script, args, String(argv[3]))
      default:
        return this.#send(to, script, args, [])
    }
  }

  override moveToCompleted(
    ...args: Method<'moveToCompleted'>['args']
  ): Method<'moveToCompleted'>['reply'] {
    return this.#trip(args[0], () => super.moveToCompleted(...args))
  }

  override moveToFailed(...args: Method<'moveToFailed'>['args']): Method<'moveToFailed'>['reply'] {
    return this.#trip(args[0], () => super.moveToFailed(...args))
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

  override async obliterate(...args: Method<'obliterate'>['args']): Method<'obliterate'>['reply'] {
    const cursor = await super.obliterate(...args)
    if (cursor !== 0) return cursor
    await forgetTenants(this)
    await sweepAll(this)
    return cursor
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
    const mayStart = name === 'addStandardJob' || name === 'addPrioritizedJob'
    const ours = [
      JSON.stringify(resources),
      within,
      deadlineOf(systemClock.wallNow() + maxWaitMs),
      mayStart ? '1' : '',
      rate === undefined ? '' : JSON.stringify([rate.limit, rate.perMs, rate.burst, rate.cost]),
      share === undefined ? '' : shareText(share),
      slots ?? '',
    ]
    return client.runCommand(script.command, this.#arguments(script, args, ours))
  }

  #clean(client: Client, script: ComposedScript, args: unknown[], state: string): Promise<unknown> {
    const { cleanWaiting } = this.#scripts
    if (state === 'prioritized') return this.#send(client, cleanWaiting, args, [state])
    if (state !== 'wait' && state !== 'paused') return this.#send(client, script, args, [])
    return this.#send(client, cleanWaiting, args, ['wait'])
  }

  #finish(
    client: Client,
    script: ComposedScript,
    args: unknown[],
    argv: Arguments,
  ): Promise<unknown> {
    const id = String(argv[0])
    const cancel = this.#cancelling.get(id)
    if (cancel !== undefined) return cancel(client, args)
    const ending = this.#endingIds.get(id)
    const group = this.#groups.get(id)
    this.#groups.delete(id)
    const isDone = argv[4] === 'completed'
    const leaving = isDone || this.#settings.onFailure === 'continue' ? 'leave' : 'hold'
    if (group?.has(id) === true) {
      const { lines = '', timestamp = '' } = ending?.move ?? {}
      return group.add(id, { args, ours: [id, leaving, lines, timestamp] })
    }
    if (ending === undefined) {
      const ours = [id, '', leaving, 'back', '', '', '', '', 0]
      return this.#heard(this.#send(client, script, args, ours))
    }
    const { offers, next, lines, timestamp, usedMs, share, chargeMs, takes } = ending.move
    const offer = offers ? '1' : ''
    const burstMs = Math.round(usedMs)
    const ours = [id, offer, leaving, next, lines || '-', timestamp, burstMs, share, chargeMs]
    const reply = this.#heard(this.#send(client, script, args, ours))
    if (takes !== undefined) {
      // A reply that is lost is as that of any fetch: the jobs are found stalled.
      ending.taken = this.#take(takes, '', '').catch(() => undefined)
    }
    ending.sent()
    return reply
  }

  async #finishMany(trips: readonly LastTrip[], sent: () => void): Promise<readonly unknown[]> {
    const client = await this.#client()
    const { finishMany } = this.#scripts
    const { numberOfKeys } = finishMany
    const [{ args } = { args: [] }] = trips
    const values = trips.map((trip) => trip.args[numberOfKeys + RETURN_VALUE])
    const shared: unknown[] = []
    const first = 1 + numberOfKeys + trips.length // As Lua counts.
    const jobs = trips.map(({ ours, args: own }) => {
      const [, at, property, , target, fetches, prefix, opts, fields] = own.slice(numberOfKeys)
      const theirs = [at, property, target, fetches, prefix].map(String)
      return [...ours, ...theirs, first + indexIn(shared, opts), first + indexIn(shared, fields)]
    })
    const ours = [JSON.stringify(jobs), numberOfKeys]
    const keys = args.slice(0, numberOfKeys)
    const all = [...keys, ...keys, ...values, ...shared]
    const replies = this.#send(client, finishMany, all, ours)
    this.#flush(client) // The server works on them while the first job's trip is prepared.
    sent()
    return (await replies) as readonly unknown[]
  }

  /** Tells a job's ending what became of the trip that ends it. */
  async #trip(job: EndingJob, trip: () => Promise<Completed>): Promise<Completed> {
    const { id, [ENDING]: ending } = job
    if (ending === undefined || id === undefined) return trip()
    // BullMQ tries again after a broken connection: it is an ordinary ending then.
    job[ENDING] = undefined
    this.#endingIds.set(id, ending)
    let jobId: string | undefined
    try {
      const completed = await trip()
      jobId = (completed.result as readonly [unknown, string?] | undefined)?.[1]
      return completed
    } finally {
      this.#endingIds.delete(id)
      if (jobId !== undefined && ending.taken !== undefined) this.#ahead.set(jobId, ending.taken)
      ending.returned(jobId, jobId === undefined ? undefined : this.#turns.get(jobId))
    }
  }

  /** Keeps what a reply says about the turn of the job that it brings. */
  async #heard(sent: Promise<unknown>): Promise<unknown> {
    const reply = await sent
    if (Array.isArray(reply) && Array.isArray(reply[0])) {
      const [, jobId, , , turn, lines, burst, followed, slots, share, charged] = reply as readonly (
        string | undefined
      )[]
      this.#turns.set(String(jobId), {
        turn: (turn ?? 'none') as Turn['turn'],
        lines: lines ?? '',
        usedMs: Number(burst ?? 0),
        isFollowed: followed === '1',
        slots: slotsOf(slots),
        share: share ?? '',
        chargedMs: Number(charged ?? 0),
      })
      if (turn === 'none' || turn === 'no') this.#expectJoin(String(jobId))
    }
    return reply
  }

  #expectJoin(jobId: string): void {
    let done = (): void => undefined
    const earlier = this.#lastJoin
    this.#lastJoin = new Promise<void>((resolve) => {
      done = resolve
    })
    this.#joins.set(jobId, { earlier, done })
  }

  #send(
    client: Client,
    script: ComposedScript,
    args: readonly unknown[],
    ours: readonly (string | number | undefined)[],
  ): Promise<unknown> {
    this.#coalesce(client)
    const all = this.#arguments(script, args, [this.keys[''], ...ours])
    return client.runCommand(script.command, all)
  }

  /**
   * Commands that are sent in one turn of the event loop leave in few writes. In several, so that
   * the server works on the first while the others are prepared.
   */
  #coalesce(client: Client): void {
    const { stream } = client
    if (stream?.cork === undefined || stream.uncork === undefined) return
    this.#unsent++
    if (this.#unsent === 1) {
      stream.cork()
      process.nextTick(() => {
        this.#flush(client)
      })
    } else if (this.#unsent % COMMANDS_PER_WRITE === 0) {
      stream.uncork()
      stream.cork()
    }
  }

  #flush({ stream }: Client): void {
    this.#unsent = 0
    stream?.uncork?.()
  }

  /** BullMQ's keys, our arguments as one, BullMQ's arguments. */
  #arguments(
    { numberOfKeys }: ComposedScript,
    args: readonly unknown[],
    ours: readonly (string | number | undefined)[],
  ): unknown[] {
    const texts = ours.map(String)
    texts.unshift(this.#space, this.#slots)
    return args.toSpliced(numberOfKeys, 0, JSON.stringify(texts))
  }

  async #client(): Promise<Client> {
    return await this.connection.client
  }

  /** Pipelines and transactions know only what was defined before they were made. */
  #prepare(client: Client): void {
    const { namespace } = this.#settings
    const tag = /\{[^}]+\}/.exec(this.keys[''] ?? '')?.[0]
    if (client.isCluster === true && tag !== undefined) this.#space = `${tag}:${namespace}:`
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

/** Where an argument is among those of which several jobs have the same; it is added if new. */
function indexIn(shared: unknown[], argument: unknown): number {
  const isSame = (other: unknown): boolean =>
    other === argument ||
    (Buffer.isBuffer(other) && Buffer.isBuffer(argument) && other.equals(argument))
  const known = shared.findIndex(isSame)
  return known === -1 ? shared.push(argument) - 1 : known
}

function slotsOf(text: unknown): number | undefined {
  return typeof text === 'string' && text !== '' ? Number(text) : undefined
}

/** When a job has waited too long; '' for never. */
function deadlineOf(due: number): number | '' {
  return due > Number.MAX_SAFE_INTEGER ? '' : due
}

async function refusedLater(error: unknown): Promise<never> {
  await sleep(systemClock, REFUSED_PAUSE_MS)
  throw error
}
