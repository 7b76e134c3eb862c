/** A `LockedWorker` whose processor does what the jobs say, and reports all that it sees. */
import {
  DelayedError,
  Queue,
  WaitingChildrenError,
  WaitingError,
  Worker,
  type Job,
  type WorkerOptions,
} from 'bullmq'
import {
  batchProcessor,
  LockedWorker,
  lockedProcessor,
  ShardedWorker,
  silentLogger,
  type JobLease,
  type LockedWorkerOptions,
  type LockService,
} from '../../src/index.ts'
import { getOrInsert } from '../../src/get-or-insert.ts'
import type { JobData, Settings, Work } from './plan.ts'
import { instanceOf, machineMs, type Seen } from './seen.ts'

export interface HostSetup {
  readonly name: string
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly settings: Settings
  readonly leaseMs: number
}

/** What a worker is told. */
export type Command =
  | { readonly do: 'close'; readonly force: boolean }
  | { readonly do: 'drain'; readonly timeoutMs: number }
  | { readonly do: 'pause' | 'resume' | 'cut' | 'cancelAll' }
  | { readonly do: 'cancel'; readonly id: string }
  | { readonly do: 'ask'; readonly id: string; readonly resource: string }
  | { readonly do: 'setConcurrency'; readonly most: number }
  | { readonly do: 'stepClock'; readonly aheadMs: number }

type OneJob = Job<JobData>

const MOVED_MS = 10
const FORGOTTEN_MS = 25
const JOIN = '\u0000'
/** Once: a process may be stopped between two looks at its clocks. */
const SHIFT_MS = machineMs() - performance.now()

export class WorkerHost {
  readonly worker: Worker<JobData>
  /** By the prefixes of their parents. */
  readonly #children = new Map<string, Queue<JobData>>()
  readonly #setup: HostSetup
  readonly #seen: (event: Seen) => void
  #runs = 0
  #isClosed = false
  /** Nothing of it counts any more. */
  isGone = false

  constructor(setup: HostSetup, redlock: LockService, seen: (event: Seen) => void) {
    this.#setup = setup
    this.#seen = (event) => {
      if (!this.isGone) seen(event)
    }
    const { settings } = setup
    const processor =
      settings.batch === undefined
        ? (job: OneJob, lease: JobLease & string) => this.#run(job, lease, undefined)
        : batchProcessor<JobData>(settings.batch, async (jobs, lease) => {
            const first = `${setup.name}.${this.#runs + 1}`
            return Promise.allSettled(jobs.map((job) => this.#run(job, lease, first)))
          })
    const connection = { ...setup.connection, retryStrategy: () => 50 }
    const leased = { leaseMs: setup.leaseMs, logger: silentLogger, ...leasedOptions(settings) }
    const resource = ({ data }: OneJob): readonly string[] => data.resources
    if (settings.plainWorkers) {
      const plain = lockedProcessor<JobData>(
        redlock,
        {
          ...{ resource, ...leased },
          onRequeued: ({ id = '' }) => {
            this.#seen({ kind: 'requeued', worker: setup.name, id, at: machineMs() })
          },
          onLeaseLost: ({ id = '' }) => {
            this.#seen({ kind: 'leaseLost', worker: setup.name, id, at: machineMs() })
          },
        },
        processor,
      )
      this.worker = new Worker<JobData>(setup.queue, plain, {
        // A command that is given up while BullMQ's worker starts fails it for good: it then calls
        // again without a pause, which fills this process' memory.
        connection: { ...connection, maxRetriesPerRequest: null },
        ...{ lockDuration: 2_000, stalledInterval: 400, maxStalledCount: 5 },
        ...bullmqOptions(setup),
      })
      plain.watch(this.worker)
    } else {
      const { order, onFailure, checkpoints, burstMs, dedupe, shards } = settings
      const options: LockedWorkerOptions<JobData> = {
        ...{ connection, redlock, resource, order, onFailure, checkpoints, burstMs },
        ...{ ...leased, ...bullmqOptions(setup) },
        ...(settings.tuned && { maxValueBytes: 100_000, jobLogLevel: 'info' }),
        ...(dedupe !== undefined && {
          dedupe: {
            resultTtlMs: 60_000,
            ...(dedupe.fresh && { fresh: true }),
            ...(dedupe.byKey && { key: ({ data }: OneJob) => data.key }),
          },
        }),
      }
      this.worker =
        shards === undefined
          ? new LockedWorker<JobData>(setup.queue, processor, options)
          : (new ShardedWorker<JobData>(setup.queue, processor, {
              ...{ ...options, shards },
            }) as never)
    }
    if (bullmqOptions(setup).autorun === false) this.worker.run().catch(() => undefined)
    this.#listen()
  }

  /** As a `ShardedWorker` is one too. */
  get #locked(): LockedWorker<JobData> | undefined {
    return this.#setup.settings.plainWorkers ? undefined : (this.worker as never)
  }

  async obey(command: Command): Promise<unknown> {
    const { worker } = this
    switch (command.do) {
      case 'close':
        await worker.close(command.force)
        return this.#closeChildren()
      case 'drain':
        await (this.#locked?.drain(command) ?? worker.close())
        return this.#closeChildren()
      case 'pause':
        return worker.pause(true)
      case 'resume':
        return worker.resume()
      case 'cut':
        return cutConnection(worker)
      case 'cancel':
        return worker.cancelJob(command.id)
      case 'cancelAll':
        worker.cancelAllJobs()
        return undefined
      case 'setConcurrency':
        worker.concurrency = command.most
        return undefined
      case 'ask':
        return this.#ask(command.id, command.resource)
      case 'stepClock':
        return undefined // It is that of the process.
    }
  }

  async #ask(id: string, resource: string): Promise<unknown> {
    const worker = this.#locked
    if (worker === undefined) return undefined
    const [why, { line }] = await Promise.all([worker.why(id), worker.inspect(resource)])
    return { why, line: line.length, runs: this.worker.isRunning(), rests: this.worker.isPaused() }
  }

  /** A run that was left behind may still want to add some. */
  async #closeChildren(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#children.values()].map((queue) => queue.close()))
  }

  #listen(): void {
    const worker = this.#setup.name
    const tell =
      (kind: 'active' | 'leaseLost' | 'requeued' | 'completed') =>
      ({ id = '' }: { id?: string | undefined }): void => {
        this.#seen({ kind, worker, id, at: machineMs() })
      }
    this.worker.on('active', tell('active'))
    this.#locked?.on('leaseLost', tell('leaseLost'))
    this.#locked?.on('requeued', tell('requeued'))
    this.worker.on('completed', tell('completed'))
    this.worker.on('stalled', (id) => {
      this.#seen({ kind: 'stalled', worker, id, at: machineMs() })
    })
    this.worker.on('lockRenewalFailed', (ids) => {
      for (const id of ids) this.#seen({ kind: 'lockLost', worker, id, at: machineMs() })
    })
    this.worker.on('failed', (job, { message }) => {
      const id = job?.id ?? ''
      this.#seen({ kind: 'failed', worker, id, reason: message, at: machineMs() })
    })
    this.worker.on('error', ({ message, name }) => {
      this.#seen({ kind: 'error', worker, message: `${name}: ${message}`, at: machineMs() })
    })
  }

  async #run(job: OneJob, lease: JobLease, batch: string | undefined): Promise<unknown> {
    const { id = '', timestamp, data, name, attemptsMade } = job
    const { uid, resources, key } = data
    const run = `${this.#setup.name}.${++this.#runs}`
    const instance = instanceOf({ uid, id, timestamp })
    this.#seen({
      ...{ kind: 'started', worker: this.#setup.name, run, batch, id, timestamp, uid, name, key },
      ...{ attempt: attemptsMade, resources, fencingToken: lease.fencingToken, at: machineMs() },
      trustedUntil: lease.trustedUntil + SHIFT_MS,
    })
    const end = (outcome: 'done' | 'failed', error?: string): void => {
      this.#seen({
        ...{ kind: 'ended', run, outcome, at: machineMs() },
        ...(error !== undefined && { error }),
        trustedUntil: lease.trustedUntil + SHIFT_MS,
      })
    }
    const stopped = (): void => {
      const why: unknown = lease.signal.reason
      const reason = why instanceof Error ? `${why.name}: ${why.message}` : String(why)
      const trustedUntil = lease.trustedUntil + SHIFT_MS
      this.#seen({ kind: 'stopped', run, reason, at: machineMs(), trustedUntil })
    }
    // A run may be cancelled before it begins.
    if (lease.signal.aborted) stopped()
    else lease.signal.addEventListener('abort', stopped)
    try {
      await this.#work(job, lease, run, instance)
      if (this.#forgotten.has(run)) end('failed', 'StepNotAwaitedError')
      else end('done')
      return { uid, instance, run, key: [name, ...resources].join(JOIN) }
    } catch (error) {
      end('failed', error instanceof Error ? `${error.name}: ${error.message}` : String(error))
      throw error
    }
  }

  async #work(job: OneJob, lease: JobLease, run: string, instance: string): Promise<void> {
    const { data, attemptsMade } = job
    const { work } = data
    const signal = work.isDeaf === true ? undefined : lease.signal
    if (work.restMs !== undefined && attemptsMade === 0 && !this.#rested.has(instance)) {
      this.#rested.add(instance)
      throw await lease.rateLimit(work.restMs)
    }
    if (work.moves !== undefined && !this.#moved.has(instance)) {
      this.#moved.add(instance)
      const hasMoved = work.moves === 'children' && (await hasChildren(job))
      if (!hasMoved) await this.#move(job, lease, work.moves)
    }
    if (work.forgets === true) {
      const late = lease.step(`forgotten${attemptsMade}`, async () => {
        await pause(FORGOTTEN_MS, signal)
      })
      this.#forgotten.add(run)
      const isOver = (): void => {
        this.#forgotten.delete(run)
        this.#seen({ kind: 'forgotten', run, at: machineMs() })
      }
      late.then(isOver, isOver)
    }
    if (work.tells === true) {
      await Promise.all([job.updateProgress(50), job.log('half'), lease.extend()])
    }
    for (let index = 0; index < work.steps; index += 1) {
      const step = `s${index}`
      const value = await lease.step(step, async () => {
        this.#seen({ kind: 'step', run, step, at: machineMs() })
        await pause(work.ms / work.steps, signal)
        return { of: instance }
      })
      this.#seen({ kind: 'stepValue', run, step, of: value.of })
      if (index === 0 && attemptsMade < work.fails) throw planned(work.isFinal)
    }
    if (work.steps === 0) await pause(work.ms, signal)
    if (attemptsMade < work.fails) throw planned(work.isFinal)
  }

  async #move(job: OneJob, lease: JobLease, how: NonNullable<Work['moves']>): Promise<void> {
    const token = String(lease)
    if (how === 'delay') {
      await job.moveToDelayed(Date.now() + MOVED_MS, token)
      throw new DelayedError()
    }
    if (how === 'wait') {
      await job.moveToWait(token)
      throw new WaitingError()
    }
    if (this.#isClosed) throw new Error('The worker is closed')
    const { queue, connection } = this.#setup
    const prefix = job.queueQualifiedName.slice(0, -queue.length - 1)
    const children = getOrInsert(this.#children, prefix, () =>
      new Queue<JobData>(queue, { connection, prefix }).on('error', () => undefined),
    )
    const { uid } = job.data
    const work = { ms: MOVED_MS, fails: 0, steps: 0 }
    const parent = { id: job.id ?? '', queue: job.queueQualifiedName }
    const jobId = `${uid}-child-${job.timestamp}`
    await children.add(
      'job',
      { ...job.data, uid: `${uid}+`, work },
      { parent, jobId, ignoreDependencyOnFailure: true },
    )
    if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError()
  }

  readonly #moved = new Set<string>()

  /** Runs with a step that they do not wait for. */
  readonly #forgotten = new Set<string>()

  /** Jobs that have put their resource to sleep here. */
  readonly #rested = new Set<string>()
}

async function hasChildren(job: OneJob): Promise<boolean> {
  const counts = await job.getDependenciesCount()
  return Object.values(counts).some((count) => count > 0)
}

function planned(isFinal: boolean | undefined): Error {
  const error = new Error('planned failure')
  if (isFinal === true) error.name = 'UnrecoverableError'
  return error
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal?.aborted === true) stop()
    else signal?.addEventListener('abort', stop, { once: true })
  })
}

function leasedOptions({ slots, slotsByJob, maxWaitMs, tuned }: Settings): {
  readonly slots?: number
  readonly maxWaitMs?: number
  readonly maxHoldMs?: number
} {
  return {
    ...(slots > 1 && !slotsByJob && { slots }),
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    ...(tuned && { maxHoldMs: 60_000 }),
  }
}

function bullmqOptions({ name, settings }: HostSetup): Omit<WorkerOptions, 'connection'> {
  const { concurrency, limiter, removeOnComplete, removeOnFail, prefix, tuned } = settings
  const keep = (value: boolean | number): { count: number } => ({
    count: typeof value === 'number' ? value : value ? 0 : -1,
  })
  const backoffStrategy = (attemptsMade: number): number => 5 * attemptsMade
  return {
    ...{ concurrency, prefix, settings: { backoffStrategy } },
    ...(limiter !== undefined && { limiter }),
    ...(removeOnComplete !== undefined && { removeOnComplete: keep(removeOnComplete) }),
    ...(removeOnFail !== undefined && { removeOnFail: keep(removeOnFail) }),
    ...(tuned && {
      ...{ name, drainDelay: 1, lockDuration: 2_000, lockRenewTime: 500, stalledInterval: 400 },
      ...{ maxStalledCount: 5, runRetryDelay: 500, maximumRateLimitDelay: 100 },
      ...{
        metrics: { maxDataPoints: 10 },
        skipStalledCheck: name === 'w0',
        autorun: name !== 'w0',
      },
    }),
  }
}

/** Breaks the connection of a queue or worker to Redis. It connects again. */
export async function cutConnection(owner: Owner): Promise<void> {
  for (const each of owner.shards ?? [owner]) {
    const { connection } = each.getBackend() as {
      readonly connection: { readonly client: Promise<{ stream?: { destroy(): void } }> }
    }
    const client = await connection.client
    client.stream?.destroy()
  }
}

interface Owner {
  getBackend(): unknown
  readonly shards?: readonly Owner[]
}
