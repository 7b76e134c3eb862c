/**
 * Gives a job back that may not run yet, without using one of its attempts. How long it stays away is decided
 * here, purely; lines of waiting jobs that are woken in turn will replace the guess for `taken`.
 */
import { DelayedError, type Job } from 'bullmq'
import { jitteredMs } from '../backoff.ts'
import type { Clock } from '../clock.ts'
import { outcomeError, type NotGranted } from '../lock/outcome.ts'

/** Why and for how long a job was given back. */
export interface Requeue {
  readonly status: NotGranted['status']
  readonly resource: string
  readonly delayMs: number
  /** In words: who holds it, or which master said what. */
  readonly reason: string
}

const TAKEN_MS = { min: 25, max: 1_000 }
const SPLIT_MS = { min: 10, max: 500 }
const UNREACHABLE_MS = { min: 200, max: 30_000 }

/**
 * `taken`: never longer than the holder's lease can still last, plus jitter. `split`: short, nobody will ever
 * release. `unreachable`: exponential; when masters are quarantined, not before they vote again.
 * `tries` counts the earlier requeues of the job; `random` is in [0, 1).
 */
export function requeueDelayMs(outcome: NotGranted, tries: number, random: number): number {
  switch (outcome.status) {
    case 'taken': {
      const guessMs = jitteredMs(tries, TAKEN_MS.min, TAKEN_MS.max, random)
      return Math.ceil(Math.min(guessMs, outcome.retryAfterMs + TAKEN_MS.min * (1 + random)))
    }
    case 'split':
      return Math.ceil(jitteredMs(tries, SPLIT_MS.min, SPLIT_MS.max, random))
    case 'unreachable': {
      const { min, max } = UNREACHABLE_MS
      // A quarantine says when it ends: only the jitter comes on top.
      if (outcome.retryAfterMs > 0) return Math.ceil(outcome.retryAfterMs + min * random)
      return Math.ceil(jitteredMs(tries, min, max, random))
    }
  }
}

/** How often the job was given back already: starts that were neither this one nor a failed attempt. */
export function earlierRequeues(job: Pick<Job, 'attemptsStarted' | 'attemptsMade'>): number {
  return Math.max(0, job.attemptsStarted - job.attemptsMade - 1)
}

/**
 * Moves the job to delayed and throws the error by which BullMQ knows that it was moved. Must be the last thing a
 * processor does, in its outermost frame: BullMQ does not recognise the error inside another one.
 */
export async function requeue(
  job: Job,
  token: string | undefined,
  outcome: NotGranted,
  clock: Clock,
  requeued: (requeue: Requeue) => void,
): Promise<never> {
  const tries = earlierRequeues(job)
  const delayMs = requeueDelayMs(outcome, tries, clock.random())
  const reason = outcomeError(outcome).message
  // The 1st, 2nd, 4th, 8th, … time, so that a long wait does not fill the queue's memory.
  if ((tries & (tries + 1)) === 0) await job.log(`waits ${delayMs} ms: ${reason}`)
  await job.moveToDelayed(clock.wallNow() + delayMs, token)
  requeued({ status: outcome.status, resource: outcome.resource, delayMs, reason })
  throw new DelayedError(reason)
}
