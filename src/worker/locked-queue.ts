/**
 * A BullMQ `Queue` whose jobs take their places in the lines of their resources when they are
 * added. A job that is not first sleeps, so no worker starts it in vain; the job before it wakes
 * it. One script writes a job and its places. For the queue a sleeping job is a waiting one.
 */
import { Queue, type Job } from 'bullmq'
import { sleep, systemClock, withinMs } from '../clock.ts'
import { PlainWorkerError } from '../errors.ts'
import { LineBackend } from '../line/line-backend.ts'
import { cancelJobs, leaveLines, skipJob } from '../line/cancel.ts'
import type { CancelOptions, Cancelled } from '../line/cancel.ts'
import { LineLimits, type LimitOptions, type Rate, type ResourceLimits } from '../line/limits.ts'
import { hasClosedOrIsSilent } from '../line/queue-connection.ts'
import { checkedTenant, rateText, shareText, type LinePlacement } from '../line/placement.ts'
import { positionOf, type LinePosition } from '../line/position.ts'
import { resourcesOf, touchedName } from '../names.ts'
import { checkedSlots } from '../slots.ts'
import { compareSettings, type SharedSettings } from '../line/settings-check.ts'
import { standstillOf } from './standstill.ts'
import { queueOptions, type LockedQueueOptions } from './locked-queue-options.ts'

export type { LockedQueueOptions } from './locked-queue-options.ts'

/** A worker connects and says what it has in this time. */
const START_MS = 1_000
/** Who are connected is not known of a node that takes longer to say so. */
const CLIENTS_LIMIT_MS = 1_000
/** A queue whose Redis is away closes without an answer. */
const COMPARE_LIMIT_MS = 500

/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
/**
 * A BullMQ `Queue` for `LockedWorker`s, whose jobs wait in the lines of their resources. Its
 * `error` event reports workers with other settings.
 *
 * `add` rejects with a ResourceError when `resource` names nothing for the data, with a
 * LineFullError where a line is full, and with a TypeError for a bad rate, tenant, weight or number
 * of slots. `addBulk` then adds none of its jobs; but where the line of a job is full, the others
 * are added.
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
  readonly #lines: LineBackend
  readonly #limits: LineLimits
  readonly #settings: SharedSettings
  /** Undefined until the first job, and after a look that failed. */
  #comparing: Promise<void> | undefined

  /** @throws TypeError for a bad option, and for a release of BullMQ that is not supported. */
  constructor(name: string, options: LockedQueueOptions<Data>) {
    const { lines, bullmq } = queueOptions(options)
    const { resource, slots, rate, tenant, weight } = options
    const hasShares = tenant !== undefined || weight !== undefined
    const placement = (json = '{}', jobId: string | undefined): LinePlacement => {
      this.#comparing ??= this.#compareSettings()
      const data = JSON.parse(json) as Data
      const resources = resourcesOf(resource, data, jobId)
      const ofJob = rate?.(data)
      return {
        lines: JSON.stringify(resources),
        share: hasShares
          ? shareText(
              tenant ? checkedTenant(tenant(data)) : resources.join(),
              weight ? weight(data) : 1,
            )
          : undefined,
        slots: typeof slots === 'function' ? JSON.stringify(checkedSlots(slots(data))) : undefined,
        rate: ofJob === undefined ? undefined : rateText(ofJob),
      }
    }
    super(name, bullmq, LineBackend.factory({ ...lines, placement }))
    this.#lines = LineBackend.of(this)
    this.#limits = new LineLimits(this.#lines)
    this.#settings = { by: 'LockedQueue', order: 'strict', slots: lines.slots }
  }

  /** As BullMQ's. It rejects as `add` does where the data of the template name nothing. */
  override async upsertJobScheduler(
    ...[id, repeat, template]: Parameters<
      Queue<Data, Result, Name, Data, Result, Name>['upsertJobScheduler']
    >
  ): Promise<Job<Data, Result, Name>> {
    // rule: template-names-its-resource
    this.#lines.settings.placement?.(JSON.stringify(template?.data), `repeat:${id}`)
    return super.upsertJobScheduler(id, repeat, template)
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
    await this.#limits.set(resource, 'paused', true, options)
  }

  /** Ends a pause, and the time for which a `lease.rateLimit()` has put a resource to sleep. */
  async resumeResource(resource: string): Promise<void> {
    await this.#limits.end(resource, 'asleep', 'paused')
  }

  /**
   * Sets how many jobs of a resource run at once, in place of the option `slots`. With more slots,
   * jobs start at once; with fewer, running jobs continue.
   */
  async setSlots(resource: string, slots: number, options: LimitOptions = {}): Promise<void> {
    await this.#limits.set(resource, 'slots', slots, options)
  }

  /** The option `slots` counts again. */
  async resetSlots(resource: string): Promise<void> {
    await this.#limits.end(resource, 'slots')
  }

  /** Sets the rate of a resource, in place of those that its jobs were added with. */
  async setRate(resource: string, rate: Rate, options: LimitOptions = {}): Promise<void> {
    await this.#limits.set(resource, 'rate', rate, options)
  }

  /** The rates that the jobs were added with count again. */
  async resetRate(resource: string): Promise<void> {
    await this.#limits.end(resource, 'rate')
  }

  /** What is set for a resource now. */
  async getLimits(resource: string): Promise<ResourceLimits> {
    const limits = await this.#limits.get(touchedName(resource))
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
   * resource before, if they must not start. Where the server refuses one, `cancel` rejects, and
   * others may be cancelled: call it again.
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
      // Without the right to `CLIENT LIST`, and where a node of the cluster hangs, it is unknown
      // whether there are workers.
      // rule: position-waits-for-no-other-node
      const workers = withinMs(systemClock, CLIENTS_LIMIT_MS, this.getWorkersCount()).catch(() => 1)
      return standstillOf(this.name, await this.isPaused(), (await workers) !== 0) !== undefined
    })
  }

  /**
   * As BullMQ's, but it ends also when the queue's Redis has sent nothing for 5 s. What is known of
   * processes with other settings is emitted before.
   */
  override async close(): Promise<void> {
    if (this.#comparing !== undefined) {
      await withinMs(systemClock, COMPARE_LIMIT_MS, this.#comparing)
    }
    await hasClosedOrIsSilent(super.close(), this.#lines)
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
