/** The first SIGINT or SIGTERM asks the command to end; a second one ends the process at once. */
import { once } from 'node:events'
import { EXIT } from './exit-code.ts'

export interface Interruption extends Disposable {
  /** Aborts with the name of the signal as its reason. */
  readonly signal: AbortSignal
}

export function watchSignals(): Interruption {
  const stop = new AbortController()
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(EXIT.interrupted)
    stop.abort(signal)
  }
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal)
  return {
    signal: stop.signal,
    [Symbol.dispose]: () => {
      process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
    },
  }
}

/** Resolves when the signal aborts. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}
