/**
 * A BullMQ `Worker` whose jobs run under a lease. It does all that BullMQ's worker does. Its crash
 * recovery is as fast as the lease is short, and it starts when the lock masters are ready.
 */
import type { GetNextJobOptions, Job, Worker } from 'bullmq'
import type { Listener } from '../channel.ts'
import type { ToldWorker } from '../facts.ts'
import { sleep, systemClock, withinMs } from '../clock.ts'
import { ShutdownError } from '../errors.ts'
import { defaultLogger } from '../logger.ts'
import { integerOption } from '../options.ts'
import { Log, loggedChannel } from '../log.ts'
import { LineBackend } from '../line/line-backend.ts'
import { lineCensus } from '../line/census.ts'
import { DISCONNECT_LIMIT_MS, hasClosed } from '../line/queue-connection.ts'
import { explainJob, noSuchJob } from './explanation.ts'
import { inspectResource } from './inspection.ts'
import type { ResourceInspection, QueueSources } from './inspection.ts'
import { jobLeaseOptions, type LeasedProcessor } from './locked-processor.ts'
import { separate, type LockedWorkerOptions } from './locked-worker-options.ts'
import { WAIT_MS } from './run/admission.ts'
import { safeBackoff, untilTaken } from './run/failure.ts'
import { JobRuns } from './run/job-runs.ts'
import { processing } from './run/processing.ts'
import { linesOf, type ResourceOf } from '../line/placement.ts'
import { resourcesOf } from '../names.ts'
import { ofQueue } from '../shown-commands.ts'
import { unlessTold } from '../unless-told.ts'
import { Visits } from './run/visits.ts'
import { standstillOf } from './standstill.ts'
import { ListenedWorker, type LockedWorkerListener } from './worker-events.ts'
import { begin, Breaker, whenReady } from './worker-start.ts'

/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
/** What `worker.drain` takes. */
export interface DrainOptions {
  /** How long running jobs may continue. @defaultValue 30 000 */
  readonly timeoutMs?: number
}

/** How long jobs that are told to stop may take for it. */
const DRAIN_GRACE_MS = 2_000
/** How long BullMQ may wait for connections when no job runs any more. */
const CLOSE_LIMIT_MS = 2_000
/** Before what was refused is asked again. */
const REFUSED_MS = 250

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
export class LockedWorker<
  Data = any,
  Result = any,
  Name extends string = string,
> extends ListenedWorker<Data, Result, Name> {
  readonly #closing = new AbortController()
  readonly #runs: JobRuns
  readonly #visits: Visits
  readonly #lines: LineBackend
  readonly #breaker: Breaker
  readonly #told: ToldWorker
  readonly #onError = (error: unknown): void => {
    this.emit('error', error as Error)
  }
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
    const { redlock, resource, order, slots, maxWaitMs, onFailure, burstMs } = ours
    const { namespace } = redlock
    const { logger = defaultLogger() } = ours
    const isStrict = order === 'strict'
    const leaseOptions = jobLeaseOptions(options)
    const visits = new Visits(redlock, leaseOptions, burstMs)
    super(
      name,
      // It needs the backend, so it is made below. BullMQ would make a signal for every job of one
      // that it is given here, and that takes three parameters.
      null,
      {
        ...{ ...bullmq, autorun: false },
        settings: {
          ...bullmq.settings,
          backoffStrategy: safeBackoff(bullmq.settings?.backoffStrategy, (error) => {
            this.#onError(error)
          }),
        },
      },
      LineBackend.factory({
        ...{ slots, maxWaitMs, onFailure, visits },
        keepsSteps: ours.checkpoints || undefined,
        linesOf: isStrict ? (job) => linesOf(resource as never, job as never) : undefined,
        onDrained: () => super.emit('drained'),
        // Private in BullMQ's types: it ends the wait for the next check.
        onCheckDue: () =>
          (this as unknown as { stalledCheckStopper?(): void }).stalledCheckStopper?.(),
      }),
    )
    const lines = LineBackend.of(this)
    const onError = this.#onError
    const channel = loggedChannel(new Log(logger, options.jobLogLevel), namespace, [this.#events()])
    this.#visits = visits
    this.#lines = lines
    this.#runs = new JobRuns({
      ...{ locks: redlock, leaseOptions, resource: resource as ResourceOf, maxWaitMs },
      ...{ visits, lines, ordered: isStrict, channel, logger },
      waitMs: isStrict ? Math.max(WAIT_MS, 2 * burstMs) : 0,
      ...processing(processor, ours, {
        ...{ lines, visits },
        fetches: () => !this.#runs.isLeaving && this.closing === undefined && !this.isPaused(),
        open: ([data, id], token) => this.nextJobFromJobData(data, id, token),
        run: (job, token) => super.processJob(job as never, token, () => false).catch(onError),
      }),
      onLocksClosed: () => void super.pause(true),
    })
    this.processFn = this.#runs.run as never
    this.#runs.keepLocks(this.lockManager)
    const about = { queue: name, locks: redlock, channel, signal: this.#closing.signal }
    this.#breaker = new Breaker(about, `probe:${this.id}`)
    this.#told = {
      ...{ queue: name, prefix: bullmq.prefix ?? 'bull' },
      breakerOpen: () => this.#breaker.isOpen,
      census: isStrict ? () => lineCensus(lines) : undefined,
    }
    channel.tell('worker:opened', this.#told)
    begin({
      ...{ ...about, lines, visits, connecting: this.waitUntilReady() },
      settings: { by: 'LockedWorker', namespace, order, slots },
      lockMs: this.opts.lockDuration ?? 0,
      onError,
    })
    if (bullmq.autorun !== false) this.run().catch(this.#onError)
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
    await this.#runs.options.locks.ready()
  }

  /** It runs, and waits for the lock masters before it fetches its first job. */
  isStarting(): boolean {
    return this.#starting !== undefined
  }

  override isRunning(): boolean {
    return this.isStarting() || super.isRunning()
  }

  /** As BullMQ's, which waits without end where the worker is resumed meanwhile. */
  override pause(doNotWaitActive?: boolean): Promise<void> {
    // Another pause would not wait for the jobs that run.
    // rule: pause-waits-while-the-breaker-is-open
    if (!this.#pausedByUser) this.paused = false
    this.#pausedByUser = true
    // rule: resumed-worker-is-paused-no-more
    return unlessTold(super.pause(doNotWaitActive), this, 'resumed')
  }

  override async resume(): Promise<void> {
    // rule: leaving-worker-is-not-resumed
    if (this.#runs.isLeaving) return
    this.#pausedByUser = false
    if (this.#starting !== undefined) this.paused = false
    else if (!this.#breaker.isOpen) await super.resume()
  }

  override cancelJob(jobId: string, reason?: string): boolean {
    return this.#visits.cancel(jobId, reason)
  }

  override cancelAllJobs(reason?: string): void {
    this.#visits.abortAll(reason)
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
    this.#runs.isLeaving = true
    // rule: leaving-worker-waits-for-no-lease
    this.#visits.abortWaiting(new ShutdownError())
    await this.pause(true)
    // BullMQ's pending command would take the mark of a job that this worker gives back.
    // rule: leaving-worker-takes-no-mark
    await withinMs(systemClock, DISCONNECT_LIMIT_MS, this.backend.disconnectBlocking(true))
    // It may have taken one that was left for any worker.
    void this.#lines.wakeWorker().catch(() => undefined)
    await this.#visits.idleWithin(timeoutMs)
    // Also where none seems to run: BullMQ may be about to start one.
    this.#runs.stop(new ShutdownError())
    // A processor that does not listen to its signal is left behind; its lease ends by itself.
    const idle = await this.#visits.idleWithin(DRAIN_GRACE_MS)
    await this.close(!idle)
    return idle
  }

  protected override async moveToActive(
    token: string,
    name?: string,
  ): Promise<Job<Data, Result, Name>> {
    if (this.#runs.isLeaving) return undefined as never
    try {
      return await super.moveToActive(token, name)
    } catch (error) {
      // BullMQ asks again at once. Where no server is asked, nothing else would run meanwhile.
      // rule: refused-fetch-leaves-the-process-time
      await sleep(systemClock, REFUSED_MS)
      throw error
    }
  }

  /**
   * BullMQ tells `drained` when it is given no job. Jobs that sleep in line wait all the same. How
   * jobs end is told on the channel, too.
   */
  override emit<Event extends keyof LockedWorkerListener<Data, Result, Name>>(
    event: Event,
    ...args: Parameters<LockedWorkerListener<Data, Result, Name>[Event]>
  ): boolean {
    if (event === 'drained') return false
    if (event === 'paused' && !this.isPaused()) {
      // It was resumed meanwhile, and BullMQ has just ended its next check for stalled jobs.
      // rule: resumed-worker-looks-for-stalled-jobs
      this.startStalledCheckTimer().catch(this.#onError)
      return false
    }
    if (event === 'completed' || event === 'failed') {
      const [job] = args as readonly (Job | undefined)[]
      // BullMQ hands over no job where it has stalled too often.
      const isRetried = event === 'failed' && job !== undefined && job.finishedOn === undefined
      this.#runs.options.channel.tell('job:finished', {
        queue: this.name,
        outcome: isRetried ? 'retried' : event,
      })
    }
    return super.emit(event as never, ...(args as never))
  }

  /** As BullMQ's. */
  override async getNextJob(
    token: string,
    options?: GetNextJobOptions,
  ): Promise<Job<Data, Result, Name>> {
    for (;;) {
      const job = await super.getNextJob(token, options)
      // BullMQ's type leaves it out.
      if ((job as Job | undefined) === undefined) return job
      // rule: job-fetched-by-hand-adds-the-next-of-its-scheduler
      await this.#runs.addNextOf(job.id ?? '')
      if (!(await this.#runs.parks(job, token))) return job
    }
  }

  protected override async handleCompleted(
    ...args: Parameters<Worker<Data, Result, Name>['handleCompleted']>
  ): Promise<Job<Data, Result, Name>> {
    try {
      return await super.handleCompleted(...args)
    } catch (error) {
      return untilTaken(error, () => super.handleCompleted(...args), this.#onError)
    }
  }

  protected override async handleFailed(
    ...args: Parameters<Worker<Data, Result, Name>['handleFailed']>
  ): Promise<Job<Data, Result, Name>> {
    // BullMQ may fail it without its processor.
    await this.#runs.addNextOf(args[1].id ?? '').catch(this.#onError)
    try {
      return await super.handleFailed(...args)
    } catch (error) {
      return untilTaken(error, () => super.handleFailed(...args), this.#onError)
    }
  }

  /** BullMQ pauses for `runRetryDelay` when a connection ends, also where the worker closes. */
  override delay(...[ms, ends]: Parameters<Worker['delay']>): Promise<void> {
    const isEnding = this.#runs.isLeaving || this.#closing.signal.aborted
    // rule: closing-worker-ends-its-pauses
    return super.delay(isEnding ? REFUSED_MS : ms, ends ?? (this.#closing as never))
  }

  /**
   * BullMQ renews its locks on all running jobs by this method, and reports those that it returns.
   * A job that ended before the answer came is none of them: a lost lock does not harm it.
   */
  override async extendJobLocks(
    ...args: Parameters<Worker['extendJobLocks']>
  ): ReturnType<Worker['extendJobLocks']> {
    const askedAt = systemClock.now()
    const lost = await super.extendJobLocks(...args)
    return this.#visits.locksRenewed(lost, askedAt, args[2])
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
    const found = await inspectResource(resource, this.#sources())
    const line = found.line.map((entry) => ({ ...entry, waitsFor: this.#shown(entry.waitsFor) }))
    return { ...found, line }
  }

  /** Why a job of this queue does not run, in words. */
  async why(jobId: string): Promise<string> {
    const job = await this.Job.fromId<Data>(this, jobId)
    if (job === undefined) return noSuchJob(this.name, jobId)
    const recorded = await this.#lines.recordedResources(jobId)
    const resources = recorded ?? resourcesOf(this.#runs.options.resource, job, jobId)
    return this.#shown((await explainJob(job, resources, this.#sources())).why)
  }

  #shown(text: string): string {
    return ofQueue(text, this.qualifiedName)
  }

  #sources(): QueueSources<LineBackend> {
    const lines = this.#lines
    // This worker is connected.
    const standstill: QueueSources['standstill'] = async () =>
      standstillOf(this.name, await lines.hasQueueMetaField('paused'), true)
    return { locks: this.#runs.options.locks, lines, standstill }
  }

  /**
   * As BullMQ's: waits for running jobs, or with `force` aborts their signals and releases what
   * they hold. Ends also when the queue's Redis does not answer.
   */
  override close(force = false): Promise<void> {
    return (this.#closed ??= this.#close(force))
  }

  async #close(force: boolean): Promise<void> {
    this.#closing.abort()
    this.#lines.endBlocking()
    this.#runs.options.channel.tell('worker:closed', this.#told)
    if (force) {
      this.#runs.stop(new ShutdownError())
      await this.#visits.close(true)
    }
    const closing = super.close(force)
    // BullMQ waits for running jobs and for connections without a limit. Only the first is meant.
    // rule: forced-close-waits-for-no-job
    const idle = this.#visits.idleWithin(force ? 0 : Infinity)
    await Promise.race([closing, idle])
    // BullMQ's timer would keep the process alive.
    if (!(await hasClosed(closing, this.#lines, CLOSE_LIMIT_MS))) await this.lockManager.close()
    await this.#visits.close(false)
  }

  /** What happens to a worker's jobs, as its events. */
  #events(): Listener {
    const emit = (event: 'requeued' | 'leaseLost' | 'breaker', ...args: unknown[]): void => {
      super.emit(event as never, ...(args as never))
    }
    return {
      on: {
        'job:requeued': ({ job, why }) => {
          if (why.status === 'unreachable') this.#breaker.trip(why.reason)
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
