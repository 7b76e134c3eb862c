/**
 * The one signal of a running job. It aborts for the first of: the lease is lost, BullMQ's own lock
 * on the job is lost, the job is cancelled, or the worker shuts down past its limit. The reason
 * says which. The signal is made when it is asked for: many jobs end before, and it costs as much
 * as a command. So does BullMQ's own, which `LockedWorker` therefore does not ask for.
 */
export class JobSignal {
  readonly #sources: (() => AbortSignal)[] = []
  readonly #unlink: (() => void)[] = []
  #abort: AbortController | undefined
  #early: { readonly reason: unknown } | undefined
  #isOver = false

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#early !== undefined) this.#abort.abort(this.#early.reason)
      for (const source of this.#sources) this.#listen(source())
    }
    return this.#abort.signal
  }

  get isAborted(): boolean {
    return this.#early !== undefined
  }

  /** Why it was aborted, if it was. */
  get reason(): unknown {
    const abort: { readonly signal: { readonly reason: unknown } } | undefined = this.#abort
    return abort === undefined ? this.#early?.reason : abort.signal.reason
  }

  abort(reason: unknown): void {
    if (this.#isOver) return
    this.#early ??= { reason }
    this.#abort?.abort(reason)
  }

  /** One source more; it is asked for when the signal is. */
  follow(source: () => AbortSignal): void {
    if (this.#abort === undefined) this.#sources.push(source)
    else this.#listen(source())
  }

  /** The job has ended: the signal stays as it is, and the sources are let go of. */
  end(): void {
    this.#isOver = true
    this.#sources.length = 0
    for (const unlink of this.#unlink.splice(0)) unlink()
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
    this.#unlink.push(() => {
      source.removeEventListener('abort', onAbort)
    })
  }
}
