/**
 * The one signal of a running job. It aborts for the first of: the lease is lost, BullMQ's own lock
 * on the job is lost, the job is cancelled, or the worker shuts down past its limit. The reason
 * says which. The signal is made when it is asked for: many jobs end before, and it costs as much
 * as a command. So does BullMQ's own, which `LockedWorker` therefore does not ask for.
 */
import type { Lease } from '../../lock/lease.ts'

export class JobSignal {
  /** BullMQ's, of a worker that asks for it. */
  readonly #given: AbortSignal | undefined
  #lease: Pick<Lease, 'signal'> | undefined
  #unlink: (() => void)[] | undefined
  #abort: AbortController | undefined
  #early: { readonly reason: unknown } | undefined
  #isOver = false

  constructor(given: AbortSignal | undefined) {
    this.#given = given
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
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
    const abort: { readonly signal: { readonly reason: unknown } } | undefined = this.#abort
    return abort === undefined ? this.#early?.reason : abort.signal.reason
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
    this.#lease = undefined
    for (const unlink of this.#unlink ?? []) unlink()
    this.#unlink = undefined
  }

  #listen(source: AbortSignal): void {
    const onAbort = (): void => {
      this.abort(source.reason)
    }
    if (source.aborted) {
      onAbort()
      return
    }
    source.addEventListener('abort', onAbort, { once: true })
    const unlink = (): void => {
      source.removeEventListener('abort', onAbort)
    }
    this.#unlink = [...(this.#unlink ?? []), unlink]
  }
}
