/**
 * Time, passed in. The only file that touches timers, `performance.now` and `Date.now`.
 *
 * Validity is counted on the monotonic clock. That clock stands still while a virtual machine is
 * suspended, so a lease is also over when the wall clock says so.
 */

/** A started timer. */
export interface Timer {
  cancel(): void
}

export interface Clock {
  /** Monotonic milliseconds, with fractions; only differences mean anything. */
  now(): number
  /** Milliseconds since 1970 as the operating system has them; may jump. */
  wallNow(): number
  /** Calls `run` once, `delayMs` from now, unless cancelled. */
  after(delayMs: number, run: () => void): Timer
  /** A number in [0, 1), for jitter. */
  random(): number
}

/** The longest delay that `setTimeout` takes; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

class SystemTimer implements Timer {
  readonly #timeout: NodeJS.Timeout

  constructor(timeout: NodeJS.Timeout) {
    this.#timeout = timeout
  }

  cancel(): void {
    clearTimeout(this.#timeout)
  }
}

export const systemClock: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  after(delayMs, run) {
    return new SystemTimer(setTimeout(run, Math.min(Math.max(delayMs, 0), MAX_TIMER_MS)))
  },
  random: () => Math.random(),
}

/** Calls `run` once, when everything that this turn of the event loop has set off has been done. */
export function atEndOfTurn(run: () => void): void {
  setImmediate(run)
}

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error)
      return
    }
    const onAbort = (): void => {
      timer.cancel()
      reject(signal?.reason as Error)
    }
    const timer = clock.after(delayMs, () => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    })
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** What `promise` resolves to, or undefined where that takes longer than `limitMs`. Rejects as `promise` does. */
export function withinMs<Value>(
  clock: Clock,
  limitMs: number,
  promise: Promise<Value>,
): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    const late = clock.after(limitMs, () => {
      resolve(undefined)
    })
    promise
      .finally(() => {
        late.cancel()
      })
      .then(resolve, reject)
  })
}
