import type { Job } from 'bullmq'
import { atEndOfTurn } from '../clock.ts'
import { LineBackend } from '../line/line-backend.ts'
import { LockedWorker } from '../worker/locked-worker.ts'

/** As many as jobs run at once in a process. */
export interface Permits {
  free: number
  /** Tokens of jobs that end without a next one, because a shard waits. */
  readonly leaving: Set<string>
  readonly waiting: Map<ShardWorker, (isGranted: boolean) => void>
}

/** Adds some, or takes some away: then jobs that run go on. */
export function addPermits(permits: Permits, count: number): void {
  permits.free += count
  for (const [worker, settle] of [...permits.waiting].sort(([a], [b]) => a.used - b.used)) {
    if (permits.free <= 0) return
    permits.free--
    permits.waiting.delete(worker)
    settle(true)
  }
}

/**
 * The worker of one shard. It fetches a job only with a permit of its process, and keeps it from
 * job to job, until a shard that waits for one has none, or two fewer.
 */
export class ShardWorker extends LockedWorker {
  readonly #permits: Permits
  /** Jobs with a permit, by BullMQ's tokens: jobs that follow each other have the same one. */
  readonly #held = new Map<string, string | undefined>()

  constructor(permits: Permits, ...args: ConstructorParameters<typeof LockedWorker>) {
    super(...args)
    this.#permits = permits
    this.on('closing', () => permits.waiting.get(this)?.(false))
  }

  get used(): number {
    return this.#held.size
  }

  protected override async moveToActive(token: string, name?: string): Promise<Job> {
    // BullMQ asks here too where a job goes back to the queue.
    if (this.#held.has(token)) return super.moveToActive(token, name)
    // BullMQ's type leaves out that there may be none. Its loop takes `undefined` for no news.
    if (!(await this.#isPermitted())) return undefined as never
    this.#held.set(token, undefined)
    return this.#keptFor(token, super.moveToActive(token, name))
  }

  override processJob(job: Job, token: string, mayFetch = (): boolean => true): Promise<Job> {
    const { leaving, waiting } = this.#permits
    // rule: busy-shard-leaves-others-their-share
    const isDue = ({ used }: ShardWorker): boolean => used === 0 || used + 1 < this.used
    const fetches = (): boolean => {
      if (!mayFetch() || this.#permits.free < 0) return false
      // rule: shard-that-waits-takes-one-permit
      if ([...waiting.keys()].filter(isDue).length <= leaving.size) return true
      leaving.add(token)
      return false
    }
    const next = super.processJob(job, token, fetches) as Promise<Job>
    // The first job of a batch has its permit.
    return this.#held.get(token) === job.id ? this.#keptFor(token, next) : next
  }

  /** The next job keeps the permit; without one, it is given back. */
  async #keptFor(token: string, next: Promise<Job | undefined>): Promise<Job> {
    let job: Job | undefined
    try {
      job = await next
      return job as Job // BullMQ's type leaves out that there may be none.
    } finally {
      this.#permits.leaving.delete(token)
      if (job !== undefined) this.#held.set(token, job.id)
      else if (this.#held.delete(token)) addPermits(this.#permits, 1)
      // rule: next-job-waits-for-no-permit
      atEndOfTurn(() => this.#isHeldUp && this.#permits.waiting.get(this)?.(false))
    }
  }

  /** Whether its loop has jobs to start. Without a mark, it starts none while it fetches one. */
  get #isHeldUp(): boolean {
    const { waiting, mainLoopQueue } = this.#loop
    return waiting === null && (mainLoopQueue?.numQueued() ?? 0) > 0
  }

  /** Private in BullMQ's types. It waits while it reads marks. */
  get #loop(): { readonly waiting: unknown; readonly mainLoopQueue?: { numQueued(): number } } {
    return this as never
  }

  async #isPermitted(): Promise<boolean> {
    if (this.#permits.free > 0) return this.#permits.free-- > 0
    // rule: process-without-a-permit-leaves-the-mark
    if (this.#loop.waiting !== null) await LineBackend.of(this).wakeWorker()
    if (this.closing || this.#isHeldUp) return false
    const { waiting } = this.#permits
    const isGranted = await new Promise<boolean>((settle) => waiting.set(this, settle))
    waiting.delete(this)
    // It may have been paused and resumed meanwhile, which an end of its loop would not survive.
    if (isGranted && this.paused) addPermits(this.#permits, 1)
    return isGranted && !this.paused
  }
}
