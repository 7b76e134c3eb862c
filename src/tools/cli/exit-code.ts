/** How a command ends. */
import { once } from 'node:events'

/** The numbers are documented; scripts rely on them. */
export const EXIT = {
  done: 0,
  /** It ran, and found or left something that needs attention. */
  attention: 1,
  usage: 2,
  /** Fewer than a quorum of the masters answer or vote. */
  noQuorum: 3,
  interrupted: 130,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** A command line or configuration that cannot be run. The message says what to write. */
export class UsageError extends Error {
  readonly code = 'USAGE'
  override readonly name = 'UsageError'
}

/**
 * The first SIGINT or SIGTERM asks the command to end; a second one ends the process at once.
 * @returns what aborts with the name of the signal as its reason.
 */
export function watchSignals(): Disposable & { readonly signal: AbortSignal } {
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
