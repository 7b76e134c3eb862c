/**
 * The loop behind `acquire`: attempts until one is granted or the time is over. Where the resource
 * is taken, the waiter sleeps until its turn, or until the holder's lease must be over. Where it
 * has no holder, or no release would be announced, the delays are random and longer than a round
 * trip.
 */
import pRetry from 'p-retry'
import { jitteredMs } from '../backoff.ts'
import type { Clock } from '../clock.ts'
import { ResourceTakenError } from '../errors.ts'
import { turnMs, type TurnWatch } from './announcements.ts'
import type { Lease } from '../lock/lease.ts'
import { outcomeError, type AcquireOutcome } from '../lock/outcome.ts'

export interface RetryOptions {
  readonly clock: Clock
  /** Before the first attempt, from which `waitMs` counts. */
  readonly startedAt: number
  readonly waitMs: number
  /** What the first attempt came to. */
  readonly first: AcquireOutcome
  readonly signal: AbortSignal | undefined
  /** One attempt; `waitMs` is what is left of the waiting. */
  attempt(waitMs: number): Promise<AcquireOutcome>
  /** The duration of the last attempt. */
  roundTripMs(): number
  listen(): TurnWatch
  /** Had to wait, and waits no longer. */
  readonly stopped: (granted: boolean) => void
}

const MIN_DELAY_MS = 2
const MAX_DELAY_MS = 200
/** Announcements may be lost: no waiter sleeps longer for want of one. */
const MAX_SLEEP_MS = 1_000
/** Waiters for the end of a lease that is not announced spread over this number of round trips. */
const SPREAD_TRIPS = 4

const RETRYABLE = new Set(['RESOURCE_TAKEN', 'SPLIT_VOTE', 'QUORUM_UNREACHABLE'])

/** @throws the last attempt's error, the signal's reason, or whatever `attempt` throws. */
export async function acquireWithin(options: RetryOptions): Promise<Lease> {
  const { clock, signal } = options
  const deadline = options.startedAt + options.waitMs
  const listening = options.waitMs > 0 ? options.listen() : undefined
  const tryOnce = async (): Promise<Lease> => {
    signal?.throwIfAborted()
    listening?.forget()
    return leaseOf(await options.attempt(Math.max(0, Math.ceil(deadline - clock.now()))))
  }
  const leaseOf = async (outcome: AcquireOutcome): Promise<Lease> => {
    if (outcome.status !== 'granted') throw outcomeError(outcome)
    if (signal?.aborted !== true) return outcome.lease
    await outcome.lease.release()
    throw signal.reason
  }
  const goesOn = (error: unknown): error is Error => isRetryable(error) && clock.now() < deadline
  let blindTries = 0
  const pause = async (error: Error): Promise<void> => {
    const roundTripMs = Math.max(MIN_DELAY_MS, options.roundTripMs())
    const random = clock.random()
    const isAnnounced = listening?.live === true && error instanceof ResourceTakenError
    blindTries = isAnnounced ? 0 : blindTries + 1
    const delayMs = isAnnounced
      ? Math.min(error.retryAfterMs, MAX_SLEEP_MS) + random * SPREAD_TRIPS * roundTripMs
      : jitteredMs(blindTries, roundTripMs, Math.max(roundTripMs, MAX_DELAY_MS), random)
    const leftMs = deadline - clock.now()
    await untilTurn(clock, Math.min(leftMs, delayMs), listening, roundTripMs, signal)
  }
  const retry = async (error: Error): Promise<Lease> => {
    await pause(error)
    return pRetry(tryOnce, {
      retries: Infinity, // Bounded by the deadline.
      minTimeout: 0, // The delay is ours: it depends on the round trip and runs on our clock.
      shouldRetry: ({ error: why }) => goesOn(why),
      onFailedAttempt: ({ error: why }) => (goesOn(why) ? pause(why) : undefined),
    }).catch((why: unknown) => {
      signal?.throwIfAborted() // p-retry wraps a reason that is not an Error.
      throw why
    })
  }
  try {
    return await leaseOf(options.first)
  } catch (error) {
    if (!goesOn(error)) throw error
    const lease = await retry(error).catch((why: unknown) => {
      options.stopped(false)
      throw why
    })
    options.stopped(true)
    return lease
  } finally {
    listening?.stop()
  }
}

/**
 * Sleeps until it is this waiter's turn, and at most `delayMs`; less when it is one of the next.
 */
function untilTurn(
  clock: Clock,
  delayMs: number,
  listening: TurnWatch | undefined,
  roundTripMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const startedAt = clock.now()
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      timer.cancel()
      signal?.removeEventListener('abort', abort)
      listening?.forget()
    }
    const end = (): void => {
      settle()
      resolve()
    }
    const abort = (): void => {
      settle()
      reject(signal?.reason as Error)
    }
    let timer = clock.after(delayMs, end)
    if (signal?.aborted === true) {
      abort()
      return
    }
    signal?.addEventListener('abort', abort, { once: true })
    listening?.onTurn((place) => {
      if (place === 0) {
        end()
        return
      }
      timer.cancel()
      const leftMs = startedAt + delayMs - clock.now()
      timer = clock.after(Math.min(leftMs, place * turnMs(roundTripMs)), end)
    })
  })
}

function isRetryable(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && RETRYABLE.has(String(error.code))
}
