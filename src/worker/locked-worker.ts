/**
 * A BullMQ `Worker` whose jobs run under a lease. Everything BullMQ's worker does, it does; on top come the lease,
 * crash recovery that is derived from the lease's length, and a start that waits for the lock masters.
 */
import { Worker, type Job, type WorkerListener, type WorkerOptions } from 'bullmq'
import { jitteredMs } from '../backoff.ts'
import { sleep, systemClock } from '../clock.ts'
import { QueueUnreachableError, type LeaseLostError } from '../errors.ts'
import type { LockService } from '../lock/lock-service.ts'
import { choiceOption, refuse } from '../options.ts'
import { openQueueConnection } from '../redis/queue-connection.ts'
import { LineKeeper } from './line-keeper.ts'
import { Lines } from './lines.ts'
import {
  lockedProcessor,
  type LeasedProcessor,
  type LockedProcessorOptions,
} from './locked-processor.ts'
import type { Requeue } from './requeue.ts'
import { resourcesOf, type ResourceOf } from './resource.ts'
import { ticketOf } from './ticket.ts'

/** BullMQ's worker options and the lease's. */
export interface LockedWorkerOptions<Data = unknown>
  extends WorkerOptions, Pick<LockedProcessorOptions<Data>, 'resource' | 'leaseMs' | 'maxHoldMs'> {
  /** Where the leases come from. Not closed with the worker: several workers may share it. */
  readonly redlock: LockService
  /**
   * `strict`: jobs of one resource run in the order in which they were added, through retries and crashes, and wait
   * asleep until it is their turn. `relaxed`: whoever comes first; waiting jobs try again after random delays.
   * @defaultValue 'strict'
   */
  readonly order?: 'strict' | 'relaxed'
  /**
   * What a job that failed for good does to its line: `continue` lets the next one run, `block` keeps the line waiting
   * until somebody retries or removes the failed job.
   * @defaultValue 'continue'
   */
  readonly onFailure?: 'continue' | 'block'
}

export interface LockedWorkerListener<
  Data = unknown,
  Result = unknown,
  Name extends string = string,
> extends WorkerListener<Data, Result, Name> {
  /** A job may not run yet and went back to the queue; no attempt was used. */
  requeued: (job: Job<Data>, requeue: Requeue) => void
  /** A job's lease was lost while it ran. Its result or failure stands as the processor reported it. */
  leaseLost: (job: Job<Data>, error: LeaseLostError) => void
}

/** When the masters are not ready at the start, they are tried again this often. */
const READY_RETRY_MS = { min: 500, max: 5_000 }
/** How long the queue's Redis may stay silent at the start before that is reported. */
const QUEUE_PATIENCE_MS = 5_000
/** A job survives this many crashed or frozen workers; BullMQ's default is 1, and a deploy may be two. */
const MAX_STALLED_COUNT = 3
/** How often some worker looks for lines that stand still. */
const LINE_KEEPER_MS = 1_000

export class LockedWorker<
  Data = unknown,
  Result = unknown,
  Name extends string = string,
> extends Worker<Data, Result, Name> {
  readonly #redlock: LockService
  readonly #closing = new AbortController()
  readonly #leaving = new Set<Promise<void>>()
  #closeLines: () => void = () => undefined
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
    const { redlock, resource, leaseMs, maxHoldMs, ...others } = options
    const { order = 'strict', onFailure = 'continue', ...workerOptions } = others
    refuseUnsafe(workerOptions)
    choiceOption('order', order, ['strict', 'relaxed'])
    choiceOption('onFailure', onFailure, ['continue', 'block'])
    const seat: { lines: Lines | undefined } = { lines: undefined }
    const locked = lockedProcessor<Data, Result, Name>(
      redlock,
      {
        resource,
        ...(leaseMs !== undefined && { leaseMs }),
        ...(maxHoldMs !== undefined && { maxHoldMs }),
        onRequeued: (job, why) => {
          this.#emit('requeued', job, why)
        },
        onLeaseLost: (job, error) => {
          this.#emit('leaseLost', job, error)
        },
        lines: () => seat.lines,
      },
      processor,
    )
    super(name, locked, {
      ...recovery(leaseMs ?? redlock.leaseMs),
      ...workerOptions,
      autorun: false,
    })
    this.#redlock = redlock
    locked.watch(this)
    if (order === 'strict') {
      seat.lines = this.#standInLine(resource, onFailure === 'block')
    }
    if (workerOptions.autorun !== false) {
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

  override async close(force = false): Promise<void> {
    this.#closing.abort()
    await super.close(force)
    // A job that has just finished still leaves its line and wakes the next one.
    await Promise.all(this.#leaving)
    this.#closeLines()
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

  /** Jobs leave their line when they have finished; lines that stand still are restarted. */
  #standInLine(resource: ResourceOf<Data>, keepFailed: boolean): Lines {
    const redis = openQueueConnection(this.opts.connection)
    const lines = new Lines(redis, this.getBackend(), this.#redlock.namespace, systemClock)
    const onError = (error: unknown): void => {
      this.emit('error', error as Error)
    }
    const everyMs = LINE_KEEPER_MS
    const keeper = new LineKeeper(lines, { clock: systemClock, everyMs, keepFailed, onError })
    const leave = (job: Job<Data>): void => {
      const left = this.#leave(lines, resource, job).catch(onError)
      this.#leaving.add(left)
      void left.finally(() => this.#leaving.delete(left))
    }
    this.on('completed', leave)
    this.on('failed', (job) => {
      // Without `finishedOn` it is going to be retried, and keeps its place.
      if (job?.finishedOn && !keepFailed) leave(job)
    })
    this.#closeLines = () => {
      keeper.stop()
      redis.close()
    }
    return lines
  }

  async #leave(lines: Lines, resource: ResourceOf<Data>, job: Job<Data>): Promise<void> {
    let resources: readonly string[]
    try {
      resources = resourcesOf(() => resource(job), job.id)
    } catch {
      return // It failed because of this, and has no place anywhere.
    }
    await lines.leave(resources, ticketOf(job))
  }

  #emit(event: 'requeued' | 'leaseLost', ...args: unknown[]): void {
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

function refuseUnsafe(options: WorkerOptions): void {
  if (options.maxStartedAttempts !== undefined) {
    const why =
      'absent: a job that waits for its resource is started several times. Bound failures with `attempts`'
    refuse('maxStartedAttempts', why, options.maxStartedAttempts)
  }
  if (options.skipLockRenewal === true) {
    refuse('skipLockRenewal', 'absent: a job without its BullMQ lock runs twice', true)
  }
}
