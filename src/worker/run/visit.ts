/** One job in this worker, from the fetch to the trip that ends it, and its one signal. */
import { setMaxListeners } from 'node:events'
import pRetry from 'p-retry'
import type { Channel } from '../../channel.ts'
import { leave } from '../../clock.ts'
import { LineVisit } from '../../line/visit.ts'
import type { Lease } from '../../lock/lease.ts'
import { LeaseLostError } from '../../lock-errors.ts'
import { messageOf } from '../../message-of.ts'
import { causeOf } from './failure.ts'
import type { SharedResult } from './shared-results.ts'

/** The jobs of a line under one lease, which is passed on. */
export interface Chain {
  /** Of the job that runs. */
  lease: Lease
  /** No client waited for it at this time, on the monotonic clock. */
  unwantedAt: number
}

/** BullMQ ends it, or starts it, before it expires: else its lease is released. */
export class Visit extends LineVisit {
  /** BullMQ's lock on the job was confirmed at this time, on the monotonic clock. */
  startedAt: number | undefined
  stop!: JobSignal
  /** Of the job before it in its line, or its own; in a batch that of the first job. */
  lease: Lease | undefined
  /** Of its line, where the job before it left it the lease. */
  chain: Chain | undefined
  /** The job before it, which left it the lease, had done its work at this time. */
  leftAt: number | undefined
  /** What it shares with other jobs, with `dedupe`. */
  shared: SharedResult | undefined
  /** The first job of its batch, which may be itself. */
  first: Visit | undefined
  /** What becomes of it in its batch, where it is not the first job. */
  outcome: Promise<PromiseSettledResult<unknown>> | undefined
  /** It was cancelled in a batch. The other jobs continue. */
  cancelled: Error | undefined
  /** Its lease was found lost at this time, on the monotonic clock. */
  lostAt: number | undefined
  /** Ends the job without its processor. */
  giveUp: ((error: Error) => void) | undefined
  /** Its resource sleeps until then, on the monotonic clock: it has called `lease.rateLimit()`. */
  asleepUntil: number | undefined
  /** It had done its work at this time. */
  endedAt = 0
  /** Of its worker, which shares its permits. */
  asked: ((visit: Visit, trip: Promise<unknown>) => void) | undefined

  /** It does nothing until the queue's server answers. */
  awaits<Answer>(trip: Promise<Answer>): Promise<Answer> {
    this.asked?.(this, trip)
    return trip
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

/** Why a lease that was not released may not be trusted any more, if so. */
export function lossOf(lease: Lease | undefined): LeaseLostError | undefined {
  try {
    lease?.assertHeld()
    return undefined
  } catch (error) {
    return error instanceof LeaseLostError ? error : undefined
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

const RETRY_MS = { minTimeout: 50, maxTimeout: 2_000 }

/** A job that was not started has to be given back. */
export class NotStarted extends Error {}

/**
 * Repeats what a server refused, until it is done or the job's signal aborts: until the processor
 * has been called, no error of a server costs an attempt, and results are stored as patiently.
 */
export async function insist<Value>(
  visit: Visit,
  channel: Channel,
  action: () => Promise<Value>,
): Promise<Value> {
  try {
    return await action()
  } catch (error) {
    return again(visit, channel, action, error)
  }
}

/** The same while the job is ours. @throws NotStarted when it must stop. */
export async function insistToStart<Value, Host extends { readonly channel: Channel }>(
  visit: Visit,
  host: Host,
  action: (visit: Visit, host: Host) => Promise<Value>,
): Promise<Value> {
  try {
    return await action(visit, host)
  } catch (error) {
    const repeated = again(visit, host.channel, () => action(visit, host), error)
    return repeated.catch((cause: unknown) => {
      throw causeOf(cause) === 'final' ? cause : new NotStarted('It could not start', { cause })
    })
  }
}

async function again<Value>(
  { job, stop: { signal } }: Visit,
  channel: Channel,
  action: () => Promise<Value>,
  refusal: unknown,
): Promise<Value> {
  const isTemporary = ({ error }: { readonly error: unknown }): boolean =>
    causeOf(error) === 'temporary'
  if (!isTemporary({ error: refusal })) throw refusal
  channel.tell('job:server-refused', { job: job.id, reason: messageOf(refusal) })
  const shouldRetry = isTemporary
  return pRetry(action, { ...RETRY_MS, retries: Infinity, randomize: true, signal, shouldRetry })
}
