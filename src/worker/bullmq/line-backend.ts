/**
 * BullMQ's Redis backend with lines: a subclass that sends the composed scripts where BullMQ would
 * send its own. Everything that BullMQ does to jobs passes `execCommand`, so a job and its places
 * change in the same trip.
 */
// Through the namespace: a BullMQ without these names is refused later, with what to do.
import type { Writable } from 'node:stream'
import * as bullmq from 'bullmq'
import type { BackendFactory, Job, JobJson, QueueBaseOptions, RedisQueueBackend } from 'bullmq'
import { sleep, systemClock, withinMs } from '../../clock.ts'
import { tlsMismatch } from '../../redis/tls-check.ts'
import type { LineCensus } from '../../telemetry/worker-source.ts'
import { ASLEEP_DELAY_MS } from '../line/line-library.ts'
import { lineScripts, type LineScripts } from '../line/line-scripts.ts'
import {
  checkedRate,
  limitsFrom,
  type JobRate,
  type LimitKind,
  type ResourceLimits,
} from '../line/limits.ts'
import { shareText, VIRTUAL_TIME, type Share } from '../line/shares.ts'
import { upgradeLines, type UpgradeClient } from '../line/upgrade.ts'
import { keyScript, type ComposedScript } from './composed-script.ts'
import { EndingGroup, type LastTrip } from './ending-group.ts'
import { requireKnownBullmq } from './known-bullmq.ts'

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
  /** Names the resources of a job that is added here; undefined for a worker. */
  readonly resources?: (data: unknown) => readonly string[]
  /** The rate of a job that is added here. */
  readonly rate?: (data: unknown) => JobRate | undefined
  /** The slots of the resource of a job that is added here. */
  readonly slotsOf?: (data: unknown) => number
  /** The share of a job that is added here. */
  readonly share?: (data: unknown, resources: readonly string[]) => Share
}

/** Whether a fetched job may run. */
export interface Turn {
  /**
   * `woken`: the job before it woke it in the trip that fetched it. `yes`: nothing stands before
   * it. `no`: it has to look. `none`: it has no place yet.
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
export interface Ending {
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

interface TakenJobs {
  readonly firstId: string
  readonly jobs: readonly TakenJob[]
}

interface Client extends UpgradeClient {
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

/** A request to stop a job that runs. */
export interface CancelRequest {
  readonly jobId: string
  /** Tells it from another job with the same id. */
  readonly timestamp: number
  readonly reason: string
}

interface Join {
  readonly earlier: Promise<unknown>
  readonly done: () => void
}

/** A job of which nothing is known yet. */
export const NO_TURN: Turn = {
  ...{ turn: 'none', lines: '', usedMs: 0, isFollowed: false },
  ...{ slots: undefined, share: '', chargedMs: 0 },
}
/** Replies of the park script. */
const ITS_TURN = -100
const TOO_LATE = -101
const COMMANDS_PER_WRITE = 4
/** Of BullMQ's arguments of `moveToFinished`: what the job returned, or failed with. */
const RETURN_VALUE = 3
/** A worker whose clock is ahead is given a held job early, and gives it back: not more often. */
const HELD_AGAIN_MS = 10
/** Jobs that leave their lines in one script. */
const LEAVE_LIMIT = 1_000
/** Lines that one call of a sweep takes. */
const SWEEP_LIMIT = 200
const MAX_SWEEPS = 500
/** A job waits this long at most for jobs that this worker was given before it. */
const JOIN_LIMIT_MS = 50
/** BullMQ asks again at once when the server refuses to give it a job. */
const REFUSED_PAUSE_MS = 250

const Backend: typeof RedisQueueBackend =
  (bullmq as Partial<typeof bullmq>).RedisQueueBackend ?? (Object as never)

export class LineBackend extends Backend {
  readonly #settings: LineSettings
  readonly #slots: string
  readonly #scripts: LineScripts
  readonly #turns = new Map<string, Turn>()
  readonly #endingIds = new Map<string, Ending>()
  /** Taken behind the trip of an ending. */
  readonly #takenBehind = new Map<Ending, Promise<TakenJobs | undefined>>()
  /** Jobs that are cancelled here now, and what the script says of them. */
  readonly #cancelled = new Map<string, { reason: string; outcome: CancelOutcome }>()
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
    const prepared = waiting.initializing.then(async (client) => {
      await this.#prepare(client, name)
      return client
    })
    prepared.catch(() => undefined) // BullMQ reports a connection that fails.
    waiting.initializing = prepared
  }

  get scripts(): LineScripts {
    return this.#scripts
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
   * Takes the job's places, and parks it if others stand before it.
   * @returns `slots`: nothing stands before it, and these slots are set; `late`: it has waited for
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
    const deadline = due > Number.MAX_SAFE_INTEGER ? '' : due <= now ? 'late' : due
    const limiter = this.keys['limiter']
    const again = now + HELD_AGAIN_MS
    const ours = [id, timestamp, JSON.stringify(resources), deadline, limiter, again]
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

  /**
   * Restarts lines that stand still, a bounded number of them. Of all workers one does it every
   * `everyMs`.
   */
  async sweep(everyMs: number): Promise<void> {
    await this.#sweep(Math.ceil(everyMs), '')
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

  /** A failed job lets its lines go on, and stays failed. @returns false where it held none. */
  async skip(jobId: string): Promise<boolean> {
    const base = this.keys[''] ?? ''
    return (await this.runOn(this.#scripts.skip, base + jobId, [base, jobId])) === 1
  }

  /** Makes all jobs that sleep ordinary waiting jobs. @returns how many they were. */
  async leaveLines(): Promise<number> {
    const base = this.keys[''] ?? ''
    let moved = 0
    let found: number
    do {
      const reply = await this.run(this.#scripts.leaveLines, 'shares', [base, LEAVE_LIMIT])
      const [sleepers, woken] = reply as readonly [number, number]
      found = sleepers
      moved += woken
    } while (found === LEAVE_LIMIT)
    await this.run(this.#scripts.forget, 'shares', [base])
    return moved
  }

  /** Fails a job that waits, by BullMQ's own way; asks the worker of one that runs to stop it. */
  async cancel(job: Job, error: Error, reason: string): Promise<CancelOutcome> {
    const id = job.id ?? ''
    const request = { reason, outcome: 'missing' as CancelOutcome }
    this.#cancelled.set(id, request)
    try {
      await job.moveToFailed(error, '0')
    } finally {
      this.#cancelled.delete(id)
    }
    return request.outcome
  }

  /** The job has ended: it need not be stopped any more. */
  async withdrawCancel(jobId: string): Promise<void> {
    await this.run(withdrawScript, 'cancelled', [this.toKey(jobId)])
  }

  /** Which of these jobs, that run here, shall be stopped. */
  async cancelRequests(jobIds: readonly string[]): Promise<readonly CancelRequest[]> {
    const keys = jobIds.map((id) => this.toKey(id))
    const found = (await this.run(cancelledScript, 'cancelled', keys)) as readonly (string | null)[]
    return found.flatMap((text, index) => {
      if (text === null) return []
      const [timestamp, reason] = JSON.parse(text) as [string, string]
      return [{ jobId: jobIds[index] ?? '', timestamp: Number(timestamp), reason }]
    })
  }

  /**
   * Sets a limit of a resource, or ends it.
   * @param forMs ends it after this time, by the server's clock.
   * @returns when it ends, if it ends.
   */
  async limit(
    resource: string,
    kind: LimitKind,
    entry: Readonly<Record<string, unknown>> | undefined,
    forMs?: number,
  ): Promise<number | undefined> {
    const text = entry === undefined ? '' : JSON.stringify(entry)
    const args = [resource, kind, text, forMs ?? '']
    const ends = await this.run(this.#scripts.limit, 'limits', args)
    return typeof ends === 'number' ? ends : undefined
  }

  /** Sets the slots of all resources that begin as a pattern does, or ends that. */
  async limitPattern(
    pattern: string,
    entry: Readonly<Record<string, unknown>> | undefined,
  ): Promise<void> {
    const text = entry === undefined ? '' : JSON.stringify(entry)
    await this.run(this.#scripts.pattern, 'limits', [pattern, text])
    await this.#sweepAll() // Jobs that sleep may start by it.
  }

  /** What is set for a resource, or for all of which something is set. */
  async limits(resource?: string): Promise<ReadonlyMap<string, ResourceLimits>> {
    const args = resource === undefined ? [] : [resource]
    const found = (await this.run(this.#scripts.limits, 'limits', args)) as readonly string[]
    const all = new Map<string, ResourceLimits>()
    for (let index = 0; index + 1 < found.length; index += 2) {
      const limits = limitsFrom(found[index + 1] ?? '{}')
      if (Object.keys(limits).length > 0) all.set(found[index] ?? '', limits)
    }
    return all
  }

  /** Counts work for the tenant of a share, also of a job that has not ended. */
  async charge(share: string, workedMs: number): Promise<void> {
    await this.run(this.#scripts.charge, 'shares', [this.keys[''] ?? '', share, workedMs])
  }

  /** Lines in which jobs sleep, of which `limit` are looked at for the longest. */
  async census(limit: number): Promise<LineCensus> {
    const args = [this.keys['delayed'] ?? '', limit, this.keys[''] ?? '']
    const reply = await this.run(this.#scripts.census, 'sleeping-lines', args)
    const [lines = 0, parked = 0, longest = 0, limited = 0, tenants = 0] = reply as number[]
    return { lines, parked, longest, limited, tenants }
  }

  /** Runs a script of ours on BullMQ's connection; `key` follows the space of our keys. */
  async run(
    script: ComposedScript,
    key: string,
    args: readonly (string | number)[],
  ): Promise<unknown> {
    await this.#client() // The space is known then.
    return this.runOn(script, this.#space + key, args)
  }

  /** As {@link run}, with the whole name of a key. */
  async runOn(
    script: ComposedScript,
    key: string,
    args: readonly (string | number)[],
  ): Promise<unknown> {
    const client = await this.#client()
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
        return this.#clean(to, script, args, argv)
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
    await this.#sweepAll()
  }

  override async cleanJobsByState(
    ...args: Method<'cleanJobsByState'>['args']
  ): Method<'cleanJobsByState'>['reply'] {
    const removed = await super.cleanJobsByState(...args)
    if (removed.length > 0) await this.#sweepAll()
    return removed
  }

  override async obliterate(...args: Method<'obliterate'>['args']): Method<'obliterate'>['reply'] {
    const cursor = await super.obliterate(...args)
    if (cursor !== 0) return cursor
    await this.run(this.#scripts.forget, 'shares', [this.keys[''] ?? ''])
    await this.#sweepAll()
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
    const { resources, within, maxWaitMs, rate, share, slotsOf: slots } = this.#settings
    const { replaces: name } = script
    if (resources === undefined) {
      return super.execCommand(client as never, name, args) as Promise<unknown>
    }
    const due = systemClock.wallNow() + maxWaitMs
    const deadline = due > Number.MAX_SAFE_INTEGER ? '' : due
    const parsed: unknown = JSON.parse(data)
    const names = resources(parsed)
    const mayStart = name === 'addStandardJob' || name === 'addPrioritizedJob'
    const own = share?.(parsed, names)
    const ours = [
      ...[JSON.stringify(names), within, deadline, mayStart ? '1' : ''],
      ...[
        rate === undefined ? '' : rateArgument(rate(parsed)),
        own === undefined ? '' : shareText(own),
      ],
      slots?.(parsed) ?? '',
    ]
    return client.runCommand(script.command, this.#arguments(script, args, ours))
  }

  #clean(
    client: Client,
    script: ComposedScript,
    args: unknown[],
    [, , , state]: readonly (string | number)[],
  ): Promise<unknown> {
    const { cleanWaiting } = this.#scripts
    if (state === 'prioritized') return this.#send(client, cleanWaiting, args, [state])
    if (state !== 'wait' && state !== 'paused') return this.#send(client, script, args, [])
    return this.#send(client, cleanWaiting, args, ['wait'])
  }

  #finish(
    client: Client,
    script: ComposedScript,
    args: unknown[],
    argv: readonly (string | number)[],
  ): Promise<unknown> {
    const [id = '', , , , target] = argv
    const cancelled = this.#cancelled.get(String(id))
    if (cancelled !== undefined) return this.#cancel(client, args, String(id), cancelled)
    const ending = this.#endingIds.get(String(id))
    const group = this.#groups.get(String(id))
    this.#groups.delete(String(id))
    const leaves = target === 'completed' || this.#settings.onFailure === 'continue'
    if (group?.has(String(id)) === true) {
      const { lines = '', timestamp = '' } = ending ?? {}
      return group.add(String(id), {
        args,
        ours: [String(id), leaves ? 'leave' : 'hold', lines, timestamp],
      })
    }
    const reply = this.#heard(
      this.#send(client, script, args, [
        id,
        ending?.offers === true ? '1' : '',
        leaves ? 'leave' : 'hold',
        ending?.next ?? 'back',
        ending === undefined ? '' : ending.lines || '-',
        ending?.timestamp ?? '',
        ending === undefined ? '' : Math.round(ending.usedMs),
        ending?.share ?? '',
        ending?.chargeMs ?? 0,
      ]),
    )
    if (ending?.takes !== undefined) {
      // A reply that is lost is as that of any fetch: the jobs are found stalled.
      const taken = this.#take(ending.takes, '', '').catch(() => undefined)
      this.#takenBehind.set(ending, taken)
    }
    ending?.sent()
    return reply
  }

  async #finishMany(trips: readonly LastTrip[], sent: () => void): Promise<readonly unknown[]> {
    const client = await this.#client()
    const { finishMany } = this.#scripts
    const { numberOfKeys } = finishMany
    const [{ args } = { args: [] }] = trips
    const values = trips.map((trip) => trip.args[numberOfKeys + RETURN_VALUE])
    const shared = new SharedArguments(1 + numberOfKeys + trips.length)
    const jobs = trips.map(({ ours, args: own }) => {
      const [, at, property, , target, fetches, prefix, opts, fields] = own.slice(numberOfKeys)
      const theirs = [at, property, target, fetches, prefix].map(String)
      return [...ours, ...theirs, shared.positionOf(opts), shared.positionOf(fields)]
    })
    const ours = [JSON.stringify(jobs), numberOfKeys]
    const keys = args.slice(0, numberOfKeys)
    const all = [...keys, ...keys, ...values, ...shared.all]
    const replies = this.#send(client, finishMany, all, ours)
    this.#flush(client) // The server works on them while the first job's trip is prepared.
    sent()
    return (await replies) as readonly unknown[]
  }

  async #cancel(
    client: Client,
    args: unknown[],
    id: string,
    request: { readonly reason: string; outcome: CancelOutcome },
  ): Promise<unknown> {
    const reply = await this.#send(client, this.#scripts.cancel, args, [id, request.reason])
    request.outcome = reply as CancelOutcome
    return 0
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
      const taken = ending.takes && this.#takenBehind.get(ending)
      if (taken !== undefined) {
        this.#takenBehind.delete(ending)
        if (jobId !== undefined) this.#ahead.set(jobId, taken)
      }
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
        // Earlier releases wrote the number of bursts behind it.
        usedMs: Number.parseFloat(burst ?? '') || 0,
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

  async #sweepAll(): Promise<void> {
    let before = ''
    for (let tries = 0; tries < MAX_SWEEPS; tries++) {
      const [lines, sweepNumber] = await this.#sweep('', before)
      if (before === '') before = String(sweepNumber)
      if (lines < SWEEP_LIMIT) return
    }
  }

  async #sweep(everyMs: number | '', before: string): Promise<readonly [number, number]> {
    const args = [SWEEP_LIMIT, everyMs, before]
    const reply = await this.run(this.#scripts.sweep, 'sleeping-lines', args)
    const [lines, , sweepNumber] = reply as [number, number, number]
    return [lines, sweepNumber]
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
  async #prepare(client: Client, queue: string): Promise<void> {
    const { namespace } = this.#settings
    const tag = /\{[^}]+\}/.exec(this.keys[''] ?? '')?.[0]
    const isCluster = client.isCluster === true
    if (isCluster && tag !== undefined) this.#space = `${tag}:${namespace}:`
    const { composed, ...others } = this.#scripts
    for (const script of [...composed.values(), ...Object.values(others)]) {
      this.#define(client, script)
    }
    // Release 0.1 had its lines in other slots of a cluster.
    if (isCluster) return
    const run = (
      script: ComposedScript,
      key: string,
      args: readonly string[],
    ): Promise<unknown> => {
      this.#define(client, script)
      return client.runCommand(script.command, [key, this.#space, this.#settings.slots, ...args])
    }
    await upgradeLines(client, namespace, { prefix: this.redisPrefix, queue }, run)
  }

  #define(client: Client, { command, numberOfKeys, lua }: ComposedScript): void {
    if (!this.#defined.has(command)) client.defineCommand(command, { numberOfKeys, lua })
    this.#defined.add(command)
  }
}

/** Arguments of which several jobs have the same. */
class SharedArguments {
  readonly all: unknown[] = []
  readonly #first: number

  /** @param first where the first one of them is, as Lua counts. */
  constructor(first: number) {
    this.#first = first
  }

  positionOf(argument: unknown): number {
    const isSame = (other: unknown): boolean =>
      other === argument ||
      (Buffer.isBuffer(other) && Buffer.isBuffer(argument) && other.equals(argument))
    const known = this.all.findIndex(isSame)
    return this.#first + (known === -1 ? this.all.push(argument) - 1 : known)
  }
}

/** KEYS  1 cancelled · ARGV  3… job keys. Returns  the request for each, or false */
const cancelledScript = keyScript(
  'cancelled',
  `
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
return redis.call('HMGET', KEYS[1], unpack(ARGV, 3))
`,
)

/** KEYS  1 cancelled · ARGV  3 job key */
const withdrawScript = keyScript('withdraw', `return redis.call('HDEL', KEYS[1], ARGV[3])`)

function slotsOf(text: unknown): number | undefined {
  return typeof text === 'string' && text !== '' ? Number(text) : undefined
}

function rateArgument(rate: JobRate | undefined): string {
  if (rate === undefined) return ''
  const { limit, perMs, burst, cost } = checkedRate(rate, 'rate')
  return JSON.stringify([limit, perMs, burst, cost])
}

async function refusedLater(error: unknown): Promise<never> {
  await sleep(systemClock, REFUSED_PAUSE_MS)
  throw error
}
