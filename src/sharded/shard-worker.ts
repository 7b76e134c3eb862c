/** The worker of one shard, which fetches a job only with a permit of its process. */
import type { Job } from 'bullmq'
import { LineBackend } from '../line/line-backend.ts'
import { LockedWorker } from '../worker/locked-worker.ts'
import type { Permits } from './permits.ts'

export class ShardWorker extends LockedWorker {
  readonly #permits: Permits
  readonly #shard: number
  /** Jobs with a permit, by BullMQ's tokens: jobs that follow each other have the same one. */
  readonly #held = new Map<string, string | undefined>()
  #endWait = (): void => undefined

  constructor(
    shard: number,
    permits: Permits,
    ...args: ConstructorParameters<typeof LockedWorker>
  ) {
    super(...args)
    this.#shard = shard
    this.#permits = permits
    this.on('closing', () => {
      this.#endWait()
    })
  }

  protected override async moveToActive(token: string, name?: string): Promise<Job> {
    // BullMQ asks here too where a job goes back to the queue.
    if (this.#held.has(token)) return super.moveToActive(token, name)
    if (!(await this.#isPermitted())) return this.nextJobFromJobData()
    this.#held.set(token, undefined)
    return this.#keptFor(token, super.moveToActive(token, name))
  }

  override async processJob(job: Job, token: string, mayFetch = (): boolean => true): Promise<Job> {
    // Another job of a batch, whose first one has the permit.
    if (this.#held.get(token) !== job.id)
      return (await super.processJob(job, token, mayFetch)) as Job
    const fetches = (): boolean => mayFetch() && !this.#permits.yields(this.#shard)
    return this.#keptFor(token, super.processJob(job, token, fetches) as Promise<Job>)
  }

  /** The next job keeps the permit; without one, it is given back. */
  async #keptFor(token: string, next: Promise<Job | undefined>): Promise<Job> {
    let job: Job | undefined
    try {
      job = await next
      return job as Job // BullMQ's type leaves out that there may be none.
    } finally {
      if (job !== undefined) this.#held.set(token, job.id)
      else if (this.#held.delete(token)) this.#permits.give(this.#shard)
    }
  }

  async #isPermitted(): Promise<boolean> {
    if (this.#permits.take(this.#shard)) return true
    // Private in BullMQ's types. Without a mark, it starts no job that it has while it fetches one.
    const hasReadMark = Boolean((this as unknown as { readonly waiting: unknown }).waiting)
    // rule: process-without-a-permit-leaves-the-mark
    if (hasReadMark) await LineBackend.of(this).wakeWorker()
    else if (this.#held.size > 0) return false
    if (this.closing) return false
    const { granted, leave } = this.#permits.wait(this.#shard)
    this.#endWait = leave
    const isGranted = await granted
    // It may have been paused and resumed meanwhile, which an end of its loop would not survive.
    if (!isGranted || !this.paused) return isGranted
    this.#permits.give(this.#shard)
    return false
  }
}
