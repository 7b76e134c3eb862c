/**
 * The loop behind `acquire`: attempts until one is granted or the time is over. Where the resource
 * is taken, the waiter sleeps until its turn, or until the holder's lease must be over. Where it
 * has no holder, or no release would be heard, the delays are random and longer than a round trip.
 */
import { jitteredMs } from '../backoff.ts'
import type { Clock } from '../clock.ts'
import type { Lease } from './lease.ts'
import { outcomeError, type AcquireOutcome } from './outcome.ts'
import { turnMs } from './trust.ts'

/** Tells a waiter when a resource is released. */
export interface Turns {
  /** A release would be heard. */
  isLive(): boolean
  /**
   * What is heard from now on, and what was heard since the last `forget`: 0 when it is this
   * waiter's turn, and n when n others are asked before it.
   */
  onTurn(react: (place: number) => void): void
  /** An attempt begins. */
  forget(): void
}

export interface Waiting {
  readonly clock: Clock
  /** Before the first attempt, from which `waitMs` counts. */
  readonly startedAt: number
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  /** Undefined where no release is announced. */
  readonly turns: Turns | undefined
  /** One attempt; `leftMs` is what is left of the waiting. */
  attempt(leftMs: number): Promise<AcquireOutcome>
  /** The duration of the last attempt. */
  tripMs(): number
}

const MIN_DELAY_MS = 2
const MAX_DELAY_MS = 200
/** Announcements may be lost: no waiter sleeps longer for want of one. */
const MAX_SLEEP_MS = 1_000
/** Waiters for the end of a lease that is not announced spread over this number of round trips. */
const SPREAD_TRIPS = 4

/**
 * @param first what the first attempt came to.
 * @throws the last attempt's error, the signal's reason, or whatever `attempt` throws.
 */
export async function waitFor(first: AcquireOutcome, waiting: Waiting): Promise<Lease> {
  const { clock, signal, turns } = waiting
  const deadline = waiting.startedAt + waiting.waitMs
  let outcome = first
  let blindTries = 0
  for (;;) {
    if (signal?.aborted === true && outcome.status === 'granted') await outcome.lease.release()
    signal?.throwIfAborted()
    if (outcome.status === 'granted') return outcome.lease
    const leftMs = deadline - clock.now()
    if (leftMs <= 0) throw outcomeError(outcome)
    const tripMs = Math.max(MIN_DELAY_MS, waiting.tripMs())
    const random = clock.random()
    let delayMs: number
    if (turns?.isLive() === true && outcome.status === 'taken') {
      blindTries = 0
      delayMs = Math.min(outcome.retryAfterMs, MAX_SLEEP_MS) + random * SPREAD_TRIPS * tripMs
    } else {
      delayMs = jitteredMs(++blindTries, tripMs, Math.max(tripMs, MAX_DELAY_MS), random)
    }
    await untilTurn(waiting, Math.min(leftMs, delayMs), tripMs)
    turns?.forget()
    outcome = await waiting.attempt(Math.max(0, Math.ceil(deadline - clock.now())))
  }
}

/** Sleeps until its turn, at most `delayMs`. @throws the signal's reason when it aborts. */
function untilTurn(
  { clock, turns, signal }: Waiting,
  delayMs: number,
  tripMs: number,
): Promise<void> {
  const until = clock.now() + delayMs
  return new Promise((resolve, reject) => {
    const end = (): void => {
      timer.cancel()
      signal?.removeEventListener('abort', end)
      if (signal?.aborted === true) reject(signal.reason as Error)
      else resolve()
    }
    let timer = clock.after(delayMs, end)
    signal?.addEventListener('abort', end, { once: true })
    turns?.onTurn((place) => {
      timer.cancel()
      if (place === 0) end()
      else timer = clock.after(Math.min(until - clock.now(), place * turnMs(tripMs)), end)
    })
  })
}
