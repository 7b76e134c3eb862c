/**
 * A BullMQ `Queue` whose jobs take their place in the line of their resource when they are added. A job that is not first is
 * added asleep, so that no worker ever starts it in vain; whoever leaves the line before it wakes it.
 *
 * The job joins the line first and is added second. A worker that is quicker than its producer would else have run it, and taken
 * it out of the line, before it joined: a place without a job, which holds up the line until somebody looks. So a job needs its id
 * before BullMQ would give it one. Asleep it has BullMQ's least urgent priority if it was given none, which its `opts` go on
 * showing; its `priority` is 0 again when it is woken.
 */
import { randomBytes } from 'node:crypto'
import { Queue, type Job, type JobsOptions, type QueueOptions } from 'bullmq'
import { systemClock } from '../clock.ts'
import { integerOption, nameOption, refuse } from '../options.ts'
import { openQueueConnection, type QueueConnection } from '../redis/queue-connection.ts'
import { Lines } from './lines.ts'
import { addedAsleep, asleepPriority, awakePriority, parkedMs } from './requeue.ts'
import { resourceOption, resourcesOf } from './resource.ts'
import type { Ticket } from './ticket.ts'

export interface LockedQueueOptions<Data = unknown> extends QueueOptions {
  /** Names what a job touches from its data; must agree with the `resource` of the workers. */
  readonly resource: (data: Data) => string | readonly string[]
  /** The `namespace` of the workers' Redlock. @defaultValue 'redlock' */
  readonly namespace?: string
  /** The `slots` of the workers. @defaultValue 1 */
  readonly slots?: number
  /**
   * The `maxWaitMs` of the workers: a job that waits behind others for so long is looked at, and fails, then, and not only
   * when its turn comes. @defaultValue no limit
   */
  readonly maxWaitMs?: number
}

interface NewJob<Data, Name extends string> {
  name: Name
  data: Data
  opts?: JobsOptions
}

/** A job on its way into the queue. */
interface Entry<Data, Name extends string> {
  readonly job: NewJob<Data, Name>
  /** Undefined for a job that takes its place when it is started. */
  readonly place?: Place
}

interface Place {
  readonly resources: readonly string[]
  readonly ticket: Ticket
  readonly asleep: boolean
  /** With which it wakes. */
  readonly priority: number
  /** Its id was given, and may be that of a job that was there before. */
  readonly named: boolean
}

export class LockedQueue<
  Data = unknown,
  Result = unknown,
  Name extends string = string,
> extends Queue<Data, Result, Name, Data, Result, Name> {
  readonly #resource: (data: Data) => string | readonly string[]
  readonly #redis: QueueConnection
  readonly #lines: Lines
  readonly #maxWaitMs: number
  /** Of the jobs whose place is taken before BullMQ would name them. */
  readonly #idPrefix = randomBytes(8).readBigUInt64BE().toString(36)
  #ids = 0

  /** @throws TypeError for a bad option. */
  constructor(name: string, options: LockedQueueOptions<Data>) {
    const {
      resource,
      namespace = 'redlock',
      slots = 1,
      maxWaitMs = Number.MAX_SAFE_INTEGER,
      ...queueOptions
    } = options
    nameOption('namespace', namespace)
    integerOption('slots', slots, 1, 1_000)
    integerOption('maxWaitMs', maxWaitMs, 1, Number.MAX_SAFE_INTEGER)
    resourceOption(resource)
    super(name, queueOptions)
    this.#resource = resource
    this.#redis = openQueueConnection(queueOptions.connection, 'producer')
    this.#lines = new Lines(this.#redis, this.getBackend(), { namespace, slots }, systemClock)
    this.#maxWaitMs = maxWaitMs
  }

  /** @throws ResourceError when `resource` names nothing for this data; TypeError for an unsafe `deduplication`. */
  override async add(name: Name, data: Data, opts?: JobsOptions): Promise<Job<Data, Result, Name>> {
    const entries = await this.#lineUp([{ name, data, ...(opts !== undefined && { opts }) }])
    const [job] = await this.#added(
      entries,
      super.add(name, data, entries[0]?.job.opts).then((one) => [one]),
    )
    return job as Job<Data, Result, Name>
  }

  override async addBulk(jobs: NewJob<Data, Name>[]): Promise<Job<Data, Result, Name>[]> {
    const entries = await this.#lineUp(jobs)
    return this.#added(entries, super.addBulk(entries.map(({ job }) => job)))
  }

  override async close(): Promise<void> {
    await super.close()
    this.#redis.close()
  }

  /** Every job takes its places, and learns whether it has to sleep. */
  async #lineUp(jobs: readonly NewJob<Data, Name>[]): Promise<readonly Entry<Data, Name>[]> {
    const resourcesByJob = jobs.map(({ data, opts }) => {
      refuseUnsafe(opts)
      return resourcesOf(() => this.#resource(data), opts?.jobId)
    })
    // All at once on one connection: they arrive, and take their times, in the order of the jobs.
    const entries = await Promise.all(
      jobs.map((job, index) => this.#place(job, resourcesByJob[index] ?? [])),
    )
    await this.#lines.watch(
      new Set(entries.flatMap(({ place }) => (place?.asleep === true ? place.resources : []))),
    )
    return entries
  }

  async #place(job: NewJob<Data, Name>, resources: readonly string[]): Promise<Entry<Data, Name>> {
    if (this.#isDueLater(job.opts)) return { job }
    const named = job.opts?.jobId !== undefined
    const jobId = job.opts?.jobId ?? this.#nextId()
    const ticket = { prefix: this.opts.prefix ?? 'bull', queue: this.name, jobId }
    const given = job.opts?.priority ?? this.jobsOpts.priority ?? 0
    const sleep = {
      delay: Math.min(parkedMs(systemClock.random()), this.#maxWaitMs),
      // One that may fail of waiting has to be looked at in time, however many others wait.
      priority: this.#maxWaitMs < Number.MAX_SAFE_INTEGER ? given : asleepPriority(given),
    }
    const priority = awakePriority({ priority: sleep.priority, opts: sleep })
    const asleep = !(await this.#lines.join(resources, ticket, priority))
    const opts = { ...job.opts, jobId, ...(asleep && sleep) }
    return { job: { ...job, opts }, place: { resources, ticket, asleep, priority, named } }
  }

  #nextId(): string {
    return `${this.#idPrefix}-${(this.#ids++).toString(36)}`
  }

  async #added(
    entries: readonly Entry<Data, Name>[],
    adding: Promise<Job<Data, Result, Name>[]>,
  ): Promise<Job<Data, Result, Name>[]> {
    const places = entries.map(({ place }) => place)
    let jobs: readonly Job<Data, Result, Name>[]
    try {
      jobs = await adding
    } catch (error) {
      // Perhaps it is there, perhaps not: whoever looks after lines that stand still finds out.
      const lines = new Set(places.flatMap((place) => place?.resources ?? []))
      await this.#lines.watch(lines).catch(() => undefined)
      throw error
    }
    await Promise.all(
      jobs.map(async (job, index) => {
        const place = places[index]
        if (place !== undefined) await this.#settle(place, job)
      }),
    )
    return [...jobs]
  }

  async #settle({ resources, ticket, asleep, priority, named }: Place, job: Job): Promise<void> {
    // BullMQ's deduplication gave it up for another one.
    if (job.id !== ticket.jobId) return this.#lines.leave(resources, ticket)
    const sleeps = named ? await this.#sleepsOrLeaves(resources, ticket, asleep) : asleep
    // Whoever left a line meanwhile could not wake a job that was not there yet.
    if (sleeps && (await this.#lines.isTurn(resources, ticket))) {
      await this.#lines.wake({ ticket, priority })
    }
  }

  /**
   * A job with a name may have been there before: asleep, because an earlier add was cut off after its first half, or finished,
   * and then it must not hold up the line.
   */
  async #sleepsOrLeaves(
    resources: readonly string[],
    ticket: Ticket,
    asleep: boolean,
  ): Promise<boolean> {
    const known = await this.getJob(ticket.jobId)
    if (known !== undefined && !known.finishedOn) return asleep || addedAsleep(known)
    await this.#lines.leave(resources, ticket)
    return false
  }

  /** A job that wants to run later takes its place when it is started: until then it holds nobody up. */
  #isDueLater(opts: JobsOptions | undefined): boolean {
    return (opts?.delay ?? this.jobsOpts.delay ?? 0) > 0
  }
}

function refuseUnsafe(opts: JobsOptions | undefined): void {
  const { deduplication } = opts ?? {}
  if (deduplication?.replace === true) {
    const why =
      'absent: it removes a job that waits for its turn, even one that has already done some of its steps'
    refuse('deduplication.replace', why, true)
  }
  if (deduplication?.keepLastIfActive === true) {
    const why = 'absent: BullMQ drops what is added while the first job waits for its turn'
    refuse('deduplication.keepLastIfActive', why, true)
  }
}
