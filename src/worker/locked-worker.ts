/**
 * A BullMQ `Worker` whose jobs run under a lease. Everything BullMQ's worker does, it does; on top come the lease,
 * crash recovery that is derived from the lease's length, and a start that waits for the lock masters.
 */
import { Worker, type Job, type WorkerListener, type WorkerOptions } from 'bullmq'
import { jitteredMs } from '../backoff.ts'
import { sleep, systemClock } from '../clock.ts'
import { QueueUnreachableError, ShutdownError, type LeaseLostError } from '../errors.ts'
import type { LockService } from '../lock/lock-service.ts'
import { integerOption } from '../options.ts'
import { EventLog } from '../event-log.ts'
import { defaultLogger } from '../logger.ts'
import { JobTelemetry } from '../telemetry/job-telemetry.ts'
import { Breaker } from './breaker.ts'
import { IdleWait } from './idle-wait.ts'
import type { JobRuns, Services } from './job-runs.ts'
import { jobRuns, type LeasedProcessor } from './locked-processor.ts'
import { separate, type LockedWorkerOptions } from './locked-worker-options.ts'
import { inspectResource, whyWaits, type ResourceInspection } from './inspection.ts'
import { QueueSide } from './queue-side.ts'
import type { Requeue } from './requeue.ts'
import type { ResourceOf } from './resource.ts'

export interface LockedWorkerListener<
  Data = unknown,
  Result = unknown,
  Name extends string = string,
> extends WorkerListener<Data, Result, Name> {
  /** A job may not run yet and went back to the queue; no attempt was used. */
  requeued: (job: Job<Data>, requeue: Requeue) => void
  /** A job's lease was lost while it ran. Its result or failure stands as the processor reported it. */
  leaseLost: (job: Job<Data>, error: LeaseLostError) => void
  /** `open`: the lock masters have no quorum and the worker fetches nothing; `closed`: it goes on. */
  breaker: (state: 'open' | 'closed') => void
}

export interface DrainOptions {
  /** How long running jobs may go on. @defaultValue 30 000 */
  readonly timeoutMs?: number
}

/** When the masters are not ready at the start, they are tried again this often. */
const READY_RETRY_MS = { min: 500, max: 5_000 }
/** How long the queue's Redis may stay silent at the start before that is reported. */
const QUEUE_PATIENCE_MS = 5_000
/** A job survives this many crashed or frozen workers; BullMQ's default is 1, and a deploy may be two. */
const MAX_STALLED_COUNT = 3
/** Jobs need not sleep long in an outage: the breaker keeps them from being started in vain. */
const OUTAGE_SLEEP_MS = 1_000
/** How long jobs that are told to stop may take for it. */
const DRAIN_GRACE_MS = 2_000
const IDLE_LOOK_MS = 10

export class LockedWorker<
  Data = unknown,
  Result = unknown,
  Name extends string = string,
> extends Worker<Data, Result, Name> {
  readonly #redlock: LockService
  readonly #resource: ResourceOf<Data>
  readonly #closing = new AbortController()
  readonly #runs: JobRuns<Data, Result, Name>
  readonly #side: QueueSide<Data>
  readonly #breaker: Breaker
  readonly #telemetry: JobTelemetry
  #pausedByUser = false
  #starting: Promise<void> | undefined

  /**
   * @throws TypeError for a bad option, among them `maxStartedAttempts`: a job that waits for its resource is started
   * several times, so that option would fail jobs that did nothing wrong.
   */
  constructor(
    name: string,
    processor: LeasedProcessor<Data, Result, Name>,
    options: LockedWorkerOptions<Data>,
  ) {
    const { ours, bullmq } = separate(options)
    const seat: { services: Services } = { services: {} }
    const { redlock, order, checkpoints, dedupe } = ours
    const { logger = defaultLogger() } = options
    const log = new EventLog(logger)
    const telemetry = new JobTelemetry()
    const given = { ...options, logger }
    const extras: Parameters<typeof jobRuns<Data, Result, Name>>[3] = {
      dedupe,
      checkpoints,
      maxUnreachableMs: OUTAGE_SLEEP_MS,
      services: () => seat.services,
      onRequeued: (job, why) => {
        if (why.status === 'unreachable') this.#breaker.trip()
        this.#emit('requeued', job, why)
      },
      onLeaseLost: (job, error) => {
        this.#emit('leaseLost', job, error)
      },
    }
    const runs = jobRuns<Data, Result, Name>(redlock, given, processor, extras, telemetry)
    // Two parameters on purpose: for a third one BullMQ would make a signal for every job.
    super(name, (job, token) => runs.run(job, token), {
      ...recovery(options.leaseMs ?? redlock.leaseMs),
      ...bullmq,
      autorun: false,
    })
    const idle = new IdleWait(this.getBackend(), systemClock)
    this.#redlock = redlock
    this.#resource = options.resource
    this.#runs = runs
    this.#side = new QueueSide<Data>({
      ...ours,
      connection: options.connection,
      clock: systemClock,
      queue: { prefix: bullmq.prefix ?? 'bull', queue: name },
      backend: this.getBackend(),
      nobodyElseWaits: () => idle.nobodyElseWaits,
      namespace: redlock.namespace,
      endingOf: (job) => runs.endingOf(job),
      onError: (error) => {
        this.emit('error', error as Error)
      },
    })
    const { lines, kept, oneWrite } = this.#side
    seat.services = { kept, oneWrite, ...(order === 'strict' && { lines }) }
    this.#settleBeforeClosing()
    this.#breaker = new Breaker({
      locks: redlock,
      clock: systemClock,
      probeResource: `probe:${this.id}`,
      signal: this.#closing.signal,
      onOpen: () => {
        log.event('breaker:open', { queue: name })
        this.#emit('breaker', 'open')
        void super.pause(true)
      },
      onClose: () => {
        log.event('breaker:closed', { queue: name })
        this.#emit('breaker', 'closed')
        if (!this.#pausedByUser) void super.resume()
      },
    })
    this.#telemetry = telemetry
    telemetry.opened({
      queue: name,
      namespace: redlock.namespace,
      breakerOpen: () => this.#breaker.isOpen,
      census: order === 'strict' ? () => this.#side.census() : undefined,
    })
    this.on('lockRenewalFailed', (jobIds) => {
      for (const jobId of jobIds) runs.jobLockLost(jobId)
    })
    this.on('active', (job) => {
      runs.fetched(job)
    })
    this.on('completed', (job) => {
      this.#side.completed(job)
    })
    this.on('failed', (job) => {
      if (job !== undefined) this.#side.failed(job)
    })
    if (bullmq.autorun !== false) {
      this.run().catch((error: unknown) => {
        this.emit('error', error as Error)
      })
    }
    void this.#reportSilentQueue()
  }

  /**
   * Starts fetching as soon as the lock masters are ready; until then emits `error` with what is wrong and tries
   * again. Called by the constructor unless `autorun` is false.
   */
  override run(): Promise<void> {
    this.#starting ??= this.#fleetReady().finally(() => {
      this.#starting = undefined
    })
    return this.#starting.then(() => (this.isRunning() ? undefined : super.run()))
  }

  override pause(doNotWaitActive?: boolean): Promise<void> {
    this.#pausedByUser = true
    return super.pause(doNotWaitActive)
  }

  override async resume(): Promise<void> {
    this.#pausedByUser = false
    if (!this.#breaker.isOpen) await super.resume()
  }

  override cancelJob(jobId: string, reason?: string): boolean {
    return this.#runs.cancelJob(jobId, reason)
  }

  override cancelAllJobs(reason?: string): void {
    this.#runs.cancelAllJobs(reason)
  }

  /**
   * Ends the worker within a time: stops fetching, lets running jobs finish for `timeoutMs`, then aborts their signals
   * and gives them back to the queue without using an attempt. Every lease is released.
   */
  async drain({ timeoutMs = 30_000 }: DrainOptions = {}): Promise<void> {
    integerOption('timeoutMs', timeoutMs, 0, Number.MAX_SAFE_INTEGER)
    await this.pause(true)
    await this.#idleWithin(timeoutMs)
    // Also where none seems to run: BullMQ may be about to start one.
    this.#runs.stop(new ShutdownError())
    // A processor that does not listen to its signal is left behind; its lease ends by itself.
    const idle = await this.#idleWithin(DRAIN_GRACE_MS)
    return this.close(!idle)
  }

  /** Who holds a resource, and the jobs in its line with what each waits for. */
  async inspect(resource: string): Promise<ResourceInspection> {
    return inspectResource(resource, this.#redlock, this.#side.lines, this.getBackend())
  }

  /** Why a job of this queue does not run, in words. */
  async why(jobId: string): Promise<string> {
    const job = await this.Job.fromId<Data>(this, jobId)
    if (job === undefined) return `There is no job ${jobId} in queue \`${this.name}\`.`
    return whyWaits(job, this.#resource, this.#redlock, this.#side.lines, this.getBackend())
  }

  override async close(force = false): Promise<void> {
    this.#closing.abort()
    this.#telemetry.closed()
    await super.close(force)
    await this.#runs.close()
    await this.#side.close(force)
  }

  override on<Event extends keyof LockedWorkerListener<Data, Result, Name>>(
    event: Event,
    listener: LockedWorkerListener<Data, Result, Name>[Event],
  ): this {
    return super.on(event as never, listener as never)
  }

  override once<Event extends keyof LockedWorkerListener<Data, Result, Name>>(
    event: Event,
    listener: LockedWorkerListener<Data, Result, Name>[Event],
  ): this {
    return super.once(event as never, listener as never)
  }

  override off<Event extends keyof LockedWorkerListener<Data, Result, Name>>(
    event: Event,
    listener: LockedWorkerListener<Data, Result, Name>[Event],
  ): this {
    return super.off(event as never, listener as never)
  }

  /**
   * Whoever is next is woken through BullMQ's connection, which must still be there when the last job has ended. (To pause first
   * would make BullMQ reconnect what it is about to close, and wait for that.)
   */
  #settleBeforeClosing(): void {
    const backend = this.getBackend()
    const close = backend.close.bind(backend)
    backend.close = async (force) => {
      if (force !== true) await this.#side.settle()
      await close(force)
    }
  }

  async #idleWithin(limitMs: number): Promise<boolean> {
    const until = systemClock.now() + limitMs
    while (this.#runs.active > 0) {
      if (systemClock.now() >= until) return false
      await sleep(systemClock, IDLE_LOOK_MS)
    }
    return true
  }

  #emit(event: 'requeued' | 'leaseLost' | 'breaker', ...args: unknown[]): void {
    super.emit(event as never, ...(args as never))
  }

  async #fleetReady(): Promise<void> {
    const { signal } = this.#closing
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        await this.#redlock.ready()
        return
      } catch (error) {
        this.emit('error', error as Error)
      }
      const { min, max } = READY_RETRY_MS
      await sleep(systemClock, jitteredMs(tries, min, max, systemClock.random()), signal).catch(
        () => undefined, // Closing: the loop's condition ends it.
      )
    }
  }

  /** BullMQ tries forever, with bare socket errors or in silence; say once what that means. */
  async #reportSilentQueue(): Promise<void> {
    const ready = new AbortController()
    this.waitUntilReady().then(
      () => {
        ready.abort()
      },
      () => undefined, // Closed before it was ready; BullMQ emits what went wrong.
    )
    const stop = AbortSignal.any([this.#closing.signal, ready.signal])
    await sleep(systemClock, QUEUE_PATIENCE_MS, stop).then(
      () => this.emit('error', new QueueUnreachableError(this.name, QUEUE_PATIENCE_MS)),
      () => undefined, // Ready, or closing.
    )
  }
}

/**
 * After `kill -9` the job itself runs again soon after its resource is free: BullMQ's defaults take 89 s, and
 * later jobs of the same resource overtake it. Its stalled check marks in one pass and moves in the next.
 */
function recovery(
  leaseMs: number,
): Pick<WorkerOptions, 'lockDuration' | 'stalledInterval' | 'maxStalledCount'> {
  return {
    lockDuration: leaseMs,
    stalledInterval: Math.min(1_000, Math.max(100, Math.floor(leaseMs / 4))),
    maxStalledCount: MAX_STALLED_COUNT,
  }
}
