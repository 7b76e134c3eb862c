/** A `LockedWorker` whose processor does what the jobs say, and reports all that it sees. */
import type { Job } from 'bullmq'
import {
  batchProcessor,
  LockedWorker,
  silentLogger,
  type JobLease,
  type LockedWorkerOptions,
  type LockService,
} from '../../src/index.ts'
import type { JobData, Settings } from './plan.ts'
import { instanceOf, machineMs, type Seen } from './seen.ts'

export interface HostSetup {
  readonly name: string
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly settings: Settings
  readonly leaseMs: number
}

type OneJob = Job<JobData>

const JOIN = '\u0000'

export class WorkerHost {
  readonly worker: LockedWorker<JobData>
  readonly #setup: HostSetup
  readonly #seen: (event: Seen) => void
  #runs = 0
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
    this.worker = new LockedWorker<JobData>(setup.queue, processor, {
      connection: { ...setup.connection, retryStrategy: () => 50 },
      redlock,
      resource: ({ data }) => data.resources,
      ...workerOptions(settings),
      leaseMs: setup.leaseMs,
      logger: silentLogger,
    })
    this.#listen()
  }

  #listen(): void {
    const worker = this.#setup.name
    const tell =
      (kind: 'active' | 'leaseLost' | 'requeued' | 'completed') =>
      ({ id = '' }: { id?: string | undefined }): void => {
        this.#seen({ kind, worker, id, at: machineMs() })
      }
    this.worker.on('active', tell('active'))
    this.worker.on('leaseLost', tell('leaseLost'))
    this.worker.on('requeued', tell('requeued'))
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
    const shift = machineMs() - performance.now()
    this.#seen({
      ...{ kind: 'started', worker: this.#setup.name, run, batch, id, timestamp, uid, name, key },
      ...{ attempt: attemptsMade, resources, fencingToken: lease.fencingToken, at: machineMs() },
      trustedUntil: lease.trustedUntil + shift,
    })
    const end = (outcome: 'done' | 'failed', error?: string): void => {
      this.#seen({
        ...{ kind: 'ended', run, outcome, at: machineMs() },
        ...(error !== undefined && { error }),
        trustedUntil: lease.trustedUntil + shift,
      })
    }
    lease.signal.addEventListener('abort', () => {
      const why: unknown = lease.signal.reason
      const reason = why instanceof Error ? `${why.name}: ${why.message}` : String(why)
      this.#seen({ kind: 'stopped', run, reason, at: machineMs() })
    })
    try {
      await this.#work(job, lease, run, instance)
      end('done')
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

  /** Jobs that have put their resource to sleep here. */
  readonly #rested = new Set<string>()
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

/** Those that the plan says. */
function workerOptions(settings: Settings): Partial<LockedWorkerOptions<JobData>> {
  const { order, onFailure, dedupe, checkpoints, burstMs, maxWaitMs, limiter } = settings
  const { slots, slotsByJob, concurrency, removeOnComplete, removeOnFail } = settings
  const keep = (value: boolean | number): { count: number } => ({
    count: typeof value === 'number' ? value : value ? 0 : -1,
  })
  return {
    ...{ order, onFailure, checkpoints, burstMs, concurrency },
    ...(slots > 1 && !slotsByJob && { slots }),
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    ...(limiter !== undefined && { limiter }),
    ...(removeOnComplete !== undefined && { removeOnComplete: keep(removeOnComplete) }),
    ...(removeOnFail !== undefined && { removeOnFail: keep(removeOnFail) }),
    ...(dedupe !== undefined && {
      dedupe: {
        resultTtlMs: 60_000,
        ...(dedupe.fresh && { fresh: true }),
        ...(dedupe.byKey && { key: ({ data }: Job<JobData>) => data.key }),
      },
    }),
  }
}

/** Breaks the connection of a queue or worker to Redis. It connects again. */
export async function cutConnection(owner: { getBackend(): unknown }): Promise<void> {
  const { connection } = owner.getBackend() as {
    readonly connection: { readonly client: Promise<{ stream?: { destroy(): void } }> }
  }
  const client = await connection.client
  client.stream?.destroy()
}
