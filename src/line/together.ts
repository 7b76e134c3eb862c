/**
 * Jobs that are added, and jobs that end, in one turn of the event loop are sent together: see
 * `lua/add.lua` and `lua/finish.lua`.
 */
import * as bullmq from 'bullmq'
import type { Job, JobsOptions, KeepJobs } from 'bullmq'
import { atEndOfCallback, atEndOfTurn, ownCallback, systemClock } from '../clock.ts'
import { LineFullError } from '../errors.ts'
import type { LineBackend } from './line-backend.ts'
import type { Arguments } from './line-runner.ts'
import type { Replacement } from './line-scripts.ts'
import type { LinePlacement } from './placement.ts'
import type { LineVisit, Move } from './visit.ts'

/** Of one call, about. */
const MAX_BYTES = 100_000

/**
 * Sends items a few at a time, and gives each its own reply: see `lua/together.lua`. While no call
 * is under way, what one callback adds leaves.
 */
abstract class TurnGroup<Item> {
  protected readonly backend: LineBackend
  readonly #maxItems: number
  #waiting: Item[] = []
  /** One for each of them. */
  #callers: { resolve: (reply: unknown) => void; reject: (error: unknown) => void }[] = []
  #kind = ''
  #bytes = 0
  /** Calls that were sent, and are not settled. */
  #underWay = 0

  constructor(backend: LineBackend, maxItems: number) {
    this.backend = backend
    this.#maxItems = maxItems
  }

  protected abstract send(items: readonly Item[]): Promise<unknown>

  /**
   * @param bytes about how long it is.
   * @param kind what is sent together is of one kind.
   * @returns what the server says about it.
   */
  protected add(item: Item, bytes: number, kind: string): Promise<unknown> {
    if (kind !== this.#kind) void this.flush()
    this.#kind = kind
    return new Promise((resolve, reject) => {
      // While the server has nothing to do, what comes first waits for no others.
      const soon = this.#underWay === 0 ? atEndOfCallback : atEndOfTurn
      if (this.#waiting.length === 0) soon(this.flush)
      this.#waiting.push(item)
      this.#callers.push({ resolve, reject })
      this.#bytes += bytes
      if (this.#waiting.length >= this.#maxItems || this.#bytes >= MAX_BYTES) void this.flush()
    })
  }

  /** Sends what waits. */
  readonly flush = async (): Promise<void> => {
    const [waiting, callers] = [this.#waiting, this.#callers]
    if (waiting.length === 0) return
    this.#waiting = []
    this.#callers = []
    this.#bytes = 0
    this.#underWay++
    try {
      const reply = await this.send(waiting)
      const replies = (typeof reply === 'string' ? JSON.parse(reply) : reply) as readonly unknown[]
      for (const each of replies) this.backend.arrived(each)
      // Replies that came together are settled in a callback each. So what the jobs of one call
      // send leaves, and the server works, before those of the next call are settled.
      if (this.#underWay > 1) await ownCallback()
      for (const [index, { resolve, reject }] of callers.entries()) {
        const own = replies[index]
        const message: unknown = Array.isArray(own) ? own[0] : undefined
        if (typeof message !== 'string') resolve(own)
        else reject(Object.assign(new Error(message), { name: 'ReplyError' }))
      }
    } catch (error) {
      for (const { reject } of callers) reject(error)
    } finally {
      this.#underWay--
    }
  }
}

/** A job that is added. */
interface Addition {
  readonly replaced: Replacement
  /** BullMQ's keys and arguments. */
  readonly args: readonly unknown[]
  readonly placement: LinePlacement
  readonly bytes: number
}

/** Reply of the add script. */
const LINE_FULL = -200

export class Additions extends TurnGroup<Addition> {
  /** Where full lines drop jobs for new ones. */
  #lastAdd: Promise<unknown> = Promise.resolve()

  constructor(backend: LineBackend) {
    super(backend, 16)
  }

  place(
    replaced: Replacement,
    args: readonly unknown[],
    placement: LinePlacement,
  ): Promise<unknown> {
    const { length: bytes } = (args[replaced.keys + 1] ?? '') as string
    const job = { replaced, args, placement, bytes }
    if (this.backend.settings.maxLength !== undefined) return this.#addToFull(job)
    return this.add(job, job.bytes, replaced.name)
  }

  /** Of a full line, a job is dropped first, where `whenFull` says so. */
  #addToFull(job: Addition): Promise<unknown> {
    const { backend } = this
    const { maxLength = 0, drops } = backend.settings
    const add = async (): Promise<unknown> => {
      let dropped = ''
      for (;;) {
        const reply = await this.add(job, job.bytes, job.replaced.name)
        if (!Array.isArray(reply) || reply[0] !== LINE_FULL) return reply
        const [, resource, id] = reply as [number, string, string]
        // rule: add-that-dropped-is-not-refused
        if (id === '' || id === dropped) {
          throw new LineFullError(backend.name, resource, maxLength, backend.qualifiedName)
        }
        // Other producers may take the room that was made, and more may be there than was allowed.
        await backend.remove(id, false)
        dropped = id
      }
    }
    if (drops === undefined) return add()
    // rule: room-is-made-in-the-order-of-adds
    const added = this.#lastAdd.then(add)
    this.#lastAdd = added.catch(() => undefined)
    return added
  }

  protected override send(additions: readonly Addition[]): Promise<unknown> {
    const { backend } = this
    const [{ replaced, args }] = additions as readonly [Addition]
    const { within, maxWaitMs, drops, maxLength } = backend.settings
    const all = args.slice(0, replaced.keys)
    const jobs: LinePlacement[] = []
    for (const each of additions) {
      all.push(...each.args.slice(replaced.keys))
      jobs.push(each.placement)
    }
    const ours = { jobs, within, maxWaitMs, drops, maxLength }
    return backend.sendTo(backend.readyClient, replaced, all, ours)
  }
}

/** As BullMQ's `ErrorCode` has it. */
const LOCK_MISSING = -2

/** A job that ends. */
interface End {
  readonly id: string
  readonly token: string
  /** Of BullMQ, as JSON. */
  readonly opts: string
  /** What is not usual with it. */
  readonly more: Arguments
  /** What it returned, or failed with. */
  readonly value: string
  readonly visit: LineVisit | undefined
  finishedOn: number
}

export class Ends extends TurnGroup<End> {
  readonly #replaced: Replacement
  readonly #keys: readonly unknown[]

  /** @param keys what BullMQ's script is given as KEYS. Some are other ones for each job. */
  constructor(backend: LineBackend, replaced: Replacement, keys: readonly unknown[]) {
    // The server and its clients wait for each other where more leave together.
    super(backend, 8)
    this.#replaced = replaced
    this.#keys = keys
  }

  /** It leaves its lines as its visit says; without a word it just leaves them. */
  async end(
    job: Pick<Job, 'id' | 'opts'> & Partial<Pick<Job, 'attemptsStarted' | 'processedOn'>>,
    value: string | undefined,
    token: string,
    fetches: boolean,
    keepJobs: KeepJobs,
    { target, holds, lines, fields }: Arguments = {},
  ): ReturnType<bullmq.RedisQueueBackend['moveToCompleted']> {
    const { id = '' } = job
    const { backend } = this
    const { visits } = backend.settings
    // Asked once. BullMQ tries again after a broken connection: it is an ordinary ending then.
    const visit = visits?.ending(job)
    const keeps = !fetches || undefined
    const { back, runs, share, chargeMs }: Partial<Move> = visit?.move ?? {}
    // Named one by one: JSON of an object that is spread from others takes ten times as long.
    const more = { target, holds, lines, fields, keeps, back, runs, share, chargeMs }
    const opts = finishOptions(job.opts, keepJobs, backend.options)
    let end: End = { id, token, opts, more, value: value ?? 'null', visit, finishedOn: 0 }
    let next: LineVisit | undefined
    const askedAt = systemClock.now()
    try {
      let reply = await this.add(end, end.value.length, '')
      // rule: done-job-ends-without-its-lock
      if (reply === LOCK_MISSING && target === undefined) {
        const run = `${job.attemptsStarted} ${job.processedOn}`
        end = { ...end, more: { ...more, run } }
        reply = await this.add(end, end.value.length, '')
      }
      if (typeof reply === 'number' && reply < 0) {
        const command = 'moveToFinished'
        throw backend.finishedErrors({ code: reply, jobId: id, command, state: 'active' })
      }
      const asksNone = keeps === true || runs !== undefined
      next = backend.heard(reply, askedAt, !asksNone)
      const found = bullmq.raw2NextJobData(reply as unknown[])
      // rule: reply-that-asked-nothing-says-nothing
      const result = asksNone && found.length === 0 ? undefined : found
      return { result, finishedOn: end.finishedOn }
    } finally {
      visit?.settle?.(next)
    }
  }

  protected override send(ends: readonly End[]): Promise<unknown> {
    const { backend } = this
    const at = systemClock.wallNow()
    const { opts } = ends[0] as End
    const args = [...this.#keys, String(at)]
    const jobs: Arguments[] = []
    for (const end of ends) {
      const { id, token, more, opts: own, value, visit } = end
      end.finishedOn = at
      args.push(id, token)
      // Without a word the queue's Redis says of which lines it is.
      if (visit?.move === undefined) args.push('', '', '')
      else {
        const { job, lines, move } = visit
        args.push(String(job.timestamp), lines || '[]', String(Math.round(move.usedMs)))
      }
      args.push(value)
      jobs.push(own === opts ? more : { ...more, opts: JSON.parse(own) as unknown })
    }
    const ours = { jobs, opts: JSON.parse(opts) as unknown, steps: backend.settings.keepsSteps }
    const sent = backend.sendTo(backend.readyClient, this.#replaced, args, ours)
    for (const { visit } of ends) visit?.sent?.()
    return sent
  }
}

/**
 * The options of BullMQ's `moveToFinished`, of a job and of its worker, by their names in its text.
 * BullMQ's backend packs the same.
 */
function finishOptions(
  opts: JobsOptions,
  keepJobs: KeepJobs,
  { name, limiter, lockDuration, metrics }: LineBackend['options'],
): string {
  const { count, age, limit } = keepJobs as { count?: number; age?: number; limit?: number }
  // BullMQ's text takes null for undefined, and Lua has a value of its own for the null of JSON.
  return JSON.stringify({
    keepJobs: { count: count ?? undefined, age: age ?? undefined, limit: limit ?? undefined },
    attempts: opts.attempts ?? undefined,
    fpof: Boolean(opts.failParentOnFailure) || undefined,
    cpof: Boolean(opts.continueParentOnFailure) || undefined,
    idof: Boolean(opts.ignoreDependencyOnFailure) || undefined,
    rdof: Boolean(opts.removeDependencyOnFailure) || undefined,
    name: name ?? undefined,
    limiter: limiter ?? undefined,
    // Redis makes a text of a number for every command.
    lockDuration: String(lockDuration),
    maxMetricsSize: metrics?.maxDataPoints ? metrics.maxDataPoints : '',
  })
}
