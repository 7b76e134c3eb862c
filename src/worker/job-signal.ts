/**
 * The one signal of a running job. It aborts for the first of: the lease is lost, BullMQ's own lock on the job
 * is lost, the job is cancelled through BullMQ, or the worker shuts down past its limit. The reason is always an
 * Error that says which.
 */
export class JobSignal {
  readonly #abort = new AbortController()
  readonly #unlink: (() => void)[] = []

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  abort(reason: Error): void {
    this.#abort.abort(reason)
  }

  follow(source: AbortSignal | undefined): void {
    if (source === undefined) return
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

  /** Lets go of the sources; the signal stays as it is. */
  end(): void {
    for (const unlink of this.#unlink.splice(0)) unlink()
  }
}

function asError(reason: unknown): Error {
  if (reason instanceof Error && reason.name !== 'AbortError') return reason
  const why = typeof reason === 'string' ? `: ${reason}` : ''
  return new Error(`The job was cancelled${why}`, { cause: reason })
}
