import type { Job } from 'bullmq'
import { systemClock, withinMs } from '../clock.ts'
import { LineBackend } from '../line/line-backend.ts'
import { LockedWorker } from '../worker/locked-worker.ts'
import type { Visit } from '../worker/run/visits.ts'
import { Shards } from './shards.ts'

/** A server that takes longer to answer leaves its permits to other shards. */
const PATIENCE_MS = 1_000
/** A job that runs, or the question for one: it waits for an answer of the server since then. */
type Permit = Pick<Visit, 'waitsSince'>

/** The workers of a process. They have as many permits as jobs run at once. */
export class ShardWorkers extends Shards<ShardWorker> {
  /** Those that wait for a permit, and how they take it. */
  readonly waiting: Map<ShardWorker, () => void> = new Map()

  /** Whether as many permits are taken. */
  areTaken(permits: number): boolean {
    // rule: silent-server-keeps-no-permit
    const askedBefore = systemClock.now() - PATIENCE_MS
    let taken = 0
    for (const { held } of this.all) {
      for (const { waitsSince = Infinity } of held.values()) if (waitsSince > askedBefore) taken++
    }
    return taken >= permits
  }

  /** Those that wait take one each of what is free, first the one that has fewest. */
  grant(): void {
    const waiting = [...this.waiting].sort(([a], [b]) => a.held.size - b.held.size)
    for (const [worker, take] of waiting) {
      if (worker.closing || worker.isPaused() || this.areTaken(worker.concurrency)) continue
      // rule: shard-that-waits-takes-one-permit
      this.waiting.delete(worker)
      take()
    }
  }
}

/**
 * The worker of one shard. It begins when others are known to have as many shards. It fetches
 * a job only with a permit of its process, and keeps it from job to job, until a shard that waits
 * for one has none, or two fewer.
 */
export class ShardWorker extends LockedWorker {
  declare readonly shards: ShardWorkers
  /** By BullMQ's tokens: jobs that follow each other have the same one. */
  readonly held: Map<string, Permit> = new Map()
  /** Of all that ask its server, until it answers. A refusal is none, for a while. */
  #asked: Permit | undefined
  #refusedAt: number | undefined

  protected override async ready(): Promise<void> {
    // rule: worker-waits-for-the-first-shard
    await this.shards.check()
    await super.ready()
  }

  override run(): Promise<void> {
    const running = super.run()
    running.catch(() => undefined) // BullMQ's `resume` calls it, and does not look.
    return running
  }

  /**
   * It has no job, and asks for none. BullMQ's `pause` waits for a new connection as well: a client
   * of a cluster may wait for it without end, because it asks any node whether it is ready.
   */
  async rests(paused: Promise<void>): Promise<void> {
    const isPaused = paused.then(() => true)
    while ((await withinMs(systemClock, PATIENCE_MS, isPaused)) !== true) {
      if (this.held.size === 0 || this.closing) return
    }
  }

  protected override async moveToActive(token: string, name?: string): Promise<Job> {
    // BullMQ asks here too where a job goes back to the queue. Its type leaves out that there may
    // be none; its loop takes `undefined` for no news.
    if (!this.held.has(token) && !(await this.#isPermitted(token))) return undefined as never
    return this.#keptFor(token, super.moveToActive(token, name))
  }

  override processJob(job: Job, token: string, mayFetch = (): boolean => true): Promise<Job> {
    const fetches = (): boolean => {
      this.#asks(token)
      if (!mayFetch()) return false
      const { size } = this.held
      // rule: busy-shard-leaves-others-their-share
      const isDue = ({ held }: ShardWorker): boolean => held.size === 0 || held.size + 1 < size
      const isOver = this.shards.areTaken(this.concurrency + 1)
      if (isOver || [...this.shards.waiting.keys()].some(isDue)) this.#giveBack(token)
      return this.held.has(token)
    }
    return this.#keptFor(token, super.processJob(job, token, fetches) as Promise<Job>)
  }

  /** The next job keeps the permit; without one, it is given back. */
  async #keptFor(token: string, next: Promise<Job>): Promise<Job> {
    let job: Job | undefined
    try {
      job = await next
      this.#asked = this.#refusedAt = undefined
      return job
    } catch (error) {
      this.#refusedAt = systemClock.now()
      throw error
    } finally {
      const { visits } = LineBackend.of(this).settings
      // rule: job-that-waits-for-an-answer-keeps-no-permit
      const visit = visits?.waiting(job?.id ?? '') as Visit | undefined
      if (job === undefined) this.#giveBack(token)
      else this.held.set(token, visit ?? { waitsSince: undefined })
    }
  }

  #asks(token: string): void {
    const isOld = systemClock.now() - (this.#refusedAt ?? Infinity) > PATIENCE_MS
    // rule: old-refusal-is-forgotten
    if (isOld && ![...this.held.values()].includes(this.#asked as Permit)) this.#asked = undefined
    // rule: refusing-server-keeps-no-permit
    this.#asked ??= { waitsSince: systemClock.now() }
    this.held.set(token, this.#asked)
  }

  #giveBack(token: string): void {
    if (this.held.delete(token)) this.shards.grant()
  }

  async #isPermitted(token: string): Promise<boolean> {
    const { waiting } = this.shards
    const granted = new Promise<void>((settle) => {
      waiting.set(this, () => {
        this.#asks(token)
        settle()
      })
    })
    this.shards.grant()
    if (this.held.has(token)) return true
    // Private in BullMQ's types: what its loop waits for. It starts other jobs meanwhile.
    const loop = this as unknown as { waiting: unknown }
    // rule: process-without-a-permit-leaves-the-mark
    if (loop.waiting !== null)
      void LineBackend.of(this)
        .wakeWorker()
        .catch(() => undefined)
    // rule: next-job-waits-for-no-permit
    loop.waiting ??= granted
    while (!this.held.has(token) && !this.closing && !this.isPaused()) {
      await withinMs(systemClock, PATIENCE_MS / 4, granted)
      this.shards.grant() // A server may have become silent.
    }
    if (loop.waiting === granted) loop.waiting = null
    waiting.delete(this)
    return this.held.has(token)
  }
}
