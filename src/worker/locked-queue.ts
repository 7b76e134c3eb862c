/**
 * A BullMQ `Queue` whose jobs take their place in the line of their resource when they are added. A job that is not first is
 * added asleep, so that no worker ever starts it in vain; whoever leaves the line before it wakes it.
 *
 * The job is added first and joins the line second: between the two it is only a sleeper that wakes by itself at last,
 * while a place without a job would hold up the line. Asleep it has BullMQ's least urgent priority if it was given none, which its
 * `opts` go on showing; its `priority` is 0 again when it is woken.
 */
import { Queue, type Job, type JobsOptions, type QueueOptions } from 'bullmq'
import { systemClock } from '../clock.ts'
import { integerOption, nameOption, objectOption, refuse } from '../options.ts'
import { openQueueConnection, type QueueConnection } from '../redis/queue-connection.ts'
import { Agreement } from './agreement.ts'
import { Lines } from './lines.ts'
import { addedAsleep, asleepPriority, awakePriority, parkedMs } from './requeue.ts'
import { resourceOption, resourcesOf } from './resource.ts'
import { ticketOf, type Ticket } from './ticket.ts'

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
  readonly resources: readonly string[] | undefined
  readonly asleep: boolean
}

/** For `LockedWorker`s with `order: 'strict'`; its `error` event reports those with other settings (`SettingsDifferError`). */
export class LockedQueue<
  Data = unknown,
  Result = unknown,
  Name extends string = string,
> extends Queue<Data, Result, Name, Data, Result, Name> {
  readonly #resource: (data: Data) => string | readonly string[]
  readonly #redis: QueueConnection
  readonly #lines: Lines
  readonly #agreement: Agreement
  readonly #slots: number
  readonly #maxWaitMs: number

  /** @throws TypeError for a bad option. */
  constructor(name: string, options: LockedQueueOptions<Data>) {
    objectOption(options, 'an object with `connection` and `resource`')
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
    const terms = { by: 'LockedQueue', namespace, order: 'strict', slots } as const
    const itself = { prefix: queueOptions.prefix ?? 'bull', queue: name }
    this.#agreement = new Agreement(this.#redis, itself, terms, systemClock)
    this.#slots = slots
    this.#maxWaitMs = maxWaitMs
  }

  /** @throws ResourceError when `resource` names nothing for this data; TypeError for an unsafe `deduplication`. */
  override async add(name: Name, data: Data, opts?: JobsOptions): Promise<Job<Data, Result, Name>> {
    const [entry] = await this.#place([{ name, data, ...(opts !== undefined && { opts }) }])
    const job = await super.add(name, data, entry?.job.opts)
    await this.#join([job], entry === undefined ? [] : [entry])
    return job
  }

  override async addBulk(jobs: NewJob<Data, Name>[]): Promise<Job<Data, Result, Name>[]> {
    const entries = await this.#place(jobs)
    const added = await super.addBulk(entries.map(({ job }) => job))
    await this.#join(added, entries)
    return added
  }

  override async close(): Promise<void> {
    await super.close()
    this.#redis.close()
  }

  /** Decides for each job whether somebody stands before it, in the lines or in the same batch. */
  async #place(jobs: readonly NewJob<Data, Name>[]): Promise<readonly Entry<Data, Name>[]> {
    const named = jobs.map(({ data, opts }) => {
      refuseUnsafe(opts)
      const resources = resourcesOf(() => this.#resource(data), opts?.jobId)
      return this.#isDueLater(opts) ? undefined : resources
    })
    const ahead = new Map<string, number>()
    void this.#agree()
    await Promise.all(
      [...new Set(named.flat())].map(async (resource) => {
        if (resource !== undefined) ahead.set(resource, await this.#lines.length(resource))
      }),
    )
    return jobs.map((job, index) => {
      const resources = named[index]
      if (resources === undefined) return { job, resources, asleep: false }
      const asleep = resources.some((resource) => (ahead.get(resource) ?? 0) >= this.#slots)
      for (const resource of resources) ahead.set(resource, (ahead.get(resource) ?? 0) + 1)
      if (!asleep) return { job, resources, asleep }
      const delay = Math.min(parkedMs(systemClock.random()), this.#maxWaitMs)
      const given = job.opts?.priority ?? this.jobsOpts.priority ?? 0
      // One that may fail of waiting has to be looked at in time, however many others wait.
      const priority = this.#maxWaitMs < Number.MAX_SAFE_INTEGER ? given : asleepPriority(given)
      const { name, data, opts } = job
      return { job: { name, data, opts: { ...opts, delay, priority } }, resources, asleep }
    })
  }

  /** Reports by its `error` event, whatever becomes of the jobs. */
  async #agree(): Promise<void> {
    try {
      for (const difference of await this.#agreement.exchange()) this.emit('error', difference)
    } catch {
      // The queue's Redis is away: the jobs' own commands say so.
    }
  }

  async #join(
    jobs: readonly Job<Data, Result, Name>[],
    entries: readonly Entry<Data, Name>[],
  ): Promise<void> {
    const joining = entries.flatMap(({ resources, asleep }, index) => {
      const job = jobs[index]
      if (job === undefined || resources === undefined) return []
      const named = entries[index]?.job.opts?.jobId !== undefined
      return [{ ticket: ticketOf(job), priority: awakePriority(job), resources, asleep, named }]
    })
    const [one] = joining
    if (one === undefined) return
    const lines = this.#lines
    // All at once on one connection: they arrive, and take their times, in the order of the jobs.
    const first = await Promise.all(
      joining.map(({ resources, ticket, priority, asleep, named }) =>
        lines.join(resources, ticket, {
          sleepers: asleep ? priority : undefined,
          ask: asleep || named,
        }),
      ),
    )
    const sleepers = new Set(joining.flatMap(({ resources, asleep }) => (asleep ? resources : [])))
    const [overtaken] = await Promise.all([lines.wasOvertaken(one.ticket), lines.watch(sleepers)])
    await Promise.all(
      joining.map(async ({ resources, ticket, priority, asleep, named }, index) => {
        const unsure = named || overtaken
        if (first[index] !== true || !(asleep || unsure)) return
        const sleeps = unsure ? await this.#sleepsOrLeaves(resources, ticket, asleep) : asleep
        // A line was left while the jobs were being added. Only now does everybody stand in all of its lines.
        if (sleeps && (await lines.isTurn(resources, ticket))) {
          await lines.wake({ ticket, priority })
        }
      }),
    )
  }

  /**
   * A job with a name may have been there before: asleep, because an earlier add was cut off after its first half, or finished,
   * and then it must not hold up the line. So may any job be finished whose worker was quicker than its producer.
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
