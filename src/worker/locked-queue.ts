/**
 * A BullMQ `Queue` whose jobs take their places in the lines of their resources when they are
 * added. A job that is not first sleeps, so no worker starts it in vain; the job before it wakes
 * it. A job and its places are written by one script. The queue counts and lists a sleeping job as
 * waiting.
 */
import { Queue, type Job, type JobsOptions, type QueueOptions } from 'bullmq'
import { sleep, systemClock, withinMs } from '../clock.ts'
import { PlainWorkerError } from '../errors.ts'
import { choiceOption, integerOption, knownOptions, objectOption, refuse } from '../options.ts'
import { checkedSlots, MAX_SLOTS, type Slots } from '../slots.ts'
import { LineBackend, type LinePlacement } from '../line/line-backend.ts'
import { cancelJobs, type CancelOptions, type Cancelled } from '../line/cancel.ts'
import { leaveLines, skipJob } from '../line/leave-lines.ts'
import {
  checkedRate,
  LineLimits,
  rateText,
  type JobRate,
  type LimitOptions,
  type Rate,
  type ResourceLimits,
} from '../line/limits.ts'
import { positionOf, type LinePosition } from '../line/position.ts'
import { compareSettings, type SharedSettings } from '../line/settings-check.ts'
import { checkedTenant, checkedWeight, shareText, type Share } from '../line/shares.ts'
import { resourceName, resourceOption, resourcesOf } from '../line/resource.ts'
import { bullmqOptions } from './bullmq-options.ts'
import { standstillOf } from './inspection.ts'

/** BullMQ's queue options, and the lines of its jobs. */
/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface LockedQueueOptions<Data = any> extends QueueOptions {
  /** Names what a job touches from its data; the same as the `resource` of the workers. */
  readonly resource: (data: Data) => string | readonly string[]
  /**
   * How many jobs of a resource run at once: the `slots` of the workers, or a function of the data.
   * It returns a number, or a map by the names of the job's resources. With a function the workers
   * need no `slots`: a job keeps what it was added with, and the first job of a line says how many
   * run. A job of several resources takes one slot of each. @defaultValue 1
   */
  readonly slots?: number | ((data: Data) => Slots)
  /**
   * The order of the jobs of one resource. `added`: that of adding, whatever their priority.
   * `priority`: as BullMQ orders waiting jobs, by `priority` and `lifo`. A job that was started
   * keeps its place in either. @defaultValue 'added'
   */
  readonly within?: 'added' | 'priority'
  /**
   * How many unfinished jobs a line has at most: running, waiting and asleep ones, and those that
   * will be tried again. Jobs with a delay, and jobs of flows, are counted and not refused.
   * @defaultValue any number
   */
  readonly maxLength?: number
  /**
   * What happens to an add to a full line. `refuse`: it throws a LineFullError. `drop-oldest`,
   * `drop-newest`: the oldest or the newest sleeping job of the line is removed for it. Where none
   * sleeps, it is refused. @defaultValue 'refuse'
   */
  readonly whenFull?: 'refuse' | 'drop-oldest' | 'drop-newest'
  /**
   * The `maxWaitMs` of the workers: a job that waits behind others for this long is looked at
   * within about a second, and fails then. A job whose turn comes before that look runs.
   * @defaultValue no limit
   */
  readonly maxWaitMs?: number
  /**
   * How many jobs of a resource may start in a time, and what this one counts: for a third party
   * that allows 100 calls a second, `() => ({ limit: 100, perMs: 1_000, burst: 10 })`. A job keeps
   * the rate that it was added with. @defaultValue no rate
   */
  readonly rate?: (data: Data) => JobRate | undefined
  /**
   * Whose job it is. Tenants take turns, and the lines of one tenant take turns among themselves.
   * So a tenant with many resources gets no more work done than one with few, while all are busy. A
   * job keeps the tenant that it was added with. @defaultValue each resource is a tenant
   */
  readonly tenant?: (data: Data) => string
  /**
   * The share of a job's tenant while all are busy: with 2, it gets twice the work done of one with
   * 1. From 0.01 to 1,000. Without `tenant` it is the share of the resource. @defaultValue 1
   */
  readonly weight?: (data: Data) => number
}

const DROPS = { refuse: undefined, 'drop-oldest': 'oldest', 'drop-newest': 'newest' } as const

/** False: BullMQ's. */
const KNOWN: Readonly<Record<keyof LockedQueueOptions | keyof QueueOptions, boolean>> = {
  ...{ resource: true, slots: true, within: true, maxWaitMs: true, rate: true, tenant: true },
  ...{ weight: true, maxLength: true, whenFull: true },
  ...{ connection: false, prefix: false, defaultJobOptions: false, streams: false },
  ...{ telemetry: false, blockingConnection: false, skipMetasUpdate: false, settings: false },
  ...{ skipVersionCheck: false, skipWaitingForReady: false },
}

/** A worker connects and says what it has in this time. */
const START_MS = 1_000
/** A queue whose Redis is away closes without an answer. */
const COMPARE_LIMIT_MS = 500

interface JobToAdd<Data, Name extends string> {
  name: Name
  data: Data
  opts?: JobsOptions
}

/**
 * A BullMQ `Queue` for `LockedWorker`s, whose jobs wait in the lines of their resources. Its
 * `error` event reports workers with other settings.
 * @example
 * ```ts
 * const queue = new LockedQueue('invoices', {
 *   connection,
 *   resource: (data) => `customer:${data.customerId}`,
 * })
 * await queue.add('invoice', { customerId: 42, amount: 10 }, { attempts: 3 })
 * console.log(await queue.position('1'))
 * ```
 */
export class LockedQueue<Data = any, Result = any, Name extends string = string> extends Queue<
  Data,
  Result,
  Name,
  Data,
  Result,
  Name
> {
  readonly #placement: (data: unknown, jobId?: string) => LinePlacement
  readonly #lines: LineBackend
  readonly #limits: LineLimits
  readonly #settings: SharedSettings
  /** Undefined until the first job, and after a look that failed. */
  #comparing: Promise<void> | undefined

  /** @throws TypeError for a bad option, and for a release of BullMQ that is not supported. */
  constructor(name: string, options: LockedQueueOptions<Data>) {
    objectOption(options, 'an object with `connection` and `resource`')
    if ('redlock' in options) {
      refuse('redlock', 'absent: a LockedQueue takes no locks', true)
    }
    knownOptions(options, KNOWN)
    const { resource, slots = 1, within = 'added' } = options
    const { maxWaitMs, rate, tenant, weight, maxLength, whenFull = 'refuse' } = options
    const base = typeof slots === 'function' ? 1 : integerOption('slots', slots, 1, MAX_SLOTS)
    choiceOption('within', within, ['added', 'priority'])
    for (const [option, value] of Object.entries({ maxWaitMs, maxLength })) {
      if (value !== undefined) integerOption(option, value, 1, Number.MAX_SAFE_INTEGER)
    }
    choiceOption('whenFull', whenFull, ['refuse', 'drop-oldest', 'drop-newest'])
    if (whenFull !== 'refuse' && maxLength === undefined) {
      refuse('maxLength', 'a number, because `whenFull` is set', maxLength)
    }
    // The first of a line is then the most urgent one, and not the oldest.
    if (whenFull !== 'refuse' && within === 'priority') {
      refuse('whenFull', "'refuse' with `within: 'priority'`", whenFull)
    }
    resourceOption(resource)
    for (const [option, value] of Object.entries({ rate, tenant, weight })) {
      if (value === undefined || typeof value === 'function') continue
      const example =
        option === 'rate' ? '() => ({ limit: 10, perMs: 1_000 })' : '({ customer }) => customer'
      refuse(option, `a function of the data, such as ${example}`, value)
    }
    const hasShares = tenant !== undefined || weight !== undefined
    const shareOf = (data: Data, resources: readonly string[]): Share => ({
      tenant: tenant === undefined ? resources.join() : checkedTenant(tenant(data)),
      weight: weight === undefined ? 1 : checkedWeight(weight(data)),
    })
    const placement = (given: unknown, jobId?: string): LinePlacement => {
      const data = given as Data
      const resources = resourcesOf(resource, data, jobId)
      const ofJob = rate?.(data)
      return {
        resources,
        share: hasShares ? shareText(shareOf(data, resources)) : undefined,
        slots: typeof slots === 'function' ? JSON.stringify(checkedSlots(slots(data))) : undefined,
        rate: ofJob && rateText(checkedRate(ofJob, 'rate')),
      }
    }
    const factory = LineBackend.factory({
      ...{ slots: base, within, maxWaitMs: maxWaitMs ?? Infinity, onFailure: 'continue' },
      ...{ maxLength, drops: DROPS[whenFull], placement },
    })
    super(name, bullmqOptions(options, KNOWN) as unknown as QueueOptions, factory)
    this.#placement = placement
    this.#lines = LineBackend.of(this)
    this.#limits = new LineLimits(this.#lines)
    this.#settings = { by: 'LockedQueue', order: 'strict', slots: base }
  }

  /**
   * @throws ResourceError when `resource` names nothing for this data; LineFullError where its line
   * is full; TypeError for a bad rate, tenant, weight or number of slots.
   */
  override async add(name: Name, data: Data, opts?: JobsOptions): Promise<Job<Data, Result, Name>> {
    this.#check(data, opts)
    return super.add(name, data, opts)
  }

  /**
   * @throws ResourceError when `resource` names nothing for a job: then none is added;
   * LineFullError where the line of a job is full: the others are added.
   */
  override async addBulk(jobs: JobToAdd<Data, Name>[]): Promise<Job<Data, Result, Name>[]> {
    for (const { data, opts } of jobs) this.#check(data, opts)
    return super.addBulk(jobs)
  }

  /**
   * Lets the line of a failed job go on, of workers with `onFailure: 'block'`. The job stays among
   * the failed ones. A retry puts it at the end of its line.
   * @returns false where the job holds no line.
   */
  async skip(jobId: string): Promise<boolean> {
    return skipJob(this.#lines, jobId)
  }

  /**
   * Starts no job of a resource until it is resumed or `until` has come. Running jobs continue. The
   * resource need not have jobs yet. A second call replaces the first.
   * @example
   * ```ts
   * const inOneHour = Date.now() + 3_600_000
   * await queue.pauseResource('customer:42', { reason: 'migration', until: inOneHour })
   * ```
   */
  async pauseResource(resource: string, options: LimitOptions = {}): Promise<void> {
    await this.#limits.pause(resource, options)
  }

  /** Ends a pause, and the time for which a `lease.rateLimit()` has put a resource to sleep. */
  async resumeResource(resource: string): Promise<void> {
    await this.#limits.resume(resource)
  }

  /**
   * Sets how many jobs of a resource run at once, in place of the option `slots`. With more slots,
   * jobs start at once; with fewer, running jobs continue.
   */
  async setSlots(resource: string, slots: number, options: LimitOptions = {}): Promise<void> {
    await this.#limits.setSlots(resource, slots, options)
  }

  /** The option `slots` counts again. */
  async resetSlots(resource: string): Promise<void> {
    await this.#limits.resetSlots(resource)
  }

  /** Sets the rate of a resource, in place of those that its jobs were added with. */
  async setRate(resource: string, rate: Rate, options: LimitOptions = {}): Promise<void> {
    await this.#limits.setRate(resource, rate, options)
  }

  /** The rates that the jobs were added with count again. */
  async resetRate(resource: string): Promise<void> {
    await this.#limits.resetRate(resource)
  }

  /** What is set for a resource now. */
  async getLimits(resource: string): Promise<ResourceLimits> {
    const limits = await this.#limits.get(resourceName(resource))
    return limits.get(resource) ?? {}
  }

  /** Every resource for which something is set. */
  async getAllLimits(): Promise<ReadonlyMap<string, ResourceLimits>> {
    return this.#limits.get()
  }

  /**
   * Cancels a job, or all jobs of this queue in the line of a resource, up to 10,000. A job that
   * waits fails with the reason. The signal of one that runs aborts, in whatever process, and it
   * fails without another attempt. Jobs that are added afterwards are not cancelled: pause the
   * resource before, if they must not start.
   * @returns what became of each within `timeoutMs`.
   * @example
   * ```ts
   * await queue.cancel({ resource: 'customer:42' }, { reason: 'runaway import' })
   * ```
   */
  async cancel(
    target: string | { readonly resource: string },
    options: CancelOptions = {},
  ): Promise<readonly Cancelled[]> {
    return cancelJobs(this, target, options)
  }

  /**
   * For the way back to plain workers: every job that waits for its turn becomes an ordinary
   * waiting job. No plain worker would wake it. Call it after the last `LockedWorker` has stopped.
   * @returns how many jobs left their lines.
   */
  async leaveLines(): Promise<number> {
    return leaveLines(this.#lines)
  }

  /**
   * A job's place in its line, the jobs before it, and an estimate of its wait.
   * @returns undefined for a job that has ended, does not exist, or has no place yet.
   */
  async position(jobId: string): Promise<LinePosition | undefined> {
    return positionOf(this.#lines, jobId, async () => {
      // Without the right to `CLIENT LIST` it is unknown whether there are workers.
      const workers = this.getWorkersCount().catch(() => 1)
      return standstillOf(this.name, await this.isPaused(), (await workers) > 0) !== undefined
    })
  }

  /** As BullMQ's. What is known of processes with other settings is emitted before. */
  override async close(): Promise<void> {
    if (this.#comparing !== undefined) {
      await withinMs(systemClock, COMPARE_LIMIT_MS, this.#comparing)
    }
    return super.close()
  }

  /** A plain `Worker` would run the first job of each line and wake none behind it. */
  async #findPlainWorkers(): Promise<void> {
    if ((await this.getWorkersCount()) === 0) return
    await sleep(systemClock, START_MS) // A LockedWorker that starts says so in this time.
    if (this.closing || (await this.#compare()).hadWorker) return
    this.emit('error', new PlainWorkerError(this.name))
  }

  #compare(): ReturnType<typeof compareSettings> {
    return compareSettings(this.#lines, this.name, this.#settings)
  }

  /** Before BullMQ sends anything. */
  #check(data: Data, opts: JobsOptions | undefined): void {
    this.#placement(data, opts?.jobId)
    this.#comparing ??= this.#compareSettings()
  }

  async #compareSettings(): Promise<void> {
    try {
      const { differences, hadWorker } = await this.#compare()
      for (const difference of differences) this.emit('error', difference)
      if (!hadWorker) void this.#findPlainWorkers().catch(() => undefined)
    } catch {
      this.#comparing = undefined // The queue's Redis is away: the jobs' own commands say so.
    }
  }
}
