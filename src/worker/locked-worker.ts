/**
 * A BullMQ `Worker` whose jobs run under a lease. Everything BullMQ's worker does, it does; on top
 * come the lease, crash recovery that is derived from the lease's length, and a start that waits
 * for the lock masters.
 */
import {
  Worker,
  type GetNextJobOptions,
  type Job,
  type MinimalJob,
  type WorkerListener,
} from 'bullmq'
import type { Channel, Listener } from '../channel.ts'
import type { ToldWorker } from '../facts.ts'
import { sleep, systemClock, withinMs } from '../clock.ts'
import { ShutdownError } from '../errors.ts'
import type { LeaseLostError } from '../lock-errors.ts'
import type { LockService } from '../lock/lock-service.ts'
import { defaultLogger } from '../logger.ts'
import { integerOption } from '../options.ts'
import { Log, loggedChannel } from '../log.ts'
import { LineBackend } from '../line/line-backend.ts'
import { lineCensus } from '../line/census.ts'
import {
  explainJob,
  inspectResource,
  noSuchJob,
  standstillOf,
  type ResourceInspection,
  type Standstill,
} from './inspection.ts'
import { settingsText, type SharedSettings } from '../line/settings-check.ts'
import { keepSweeping } from '../line/sweep.ts'
import { jobLeaseOptions, type LeasedProcessor } from './locked-processor.ts'
import { separate, type LockedWorkerOptions } from './locked-worker-options.ts'
import { batchedOf } from './run/batch.ts'
import { Breaker } from './run/breaker.ts'
import { batching } from './run/batches.ts'
import { checkpointing } from './run/checkpoints.ts'
import { processOf, type Process } from './run/job-lease.ts'
import { isPassing } from './run/failure.ts'
import { JobRuns } from './run/job-runs.ts'
import type { Requeue } from './run/requeue.ts'
import { resourcesOf, type ResourceOf } from '../line/resource.ts'
import { ResultStore } from './run/result-store.ts'
import { SharedResults, type Dedupe } from './run/shared-results.ts'
import { Visits } from './run/visits.ts'
import { reportSettings, reportSharedServer, reportSilentQueue, whenReady } from './worker-start.ts'

/** The events of a `LockedWorker`: BullMQ's, and three more. */
/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface LockedWorkerListener<
  Data = any,
  Result = any,
  Name extends string = string,
> extends WorkerListener<Data, Result, Name> {
  /** A job may not run yet and went back to the queue; no attempt was used. */
  requeued: (job: Job<Data>, requeue: Requeue) => void
  /**
   * A job's lease was lost while it ran. Its result or failure stands as the processor reported it.
   */
  leaseLost: (job: Job<Data>, error: LeaseLostError) => void
  /**
   * `open`: the lock masters have no quorum and the worker fetches nothing; `closed`: it
   * fetches again.
   */
  breaker: (state: 'open' | 'closed') => void
}

/** What `worker.drain` takes. */
export interface DrainOptions {
  /** How long running jobs may continue. @defaultValue 30 000 */
  readonly timeoutMs?: number
}

/** Jobs need not sleep long in an outage: the breaker keeps them from being started in vain. */
const OUTAGE_SLEEP_MS = 1_000
/** How long jobs that are told to stop may take for it. */
const DRAIN_GRACE_MS = 2_000
/** How long BullMQ may wait for connections when no job runs any more. */
const CLOSE_LIMIT_MS = 2_000
const DISCONNECT_LIMIT_MS = 500
const IDLE_POLL_MS = 10
/** How long a job at its turn waits for its lease in place; two bursts where that is longer. */
const MIN_WAIT_MS = 100
/** Before the queue's Redis is asked again to take the end of a job. */
const END_RETRY_MS = 100
/** How often a worker that has jobs looks whether one shall be cancelled. */
const CANCEL_POLL_MS = 500

/**
 * A BullMQ `Worker` that runs each job under a lease on the resource that the job touches.
 * @example
 * ```ts
 * const worker = new LockedWorker(
 *   'invoices',
 *   async (job, lease) => {
 *     await lease.step('charge', ({ signal, fencingToken }) =>
 *       charge(job.data, { signal, fencingToken }),
 *     )
 *   },
 *   { connection, redlock, resource: (job) => `customer:${job.data.customerId}` },
 * )
 * process.once('SIGTERM', () => void worker.drain({ timeoutMs: 25_000 }))
 * ```
 */
export class LockedWorker<Data = any, Result = any, Name extends string = string> extends Worker<
  Data,
  Result,
  Name
> {
  readonly #redlock: LockService
  readonly #resource: ResourceOf<Data>
  readonly #closing = new AbortController()
  readonly #runs: JobRuns
  readonly #lines: LineBackend
  readonly #breaker: Breaker
  readonly #channel: Channel
  readonly #told: ToldWorker
  readonly #onError = (error: unknown): void => {
    this.emit('error', error as Error)
  }
  #lockRenewedAt = -Infinity
  #isLeaving = false
  #pausedByUser = false
  #starting: Promise<void> | undefined
  #hasStarted = false
  #closed: Promise<void> | undefined

  /**
   * @throws TypeError for a bad option, among them `maxStartedAttempts`: a job that waits for its
   * resource is started several times, so that option would fail jobs that did nothing wrong.
   */
  constructor(
    name: string,
    processor: LeasedProcessor<Data, Result, Name>,
    options: LockedWorkerOptions<Data>,
  ) {
    const { ours, bullmq } = separate(name, processor, options)
    const { redlock, resource, order, slots, maxWaitMs, onFailure, burstMs, dedupe } = ours
    const { leaseMs = redlock.leaseMs, logger = defaultLogger() } = ours
    const { namespace } = redlock
    const isStrict = order === 'strict'
    const leaseOptions = jobLeaseOptions(options)
    const visits = new Visits(redlock, leaseOptions, burstMs)
    super(
      name,
      // Two parameters on purpose: for a third one BullMQ would make a signal for every job.
      (job, token) => this.#runs.run(job, token) as Promise<Result>,
      { ...bullmq, autorun: false },
      LineBackend.factory({
        ...{ slots, within: 'added', maxWaitMs, onFailure, workerName: bullmq.name, visits },
        keepsSteps: ours.checkpoints,
        linesOf: isStrict ? (job) => linesOf(resource as never, job) : undefined,
        onDrained: () => super.emit('drained'),
      }),
    )
    const lines = LineBackend.of(this)
    const log = new Log(logger, options.jobLogLevel)
    const channel = loggedChannel(log, namespace, [this.#events()])
    const results = new ResultStore(lines, ours.maxValueBytes)
    const steps = ours.checkpoints ? results : undefined
    const shared =
      dedupe && new SharedResults(redlock, leaseMs, results, dedupe as Dedupe<unknown>, channel)
    this.#redlock = redlock
    this.#resource = resource
    this.#lines = lines
    this.#channel = channel
    this.#runs = new JobRuns({
      ...{ locks: redlock, leaseOptions, resource: resource as ResourceOf, maxWaitMs },
      ...{ visits, lines, ordered: isStrict, shared, channel, logger },
      waitMs: isStrict ? Math.max(MIN_WAIT_MS, 2 * burstMs) : 0,
      process: this.#process(processor, visits, steps, shared),
      maxUnreachableMs: OUTAGE_SLEEP_MS,
      onLocksClosed: () => void super.pause(true),
    })
    const probeResource = `probe:${this.id}`
    const { signal } = this.#closing
    this.#breaker = new Breaker({ locks: redlock, queue: name, probeResource, signal, channel })
    this.#told = {
      ...{ queue: name, prefix: bullmq.prefix ?? 'bull' },
      breakerOpen: () => this.#breaker.isOpen,
      census: isStrict ? () => lineCensus(lines) : undefined,
    }
    channel.tell('worker:opened', this.#told)
    this.#listen()
    this.#begin({ by: 'LockedWorker', namespace, order, slots })
    if (bullmq.autorun !== false) this.run().catch(this.#onError)
  }

  /** The processor, and around it what the options ask for. */
  #process(
    processor: LeasedProcessor<Data, Result, Name>,
    visits: Visits,
    steps: ResultStore | undefined,
    shared: SharedResults | undefined,
  ): Process {
    let process = processOf(processor)
    if (steps !== undefined) process = checkpointing(process, steps, this.#channel)
    if (shared !== undefined) process = shared.sharing(process)
    const batched = batchedOf(processor)
    if (batched === undefined) return process
    return batching(process, batched, this.#channel, {
      ...{ lines: this.#lines, visits },
      fetches: () => !this.#isLeaving && this.closing === undefined && !this.isPaused(),
      open: ([data, id], token) => this.nextJobFromJobData(data, id, token),
      run: (job, token) => this.processJob(job as never, token, () => false).catch(this.#onError),
    })
  }

  /** What it does now and again until it closes, and what it reports once. */
  #begin(settings: SharedSettings): void {
    const { signal } = this.#closing
    const { running } = this.#runs
    const lines = this.#lines
    if (settings.order === 'strict') {
      void keepSweeping(lines, settingsText(settings), signal, this.#onError)
    }
    void this.#repeat(CANCEL_POLL_MS, () => running.pollCancels(lines))
    const { lockDuration: lockMs = 0 } = this.opts
    void this.#repeat(Math.ceil(lockMs / 4), () => {
      running.loseLocksBefore(this.#lockRenewedAt, lockMs)
      running.giveUpLost(lockMs)
      return Promise.resolve()
    })
    const starting = { queue: this.name, lines, signal, onError: this.#onError }
    void reportSettings(starting, settings)
    void reportSilentQueue(starting, this.waitUntilReady())
    void reportSharedServer(starting, this.#redlock, this.#channel)
  }

  #listen(): void {
    const { name: queue } = this
    this.on('completed', () => {
      this.#channel.tell('job:finished', { queue, outcome: 'completed' })
    })
    this.on('failed', (job) => {
      // BullMQ hands over no job where it has stalled too often.
      const isRetried = job !== undefined && job.finishedOn === undefined
      this.#channel.tell('job:finished', { queue, outcome: isRetried ? 'retried' : 'failed' })
    })
  }

  /**
   * Starts fetching as soon as the lock masters are ready; until then emits `error` with what is
   * wrong and tries again. Called by the constructor unless `autorun` is false. A worker that they
   * were ready for waits no more: BullMQ calls this when it resumes.
   * @throws Error when it runs already.
   */
  override async run(): Promise<void> {
    if (this.isRunning()) throw new Error('Worker is already running.')
    if (!this.#hasStarted) {
      this.#starting = whenReady(() => this.ready(), this.#closing.signal, this.#onError)
      try {
        await this.#starting
      } finally {
        this.#starting = undefined
      }
      this.#hasStarted = true
    }
    await super.run()
  }

  /** What it waits for before it fetches its first job. It is asked again where it rejects. */
  protected async ready(): Promise<void> {
    await this.#redlock.ready()
  }

  /** It runs, and waits for the lock masters before it fetches its first job. */
  isStarting(): boolean {
    return this.#starting !== undefined
  }

  override isRunning(): boolean {
    return this.isStarting() || super.isRunning()
  }

  override pause(doNotWaitActive?: boolean): Promise<void> {
    this.#pausedByUser = true
    return super.pause(doNotWaitActive)
  }

  override async resume(): Promise<void> {
    this.#pausedByUser = false
    if (this.#starting !== undefined) this.paused = false
    else if (!this.#breaker.isOpen) await super.resume()
  }

  override cancelJob(jobId: string, reason?: string): boolean {
    return this.#runs.running.cancel(jobId, reason)
  }

  override cancelAllJobs(reason?: string): void {
    this.#runs.running.abortAll(reason)
  }

  /**
   * Ends the worker within a time: stops fetching, lets running jobs finish for `timeoutMs`, then
   * aborts their signals and gives them back to the queue without using an attempt. A job that
   * waits for its lease goes back at once. Every lease is released. A processor that ignores its
   * signal is left behind: its lease ends by itself, and BullMQ finds its job stalled.
   * @returns whether every processor has ended
   */
  async drain({ timeoutMs = 30_000 }: DrainOptions = {}): Promise<boolean> {
    integerOption('timeoutMs', timeoutMs, 0, Number.MAX_SAFE_INTEGER)
    await this.#leave()
    await this.#idleWithin(timeoutMs)
    // Also where none seems to run: BullMQ may be about to start one.
    this.#runs.stop(new ShutdownError())
    // A processor that does not listen to its signal is left behind; its lease ends by itself.
    const idle = await this.#idleWithin(DRAIN_GRACE_MS)
    await this.close(!idle)
    return idle
  }

  /** Fetches nothing more. */
  async #leave(): Promise<void> {
    this.#isLeaving = true
    this.#runs.leave()
    await this.pause(true)
    // BullMQ's pending command would take the mark of a job that this worker gives back.
    // rule: leaving-worker-takes-no-mark
    await withinMs(systemClock, DISCONNECT_LIMIT_MS, this.backend.disconnectBlocking(true))
    // It may have taken one that was left for any worker.
    void this.#lines.wakeWorker().catch(() => undefined)
  }

  protected override async moveToActive(
    token: string,
    name?: string,
  ): Promise<Job<Data, Result, Name>> {
    return (this.#isLeaving ? undefined : await super.moveToActive(token, name)) as never
  }

  /** BullMQ tells `drained` when it is given no job. Jobs that sleep in line wait all the same. */
  override emit<Event extends keyof LockedWorkerListener<Data, Result, Name>>(
    event: Event,
    ...args: Parameters<LockedWorkerListener<Data, Result, Name>[Event]>
  ): boolean {
    return event !== 'drained' && super.emit(event as never, ...(args as never))
  }

  /** As BullMQ's. */
  override async getNextJob(
    token: string,
    options?: GetNextJobOptions,
  ): Promise<Job<Data, Result, Name>> {
    const job = await super.getNextJob(token, options)
    // BullMQ's type leaves it out.
    if ((job as Job | undefined) === undefined) return job
    // rule: job-fetched-by-hand-adds-the-next-of-its-scheduler
    await this.#runs.addNextOf(job.id ?? '')
    return job
  }

  protected override handleCompleted(
    ...args: Parameters<Worker<Data, Result, Name>['handleCompleted']>
  ): Promise<Job<Data, Result, Name>> {
    return this.#untilTaken(() => super.handleCompleted(...args))
  }

  protected override async handleFailed(
    ...args: Parameters<Worker<Data, Result, Name>['handleFailed']>
  ): Promise<Job<Data, Result, Name>> {
    // BullMQ may fail it without its processor.
    await this.#runs.addNextOf(args[1].id ?? '').catch(this.#onError)
    return this.#untilTaken(() => super.handleFailed(...args))
  }

  /**
   * BullMQ fails a job whose result its server refuses, be it for the second of a failover. Here
   * the server is asked again, while the job can be this worker's. Then it stalls, and runs again.
   */
  async #untilTaken<Next>(end: () => Promise<Next>): Promise<Next> {
    const limit = systemClock.now() + (this.opts.lockDuration ?? 0)
    for (;;) {
      try {
        return await end()
      } catch (error) {
        // rule: refused-end-fails-no-job
        if (!isPassing(error)) throw error
        this.#onError(error)
      }
      if (systemClock.now() >= limit) return undefined as never // There may be none.
      await sleep(systemClock, END_RETRY_MS)
    }
  }

  /** BullMQ pauses for five seconds when a connection ends. */
  override delay(...[ms, ...rest]: Parameters<Worker['delay']>): Promise<void> {
    return super.delay(this.#isLeaving ? 1 : ms, ...rest)
  }

  /** BullMQ renews its locks on all running jobs by this method. */
  override async extendJobLocks(
    ...args: Parameters<Worker['extendJobLocks']>
  ): ReturnType<Worker['extendJobLocks']> {
    const sentAt = systemClock.now()
    const lost = await super.extendJobLocks(...args)
    this.#lockRenewedAt = sentAt
    this.#runs.running.locksLost(lost, sentAt)
    return lost
  }

  /**
   * After a failed check for stalled jobs BullMQ waits five seconds, and `close` does not end that.
   * The next check comes after `stalledInterval`, as after one that succeeds.
   */
  protected override checkConnectionError<T>(check: () => Promise<T>): Promise<T | undefined> {
    return super.checkConnectionError(check, 0)
  }

  /** The holder of a resource, and the jobs in its line with what each waits for. */
  async inspect(resource: string): Promise<ResourceInspection> {
    return inspectResource(resource, this.#redlock, this.#lines, this.#standstill)
  }

  /** Why a job of this queue does not run, in words. */
  async why(jobId: string): Promise<string> {
    const job = await this.Job.fromId<Data>(this, jobId)
    if (job === undefined) return noSuchJob(this.name, jobId)
    const recorded = await this.#lines.recordedResources(jobId)
    const resources = recorded ?? resourcesOf(this.#resource, job, jobId)
    return (await explainJob(job, resources, this.#redlock, this.#lines, this.#standstill)).why
  }

  /** This worker is connected. */
  readonly #standstill = async (): Promise<Standstill | undefined> =>
    standstillOf(this.name, await this.#lines.hasQueueMetaField('paused'), true)

  /**
   * As BullMQ's: waits for running jobs, or with `force` aborts their signals and releases what
   * they hold. Ends also when the queue's Redis does not answer.
   */
  override close(force = false): Promise<void> {
    this.#closed ??= this.#close(force)
    return this.#closed
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

  async #close(force: boolean): Promise<void> {
    this.#closing.abort()
    this.#channel.tell('worker:closed', this.#told)
    if (force) {
      this.#runs.stop(new ShutdownError())
      await this.#runs.close(true)
    }
    const closing = super.close(force).then(() => 'closed')
    // BullMQ waits for running jobs without a limit, and for connections too. Only the first is
    // meant.
    // rule: forced-close-waits-for-no-job
    const idle = this.#idleWithin(force ? 0 : Infinity).then(() =>
      withinMs(systemClock, CLOSE_LIMIT_MS, closing),
    )
    if ((await Promise.race([closing, idle])) === undefined) {
      this.#lines.disconnectNow()
      await this.lockManager.close() // Its timer would keep the process alive.
      await withinMs(systemClock, DISCONNECT_LIMIT_MS, closing)
    }
    await this.#runs.close(false)
  }

  /** Runs `action` now and again until the worker closes. Its errors are others' to report. */
  async #repeat(everyMs: number, action: () => Promise<void>): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      void action().catch(() => undefined)
      await sleep(systemClock, everyMs, signal).catch(() => undefined) // Closing.
    }
  }

  async #idleWithin(limitMs: number): Promise<boolean> {
    const until = systemClock.now() + limitMs
    while (this.#runs.running.size > 0) {
      if (systemClock.now() >= until) return false
      await sleep(systemClock, IDLE_POLL_MS)
    }
    return true
  }

  /** What happens to a worker's jobs, as its events. */
  #events(): Listener {
    const emit = (event: 'requeued' | 'leaseLost' | 'breaker', ...args: unknown[]): void => {
      super.emit(event as never, ...(args as never))
    }
    return {
      on: {
        'job:requeued': ({ job, why }) => {
          if (why.status === 'unreachable') this.#breaker.trip()
          emit('requeued', job, why)
        },
        'job:lease-lost': ({ job, error }) => {
          emit('leaseLost', job, error)
        },
        'breaker:open': () => {
          void super.pause(true)
          emit('breaker', 'open')
        },
        'breaker:closed': () => {
          if (!this.#pausedByUser) void super.resume()
          emit('breaker', 'closed')
        },
      },
    }
  }
}

/** As the hash of a job has them. */
function linesOf(resource: (job: MinimalJob) => unknown, job: MinimalJob): string | undefined {
  try {
    return JSON.stringify(resourcesOf(resource, job, job.id))
  } catch {
    return undefined // It names none: the job stands in no line.
  }
}
