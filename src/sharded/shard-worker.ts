import type { Job } from 'bullmq'
import { systemClock, type Timer } from '../clock.ts'
import { LineBackend } from '../line/line-backend.ts'
import { LockedWorker } from '../worker/locked-worker.ts'
import type { Visits } from '../worker/run/visits.ts'

/** As many as jobs run at once in a process. */
export interface Permits {
  free: number
  readonly waiting: Map<ShardWorker, (isGranted: boolean) => void>
}

/** A server that takes longer to answer leaves its permit to other shards. */
const PATIENCE_MS = 1_000

/** Adds some, or takes some away: then jobs that run go on. */
export function addPermits(permits: Permits, count: number): void {
  permits.free += count
  const waiting = [...permits.waiting].sort(([a], [b]) => a.held.size - b.held.size)
  for (const [worker, settle] of waiting.slice(0, Math.max(permits.free, 0))) {
    permits.free--
    // rule: shard-that-waits-takes-one-permit
    permits.waiting.delete(worker)
    settle(true)
  }
}

/**
 * The worker of one shard. It begins when others are known to have as many shards. It fetches
 * a job only with a permit of its process, and keeps it from job to job, until a shard that waits
 * for one has none, or two fewer.
 */
export class ShardWorker extends LockedWorker {
  readonly #permits: Permits
  readonly #check: () => Promise<void>
  /** Jobs with a permit, by BullMQ's tokens: jobs that follow each other have the same one. */
  readonly held: Map<string, string | undefined> = new Map()
  /** Of those that wait for an answer of the server. */
  readonly #patience = new Map<string, Timer>()

  constructor(
    permits: Permits,
    check: () => Promise<void>,
    ...args: ConstructorParameters<typeof LockedWorker>
  ) {
    super(...args)
    this.#permits = permits
    this.#check = check
    this.on('closing', () => permits.waiting.get(this)?.(false))
    const visits = LineBackend.of(this).settings.visits as Visits
    visits.asked = (visit, trip) => {
      const { job, token = '' } = visit
      // Of a batch, the first job has its permit.
      if (this.held.get(token) !== job.id) return
      // rule: job-that-waits-for-an-answer-keeps-no-permit
      this.#asks(token)
      const answered = (): void => {
        if (visits.running.has(visit)) this.#hold(token, job.id)
      }
      trip.then(answered, answered)
    }
  }

  protected override async ready(): Promise<void> {
    // rule: worker-waits-for-the-first-shard
    await this.#check()
    await super.ready()
  }

  override run(): Promise<void> {
    const running = super.run()
    running.catch(() => undefined) // BullMQ's `resume` calls it, and does not look.
    return running
  }

  protected override async moveToActive(token: string, name?: string): Promise<Job> {
    // BullMQ asks here too where a job goes back to the queue. Its type leaves out that there may
    // be none; its loop takes `undefined` for no news.
    if (!this.held.has(token) && !(await this.#isPermitted())) return undefined as never
    this.held.set(token, undefined)
    this.#asks(token)
    return this.#keptFor(token, super.moveToActive(token, name))
  }

  override processJob(job: Job, token: string, mayFetch = (): boolean => true): Promise<Job> {
    const fetches = (): boolean => {
      if (this.held.get(token) === job.id) this.#asks(token)
      if (!mayFetch() || !this.held.has(token)) return false
      const { free, waiting } = this.#permits
      const { size } = this.held
      // rule: busy-shard-leaves-others-their-share
      const isDue = ({ held }: ShardWorker): boolean => held.size === 0 || held.size + 1 < size
      if (free < 0 || [...waiting.keys()].some(isDue)) this.#giveBack(token)
      return this.held.has(token)
    }
    const next = super.processJob(job, token, fetches) as Promise<Job>
    // The first job of a batch has its permit.
    return this.held.get(token) === job.id ? this.#keptFor(token, next) : next
  }

  /** The next job keeps the permit; without one, it is given back. */
  async #keptFor(token: string, next: Promise<Job | undefined>): Promise<Job> {
    const job = await next.catch((error: unknown) => {
      this.#giveBack(token)
      throw error
    })
    if (job === undefined) this.#giveBack(token)
    else this.#hold(token, job.id)
    return job as Job // BullMQ's type leaves out that there may be none.
  }

  /** No job runs, until the server answers. */
  #asks(token: string): void {
    if (this.#patience.has(token)) return
    // rule: silent-server-keeps-no-permit
    const late = systemClock.after(PATIENCE_MS, () => {
      this.#giveBack(token)
    })
    this.#patience.set(token, late)
  }

  #hold(token: string, jobId: string | undefined): void {
    this.#answered(token)
    // The job runs already: others give theirs back when they end.
    if (!this.held.has(token)) this.#permits.free--
    this.held.set(token, jobId)
  }

  #giveBack(token: string): void {
    this.#answered(token)
    if (this.held.delete(token)) addPermits(this.#permits, 1)
  }

  #answered(token: string): void {
    this.#patience.get(token)?.cancel()
    this.#patience.delete(token)
  }

  async #isPermitted(): Promise<boolean> {
    if (this.#permits.free > 0) return this.#permits.free-- > 0
    if (this.closing) return false
    const { waiting } = this.#permits
    const granted = new Promise<boolean>((settle) => waiting.set(this, settle))
    const lines = LineBackend.of(this)
    // Private in BullMQ's types: what its loop waits for. It starts other jobs meanwhile.
    const loop = this as unknown as { waiting: unknown }
    // rule: process-without-a-permit-leaves-the-mark
    if (loop.waiting !== null) void lines.wakeWorker().catch(() => undefined)
    // rule: next-job-waits-for-no-permit
    loop.waiting ??= granted
    const isGranted = await granted
    waiting.delete(this)
    if (loop.waiting === granted) loop.waiting = null
    // It may have been paused and resumed meanwhile, which an end of its loop would not survive.
    if (isGranted && this.paused) addPermits(this.#permits, 1)
    return isGranted && !this.paused
  }
}
