/**
 * One line of tickets per resource: whose turn it is, and who is woken next.
 *
 * A job joins when it is added (LockedQueue) or first started, and leaves when it has *finished*: through requeues, retries
 * and crashes it keeps its place. Only the head asks the lock masters; the others are parked in BullMQ's delayed set and
 * marked. Whoever leaves a line wakes the new head if it is marked.
 *
 * Nothing here is needed for safety. The ways a wake-up could be lost, and what closes each:
 *
 *   the head leaves between my look and my parking   I look again after parking, and wake myself
 *   my waker finds me still active                   the same second look
 *   my waker dies before it wakes me                 the sweep finds a line whose head sleeps
 *   the head was removed, or its worker died late    the sweep finds a head that has finished or is gone
 *   the head was done before its producer joined     its worker says that it found no place, and the producer looks
 *   tickets were lost                                every start joins again; a parked job wakes by itself at last
 */
import type { IQueueBackend } from 'bullmq'
import { endOfTurn, sleep, type Clock } from '../clock.ts'
import { pairs, type QueueConnection } from '../redis/queue-connection.ts'
import type { LineCensus } from '../telemetry/worker-source.ts'
import { joinScript, lookScript, turnScript } from './line-scripts.ts'
import { decodeTicket, encodeTicket, type Ticket } from './ticket.ts'

/** Whose state a ticket's job is in, and how it is woken. */
export type Queues = Pick<IQueueBackend, 'forQueue'>

export interface LinesOptions {
  /** Keys begin with it, as on the masters; BullMQ's keys are never touched. */
  readonly namespace: string
  /** How many at the head of a line may run at once. */
  readonly slots: number
  /** Whether a job that is woken now would be the only one that waits in its queue. @defaultValue never */
  readonly nobodyElseWaits?: () => boolean
}

export interface LineMember {
  readonly ticket: Ticket
  readonly joinedAt: Date
  readonly parked: boolean
}

/** A job that is asleep in its line. */
export interface Sleeper {
  readonly ticket: Ticket
  readonly priority: number
}

/** A job's place in its lines. */
export interface Turn {
  /** It is its turn in all of them. */
  readonly isTurn: boolean
  /** Only one stands before it that may run: it may be about to leave. */
  readonly isNext?: boolean
  /** It has no place in one of them. */
  readonly isLost?: boolean
  /** Whose turn it is when this job leaves, where that can be told. */
  readonly following?: Sleeper
}

/** Longer than it takes a job to leave its line once it has finished. */
const LEAVING_MS = 200
/** Longer than it takes a producer to join the lines of the jobs that it has added. */
const OVERTAKEN_MS = 60_000

export class Lines {
  readonly #redis: QueueConnection
  readonly #queues: Queues
  readonly #namespace: string
  readonly #slots: number
  readonly #nobodyElseWaits: () => boolean
  readonly #clock: Clock
  readonly #overtookAt = new Map<string, number>()
  readonly #backends = new Map<string, ReturnType<Queues['forQueue']>>()

  constructor(
    redis: QueueConnection,
    queues: Queues,
    { namespace, slots, nobodyElseWaits = () => false }: LinesOptions,
    clock: Clock,
  ) {
    this.#redis = redis
    this.#queues = queues
    this.#namespace = namespace
    this.#slots = slots
    this.#nobodyElseWaits = nobodyElseWaits
    this.#clock = clock
  }

  /** How many are in the line. */
  async length(resource: string): Promise<number> {
    return Number(await this.#redis.command('ZCARD', this.#line(resource)))
  }

  /**
   * Takes a place at the end of each line, unless it has one; whether it is its turn in all. A job that sleeps gives its
   * priority, and is marked as in {@link Lines.park}. Without `ask` it is not told, which saves the server a look.
   */
  async join(
    resources: readonly string[],
    ticket: Ticket,
    {
      sleepers,
      ask = true,
    }: { readonly sleepers?: number | undefined; readonly ask?: boolean } = {},
  ): Promise<boolean> {
    const member = encodeTicket(ticket)
    const times = new Set<string>()
    let at = ''
    let first = true
    // One time for all lines, that of the first: two jobs that meet in several lines must stand in the same order in
    // each, or they would wait for each other.
    for (const resource of resources) {
      const mark = sleepers === undefined ? '' : markOf(sleepers, 0)
      const args = [member, at, mark, ask ? '1' : '']
      const reply = await this.#redis.run(joinScript, this.#keys(resource), args)
      const [time, before] = reply as [string, number]
      at = time
      times.add(time)
      if (before >= this.#slots) first = false
    }
    if (times.size === 1) return first
    // One of the lines had lost the ticket: the latest place counts in all.
    const latest = [...times].reduce((a, b) => (Number(a) > Number(b) ? a : b))
    for (const resource of resources) {
      await this.#redis.command('ZADD', this.#line(resource), 'XX', latest, member)
    }
    return this.isTurn(resources, ticket)
  }

  /** Whether it is this job's turn in every line. A job that has no place takes one at the end. */
  async isTurn(resources: readonly string[], ticket: Ticket): Promise<boolean> {
    const member = encodeTicket(ticket)
    for (const resource of resources) {
      const before = await this.#redis.command('ZRANK', this.#line(resource), member)
      if (before === null) {
        await this.#overtook(ticket)
        return this.join(resources, ticket)
      }
      if (Number(before) >= this.#slots) return false
    }
    return true
  }

  /** As {@link Lines.isTurn}, for a job that starts and cannot have slept: one command for one that is alone in its line. */
  async start(resources: readonly string[], ticket: Ticket): Promise<Turn> {
    const [resource, ...others] = resources
    if (resource === undefined || others.length > 0) {
      return { isTurn: await this.isTurn(resources, ticket) }
    }
    const reply = await this.#redis.command('ZRANGE', this.#line(resource), 0, this.#slots)
    const heads = reply as readonly string[]
    const before = heads.indexOf(encodeTicket(ticket))
    if (before < 0) {
      await this.#overtook(ticket)
      return { isTurn: await this.join(resources, ticket) } // It keeps a place further back.
    }
    const next = decodeTicket(heads[this.#slots] ?? '')
    if (before >= this.#slots || next === undefined) return { isTurn: before < this.#slots }
    const mark = await this.#redis.command('HGET', this.#parked(resource), encodeTicket(next))
    if (mark === null) return { isTurn: true }
    return { isTurn: true, following: { ticket: next, priority: priorityIn(mark as string) } }
  }

  /**
   * As {@link Lines.isTurn}, for a job that may have slept: it is up now, at its `start`-th start. One that has no place
   * does not take one. `done`, which stood before it, has finished and leaves.
   */
  async wakeUp(
    resources: readonly string[],
    ticket: Ticket,
    start: number,
    done?: Ticket,
  ): Promise<Turn> {
    if (done === undefined || this.#slots === 1) {
      return this.#wakeUp(resources, ticket, start, done)
    }
    // Where several may run, another one may have to be woken.
    const left = this.leave(resources, done, ticket)
    const [turn] = await Promise.all([this.#wakeUp(resources, ticket, start), left])
    return turn
  }

  async #wakeUp(
    resources: readonly string[],
    ticket: Ticket,
    start: number,
    done?: Ticket,
  ): Promise<Turn> {
    const member = encodeTicket(ticket)
    const leaving = done === undefined ? '' : encodeTicket(done)
    let following: Sleeper | undefined
    for (const resource of resources) {
      const args = [member, this.#slots, start, leaving]
      const reply = await this.#redis.run(turnScript, this.#keys(resource), args)
      const [before, name, mark] = reply as [number, string?, string?]
      if (before < 0) return { isTurn: false, isLost: true }
      if (before >= this.#slots) return { isTurn: false, isNext: before === this.#slots }
      const next = name === undefined ? undefined : decodeTicket(name)
      if (next !== undefined) following = { ticket: next, priority: priorityIn(mark) }
    }
    // Whoever is next in several lines need not be next in all of its own.
    return {
      isTurn: true,
      ...(resources.length === 1 && following !== undefined && { following }),
    }
  }

  /** Marks the job, at its `start`-th start, as asleep, so that whoever leaves before it wakes it. */
  async park(
    resources: readonly string[],
    { ticket, priority }: Sleeper,
    start: number,
  ): Promise<void> {
    const member = encodeTicket(ticket)
    for (const resource of resources) {
      const mark = markOf(priority, start)
      await this.#redis.command('HSET', this.#parked(resource), member, mark)
    }
    await this.watch(resources)
  }

  /** Puts lines on the list of those that `repair` looks at; each line in which somebody sleeps must be on it. */
  async watch(resources: Iterable<string>): Promise<void> {
    const entries = [...resources].flatMap((resource) => [this.#clock.wallNow(), resource])
    if (entries.length > 0) await this.#redis.command('ZADD', this.#index, 'NX', ...entries)
  }

  /**
   * Whether a worker was quicker than a producer of this queue lately: it started a job that had not joined its line yet. Whoever joined
   * for a job before asking may have joined after it had left.
   */
  async wasOvertaken(queue: Pick<Ticket, 'prefix' | 'queue'>): Promise<boolean> {
    return (await this.#redis.command('EXISTS', this.#overtaken(queue))) === 1
  }

  /** Gives up the job's places and wakes whoever stands first now. `up` is known to be up, and needs no waking. */
  async leave(resources: readonly string[], ticket: Ticket, up?: Ticket): Promise<void> {
    if (await this.#leave(resources, ticket, up)) return
    // Whoever joins for it from now on knows that it may be late; and who has done so meanwhile did it in vain.
    await this.#overtook(ticket)
    await this.#leave(resources, ticket, up)
  }

  /** Whether it had a place in all of them. */
  async #leave(resources: readonly string[], ticket: Ticket, up?: Ticket): Promise<boolean> {
    const member = encodeTicket(ticket)
    const awake = up === undefined ? undefined : encodeTicket(up)
    let left = true
    for (const resource of resources) {
      // Both are sent now, so that whoever asks next on this connection finds that the job has left.
      const [places, first] = (await Promise.all([
        this.#redis.command('ZREM', this.#line(resource), member),
        this.#redis.command('ZRANGE', this.#line(resource), 0, this.#slots - 1),
      ])) as [number, string[]]
      if (places === 0) left = false
      const heads = first.filter((head) => head !== awake)
      const marks =
        heads.length > 0 ? await this.#redis.command('HMGET', this.#parked(resource), ...heads) : []
      for (const [index, mark] of (marks as (string | null)[]).entries()) {
        const next = decodeTicket(heads[index] ?? '')
        if (next === undefined || mark === null) continue
        await this.wake({ ticket: next, priority: priorityIn(mark) })
      }
    }
    return left
  }

  /** Moves a parked job to the front of its queue; false for a job that is not parked (any more). */
  async wake({ ticket, priority }: Sleeper): Promise<boolean> {
    const backend = this.#backendOf(ticket)
    // `promote` puts it behind all that wait; with lifo it goes in front of its own priority. The second does not wait for the
    // first: where that fails it does nothing that matters.
    const toFront = (): Promise<void> => backend.changePriority(ticket.jobId, priority, true)
    const [promoted] = await Promise.allSettled([
      backend.promote(ticket.jobId),
      // Where nobody waits it is in front already, and only needs its priority back: not before the write that finishes the job ahead.
      this.#nobodyElseWaits() ? endOfTurn().then(toFront) : toFront(),
    ])
    // Refused, it is awake, or still parking (then it looks again itself), or gone (`repair` sees to it).
    return promoted.status === 'fulfilled'
  }

  /** The line from its head on. */
  async members(resource: string, limit: number): Promise<readonly LineMember[]> {
    const [places, parked] = await Promise.all([
      this.#redis.command('ZRANGE', this.#line(resource), 0, limit - 1, 'WITHSCORES'),
      this.#redis.command('HKEYS', this.#parked(resource)),
    ])
    const asleep = new Set(parked as string[])
    return pairs(places).flatMap(([member, micros]) => {
      const ticket = decodeTicket(member)
      const joinedAt = new Date(Number(micros) / 1000)
      return ticket === undefined ? [] : [{ ticket, joinedAt, parked: asleep.has(member) }]
    })
  }

  /**
   * Restarts a line that stands still: wakes a head that sleeps, takes out a head that has been finished or gone for a moment.
   * Looks at it again later while there is anybody left.
   */
  async repair(resource: string, againInMs: number, keepFailed: boolean): Promise<void> {
    const heads = pairs(await this.#redis.run(lookScript, this.#keys(resource), [this.#slots]))
    if (heads.length === 0) {
      await this.#redis.command('ZREM', this.#index, resource)
      // Somebody came, and put the line on the list on which it still was.
      if ((await this.length(resource)) > 0) await this.watch([resource])
      return
    }
    const again = this.#clock.wallNow() + againInMs
    await this.#redis.command('ZADD', this.#index, 'XX', again, resource)
    const over: Ticket[] = []
    for (const [head, mark] of heads) {
      const ticket = decodeTicket(head)
      if (ticket === undefined) {
        await this.#redis.command('ZREM', this.#line(resource), head)
      } else if (mark === '' || !(await this.wake({ ticket, priority: priorityIn(mark) }))) {
        if (await this.#isOver(ticket, keepFailed)) over.push(ticket)
      }
    }
    if (over.length === 0) return
    // One that has just finished leaves when its lease is released; were it taken out before, the next one would ask in vain.
    await sleep(this.#clock, LEAVING_MS)
    for (const ticket of over) {
      if (await this.#isOver(ticket, keepFailed)) await this.leave([resource], ticket)
    }
  }

  /** How many lines there are, and how many jobs sleep in the `limit` that were looked at longest ago. */
  async census(limit: number): Promise<LineCensus> {
    const [lines, resources] = await Promise.all([
      this.#redis.command('ZCARD', this.#index),
      this.#redis.command('ZRANGE', this.#index, 0, limit - 1),
    ])
    const asleep = await Promise.all(
      (resources as string[]).map((resource) =>
        this.#redis.command('HLEN', this.#parked(resource)),
      ),
    )
    const counts = asleep.map(Number)
    const parked = counts.reduce((sum, count) => sum + count, 0)
    return { lines: Number(lines), parked, longest: Math.max(0, ...counts) }
  }

  /** Lines that have been silent for a while, a bounded number of them. */
  async silent(limit: number): Promise<readonly string[]> {
    const now = this.#clock.wallNow()
    const reply = await this.#redis.command('ZRANGEBYSCORE', this.#index, 0, now, 'LIMIT', 0, limit)
    return reply as string[]
  }

  /** True for one caller per `forMs`, among all workers. */
  async mayRepair(forMs: number): Promise<boolean> {
    const key = `${this.#namespace}:sweeper`
    return (await this.#redis.command('SET', key, '1', 'NX', 'PX', Math.ceil(forMs))) === 'OK'
  }

  /** Says that a job was found without a place to all producers of its queue, before it leaves its line. */
  async #overtook(ticket: Ticket): Promise<void> {
    const key = this.#overtaken(ticket)
    const now = this.#clock.now()
    if (now - (this.#overtookAt.get(key) ?? -Infinity) < OVERTAKEN_MS / 2) return
    this.#overtookAt.set(key, now)
    await this.#redis.command('SET', key, '1', 'PX', OVERTAKEN_MS)
  }

  async #isOver(ticket: Ticket, keepFailed: boolean): Promise<boolean> {
    const state = await this.#backendOf(ticket).getState(ticket.jobId)
    return state === 'unknown' || state === 'completed' || (state === 'failed' && !keepFailed)
  }

  /** BullMQ makes a new one, with the names of all its keys, for every question. */
  #backendOf({ prefix, queue }: Ticket): ReturnType<Queues['forQueue']> {
    const name = `${prefix}:${queue}`
    let backend = this.#backends.get(name)
    if (backend === undefined) {
      backend = this.#queues.forQueue(queue, prefix)
      this.#backends.set(name, backend)
    }
    return backend
  }

  #keys(resource: string): readonly string[] {
    return [this.#line(resource), this.#parked(resource)]
  }

  #line(resource: string): string {
    return `${this.#namespace}:{${resource}}:line`
  }

  #parked(resource: string): string {
    return `${this.#namespace}:{${resource}}:parked`
  }

  #overtaken({ prefix, queue }: Pick<Ticket, 'prefix' | 'queue'>): string {
    return `${this.#namespace}:overtaken:${prefix}:${queue}`
  }

  get #index(): string {
    return `${this.#namespace}:lines`
  }
}

function markOf(priority: number, start: number): string {
  return `${priority}:${start}`
}

function priorityIn(mark: string | undefined): number {
  return Number(mark?.split(':')[0] ?? 0)
}
