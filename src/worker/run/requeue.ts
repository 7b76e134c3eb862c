/**
 * Gives a job back that may not run yet, without using one of its attempts. It keeps its place at
 * the head of its line, and comes back after a random delay.
 */
import type { Job } from 'bullmq'
import { jitteredMs } from '../../backoff.ts'
import { systemClock } from '../../clock.ts'
import { outcomeError, type NotGranted } from '../../lock/outcome.ts'
import { list, splitOver, takenBy } from '../../refusal-words.ts'

/** Why and for how long a job was requeued. */
export interface Requeue {
  /** `in-line`: others of its resource are ahead of it; it is woken when its turn comes. */
  readonly status: NotGranted['status'] | 'in-line'
  /** The resource that the job waits for. */
  readonly resource: string
  /** 0 for a job that is woken when its turn comes. */
  readonly delayMs: number
  /** In words: who holds it, or which master said what. */
  readonly reason: string
}

const TAKEN_MS = { min: 25, max: 1_000 }
const SPLIT_MS = { min: 10, max: 500 }
const UNREACHABLE_MIN_MS = 200
/** The longest sleep after an outage, where no breaker keeps jobs from being started in vain. */
export const MAX_UNREACHABLE_MS = 30_000
/** The same of a `LockedWorker`, which has one. */
export const OUTAGE_SLEEP_MS = 1_000

/**
 * `taken`: at most as long as the holder's lease can last, plus jitter. `split`: short, no release
 * will follow. `unreachable`: exponential; when masters are quarantined, until they vote again.
 * `tries` counts the earlier requeues of the job; `random` is in [0, 1).
 */
export function requeueDelayMs(
  outcome: NotGranted,
  tries: number,
  random: number,
  maxUnreachableMs: number,
): number {
  switch (outcome.status) {
    case 'taken': {
      const guessMs = jitteredMs(tries, TAKEN_MS.min, TAKEN_MS.max, random)
      return Math.ceil(Math.min(guessMs, outcome.retryAfterMs + TAKEN_MS.min * (1 + random)))
    }
    case 'split':
      return Math.ceil(jitteredMs(tries, SPLIT_MS.min, SPLIT_MS.max, random))
    case 'unreachable':
      // A quarantine says when it ends, and may be ended before.
      if (outcome.retryAfterMs > 0) {
        // rule: sleeps-no-longer-than-an-outage
        const knownMs = Math.min(outcome.retryAfterMs, maxUnreachableMs)
        return Math.ceil(knownMs + UNREACHABLE_MIN_MS * random)
      }
      return Math.ceil(jitteredMs(tries, UNREACHABLE_MIN_MS, maxUnreachableMs, random))
  }
}

/** Starts of a job that were neither this one nor a failed attempt nor ended in a crash. */
export function earlierRequeues(
  job: Pick<Job, 'attemptsStarted' | 'attemptsMade' | 'stalledCounter'>,
): number {
  return Math.max(0, job.attemptsStarted - job.attemptsMade - job.stalledCounter - 1)
}

/**
 * Moves the job to delayed for a random while. The caller must throw BullMQ's `DelayedError` next.
 */
export async function requeue(
  job: Job,
  token: string | undefined,
  outcome: NotGranted,
  maxUnreachableMs: number,
): Promise<Requeue> {
  const tries = earlierRequeues(job)
  const delayMs = requeueDelayMs(outcome, tries, systemClock.random(), maxUnreachableMs)
  const reason = outcomeReason(outcome)
  if (isMilestone(tries)) await job.log(`waits ${delayMs} ms: ${reason}`)
  await giveBack(job, token, delayMs)
  return { status: outcome.status, resource: outcome.resource, delayMs, reason }
}

/**
 * Gives back a job. It may start elsewhere once this worker takes none.
 *
 * Other workers start the job as well, so the queue's Redis says when it is due, by its own clock:
 * BullMQ passes on how much later that is. See `line/lua/fetch.lua`.
 */
export async function giveBack(
  job: Job,
  token: string | undefined,
  delayMs: number,
): Promise<void> {
  await job.moveToDelayed(systemClock.wallNow() + Math.ceil(delayMs), token)
}

/** The 1st, 2nd, 4th, 8th, … time, so that a long wait does not fill the queue's memory. */
function isMilestone(tries: number): boolean {
  return (tries & (tries + 1)) === 0
}

/** For a job, which goes back by itself: without what a caller of the lock can do. */
function outcomeReason(outcome: NotGranted): string {
  const { resource, answers } = outcome
  switch (outcome.status) {
    case 'taken':
      return `${takenBy(resource, outcome.holder, outcome.retryAfterMs)} ${list(answers)}`
    case 'split':
      return `${splitOver(resource)} ${list(answers)}`
    case 'unreachable':
      return outcomeError(outcome).message
  }
}
