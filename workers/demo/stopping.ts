/** How the demo comes to its end: a signal, then everything closed. */

type StopSignal = 'SIGINT' | 'SIGTERM'

/** What must be closed at the end, last opened first. */
export class Closing {
  readonly #closers: (() => Promise<void> | void)[] = []

  add(close: () => Promise<void> | void): void {
    this.#closers.push(close)
  }

  async run(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close()
  }
}

export interface Stopping {
  /** The first signal that asks this process to stop. */
  readonly stopped: Promise<StopSignal>
  readonly signal: AbortSignal
  /** Gives the signals back to Node, so that a further one ends the process at once. */
  forget(): void
}

export function watchSignals(): Stopping {
  const stop = new AbortController()
  let forget = (): void => undefined
  const stopped = new Promise<StopSignal>((resolve) => {
    const onSignal = (signal: StopSignal): void => {
      forget()
      stop.abort()
      resolve(signal)
    }
    // A parent that is gone, however it ended, disconnects: then no process waits for this one.
    const onOrphaned = (): void => {
      onSignal('SIGTERM')
    }
    process.on('SIGINT', onSignal).on('SIGTERM', onSignal).on('disconnect', onOrphaned)
    process.channel?.unref()
    forget = () => {
      process.off('SIGINT', onSignal).off('SIGTERM', onSignal).off('disconnect', onOrphaned)
    }
  })
  return {
    stopped,
    signal: stop.signal,
    forget: () => {
      forget()
      stop.abort()
    },
  }
}
