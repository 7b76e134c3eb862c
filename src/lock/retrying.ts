/**
 * The loop behind `acquire`: attempts until one is granted or the time is over, with random delays that are longer than
 * a round trip and end early when the release of what is waited for is announced.
 */
import pRetry from 'p-retry'
import { jitteredMs } from '../backoff.ts'
import { sleep, type Clock } from '../clock.ts'
import type { Listening } from './announcements.ts'
import type { Lease } from './lease.ts'
import { outcomeError, type AcquireOutcome } from './outcome.ts'

export interface RetryOptions {
  readonly clock: Clock
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  /** One attempt; `waitMs` is what is left of the waiting. */
  attempt(waitMs: number): Promise<AcquireOutcome>
  /** The duration of the last attempt. */
  roundTripMs(): number
  listen(): Listening
}

const MIN_DELAY_MS = 2
const MAX_DELAY_MS = 200
/** After an announcement all waiters wake at once: they spread over this many round trips. */
const WAKE_SPREAD = 2

const RETRYABLE = new Set(['RESOURCE_TAKEN', 'SPLIT_VOTE', 'QUORUM_UNREACHABLE'])

/** @throws the last attempt's error, the signal's reason, or whatever `attempt` throws. */
export function acquireWithin(options: RetryOptions): Promise<Lease> {
  const { clock, signal } = options
  const deadline = clock.now() + options.waitMs
  let listening: Listening | undefined
  const tryOnce = async (): Promise<Lease> => {
    signal?.throwIfAborted()
    listening?.stop()
    const leftMs = Math.max(0, Math.ceil(deadline - clock.now()))
    if (leftMs > 0) listening = options.listen()
    const outcome = await options.attempt(leftMs)
    if (outcome.status !== 'granted') throw outcomeError(outcome)
    if (signal?.aborted !== true) return outcome.lease
    await outcome.lease.release()
    throw signal.reason
  }
  const pause = async (tries: number): Promise<void> => {
    const leftMs = deadline - clock.now()
    if (leftMs <= 0) return
    const minMs = Math.max(MIN_DELAY_MS, options.roundTripMs())
    const delayMs = jitteredMs(tries, minMs, Math.max(minMs, MAX_DELAY_MS), clock.random())
    if (!(await sleepUntil(clock, Math.min(leftMs, delayMs), listening?.released, signal))) return
    const spreadMs = clock.random() * WAKE_SPREAD * options.roundTripMs()
    await sleep(clock, Math.min(spreadMs, Math.max(0, deadline - clock.now())), signal)
  }
  return pRetry(tryOnce, {
    retries: Infinity, // Bounded by the deadline.
    minTimeout: 0, // The delay is ours: it depends on the round trip and runs on our clock.
    shouldRetry: ({ error }) => isRetryable(error) && clock.now() < deadline,
    onFailedAttempt: ({ error, attemptNumber }) =>
      isRetryable(error) ? pause(attemptNumber) : undefined,
  })
    .catch((error: unknown) => {
      signal?.throwIfAborted() // p-retry wraps a reason that is not an Error.
      throw error
    })
    .finally(() => listening?.stop())
}

/** Sleeps, but not past `early`; tells whether it was that which ended the sleep. */
async function sleepUntil(
  clock: Clock,
  delayMs: number,
  early: Promise<void> | undefined,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const woken = new AbortController()
  let wokenEarly = false
  void early?.then(() => {
    wokenEarly = true
    woken.abort()
  })
  const either = signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal])
  await sleep(clock, delayMs, either).catch(() => signal?.throwIfAborted())
  return wokenEarly
}

function isRetryable(error: Error): boolean {
  return 'code' in error && RETRYABLE.has(String(error.code))
}
