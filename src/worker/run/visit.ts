/** One job in this worker, from the fetch to the trip that ends it, and its one signal. */
import type { AsyncResource } from 'node:async_hooks'
import { setMaxListeners } from 'node:events'
import type { Job } from 'bullmq'
import { leave, systemClock, type DeadlineQueue, type Expiring } from '../../clock.ts'
import type { Lease } from '../../lock/lease.ts'
import type { Join, LineVisit, Move, Turn } from '../../line/visit.ts'
import type { SharedResult } from './shared-results.ts'

/** A job of a batch that is not its first: it waits for what becomes of it. */
export interface Membership {
  readonly outcome: Promise<PromiseSettledResult<unknown>>
  /** To be called when its last trip is under way. */
  readonly sent: () => void
}

export class Visit implements LineVisit, Expiring {
  /** As the queue's Redis told it with the job. */
  readonly turn: Turn
  join: Join | undefined
  addNext: (() => Promise<unknown>) | undefined
  /** BullMQ's, once it starts the job. */
  job!: Job
  /** Of BullMQ's lock on the job. */
  token: string | undefined
  /** BullMQ's lock on the job was confirmed at this time, on the monotonic clock. */
  startedAt: number | undefined
  stop!: JobSignal
  resources: readonly string[] = []
  /** Its lines as the queue's Redis has them (JSON); '' for none. */
  lines: string
  /** Of the job before it in its line, or its own; in a batch that of the first job. */
  lease: Lease | undefined
  /** The job before it, which left it the lease, had done its work at this time. */
  leftAt: number | undefined
  /** What its line has used of its burst. */
  usedMs: number
  /** What it shares with other jobs, with `dedupe`. */
  shared: SharedResult | undefined
  /** The first job of its batch, which may be itself. */
  first: Visit | undefined
  member: Membership | undefined
  /** It was cancelled in a batch. The other jobs continue. */
  cancelled: Error | undefined
  /** Its lease was found lost at this time, on the monotonic clock. */
  lostAt: number | undefined
  /** Ends the job without its processor. */
  giveUp: ((error: Error) => void) | undefined
  /** Its resource sleeps until then, on the monotonic clock: it has called `lease.rateLimit()`. */
  asleepUntil: number | undefined
  /** It has done its work: how its last trip moves its lines. */
  move: Move | undefined
  /** It had done its work at this time. */
  endedAt = 0
  /** BullMQ ends it, or starts it, before then: else its lease is released. */
  queue: DeadlineQueue | undefined
  before: Expiring | undefined
  after: Expiring | undefined
  endsAt = 0
  /** The trace that what is done after its end belongs to, where a listener asks. */
  trace: AsyncResource | undefined

  constructor(turn: Turn) {
    this.turn = turn
    this.lines = turn.lines
    this.usedMs = turn.usedMs
  }

  /** @param signal BullMQ's, of a worker that asks for it. */
  start(job: Job, token: string | undefined, signal: AbortSignal | undefined): void {
    this.job = job
    this.token = token
    this.startedAt = systemClock.now()
    leave(this)
    this.stop = this.first?.stop ?? new JobSignal(signal)
  }

  /** The lease is no longer its own. */
  letGo(): Lease | undefined {
    const { lease } = this
    leave(this)
    this.lease = undefined
    return lease
  }

  expire(): void {
    void this.letGo()?.release()
  }
}

/**
 * The one signal of a running job. It aborts for the first of: the lease is lost, BullMQ's own lock
 * on the job is lost, the job is cancelled, or the worker shuts down past its limit. The reason
 * says which. The signal is made when it is asked for: many jobs end before, and it costs as much
 * as a command. So does BullMQ's own, which `LockedWorker` therefore does not ask for.
 */
export class JobSignal {
  /** BullMQ's, of a worker that asks for it. */
  readonly #given: AbortSignal | undefined
  #lease: Pick<Lease, 'signal'> | undefined
  #abort: AbortController | undefined
  #early: { readonly reason: unknown } | undefined
  #isOver = false

  constructor(given: AbortSignal | undefined) {
    this.#given = given
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      setMaxListeners(0, this.#abort.signal) // The jobs of a batch share it.
      if (this.#early !== undefined) this.#abort.abort(this.#early.reason)
      if (this.#given !== undefined) this.#listen(this.#given)
      if (this.#lease !== undefined) this.#listen(this.#lease.signal)
    }
    return this.#abort.signal
  }

  /** For the loss of its lease, only where the signal was asked for. */
  get isAborted(): boolean {
    if (this.#given?.aborted === true) this.abort(this.#given.reason)
    return this.#early !== undefined
  }

  /** Why it was aborted, if it was. */
  get reason(): unknown {
    return this.#early?.reason
  }

  abort(reason: unknown): void {
    if (this.#isOver) return
    // rule: first-reason-counts
    this.#early ??= { reason }
    this.#abort?.abort(reason)
  }

  /** Its signal is asked for when this one is. */
  follow(lease: Pick<Lease, 'signal'>): void {
    this.#lease = lease
    if (this.#abort !== undefined) this.#listen(lease.signal)
  }

  /** The job has ended: the signal stays as it is, and the sources are let go of. */
  end(): void {
    this.#isOver = true
    if (this.#abort !== undefined) {
      this.#given?.removeEventListener('abort', this)
      this.#lease?.signal.removeEventListener('abort', this)
    }
    this.#lease = undefined
  }

  /** One of the sources has aborted. */
  handleEvent({ target }: Event): void {
    this.abort((target as AbortSignal).reason)
  }

  #listen(source: AbortSignal): void {
    if (source.aborted) this.abort(source.reason)
    else source.addEventListener('abort', this)
  }
}
