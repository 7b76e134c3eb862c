/**
 * The one signal of a running job. It aborts for the first of: the lease is lost, BullMQ's own lock on the job
 * is lost, the job is cancelled, or the worker shuts down past its limit. The reason is always an
 * Error that says which. It is made when somebody asks for it: many jobs are over before, and it costs as much as a command.
 * So does BullMQ's own, which `LockedWorker` therefore does not ask for.
 */
export class JobSignal {
  readonly #sources: (() => AbortSignal)[] = []
  readonly #unlink: (() => void)[] = []
  #abort: AbortController | undefined
  #reason: Error | undefined
  #isOver = false

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#reason !== undefined) this.#abort.abort(this.#reason)
      for (const source of this.#sources) this.#listen(source())
    }
    return this.#abort.signal
  }

  abort(reason: Error): void {
    if (this.#isOver) return
    this.#reason ??= reason
    this.#abort?.abort(reason)
  }

  /** As BullMQ cancels a job. */
  cancel(why: string | undefined): void {
    this.abort(asError(why))
  }

  /** One source more, before anybody asks for the signal; it is asked for when that is. */
  follow(source: () => AbortSignal): void {
    this.#sources.push(source)
  }

  /** The job has ended: the signal stays as it is, and the sources are let go of. */
  end(): void {
    this.#isOver = true
    this.#sources.length = 0
    for (const unlink of this.#unlink.splice(0)) unlink()
  }

  #listen(source: AbortSignal): void {
    const onAbort = (): void => {
      this.abort(asError(source.reason))
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

function asError(reason: unknown): Error {
  if (reason instanceof Error && reason.name !== 'AbortError') return reason
  const why = typeof reason === 'string' ? `: ${reason}` : ''
  return new Error(`The job was cancelled${why}`, { cause: reason })
}
