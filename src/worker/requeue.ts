/**
 * Gives a job back that may not run yet, without using one of its attempts: behind others of its line it sleeps until
 * it is woken; at the head of its line, or where there is none, it comes back after a random delay, decided here.
 */
import type { Job } from 'bullmq'
import { jitteredMs } from '../backoff.ts'
import type { Clock } from '../clock.ts'
import { labelOf } from '../lock/resources.ts'
import { outcomeError, type NotGranted } from '../lock/outcome.ts'
import type { Lines } from './lines.ts'
import { ticketOf } from './ticket.ts'

/** Why and for how long a job was given back. */
export interface Requeue {
  /** `in-line`: others of its resource stand before it; it is woken when its turn comes. */
  readonly status: NotGranted['status'] | 'in-line'
  readonly resource: string
  readonly delayMs: number
  /** In words: who holds it, or which master said what. */
  readonly reason: string
}

const TAKEN_MS = { min: 25, max: 1_000 }
const SPLIT_MS = { min: 10, max: 500 }
const UNREACHABLE_MIN_MS = 200
/** How long a job sleeps at most after an outage was found, where nothing else keeps it from being started in vain. */
export const MAX_UNREACHABLE_MS = 30_000
const PARKED_MS = 600_000
const GIVEN_BACK_MS = 100

/**
 * `taken`: never longer than the holder's lease can still last, plus jitter. `split`: short, nobody will ever
 * release. `unreachable`: exponential; when masters are quarantined, not before they vote again.
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
      // A quarantine says when it ends: only the jitter comes on top.
      if (outcome.retryAfterMs > 0) {
        return Math.ceil(outcome.retryAfterMs + UNREACHABLE_MIN_MS * random)
      }
      return Math.ceil(jitteredMs(tries, UNREACHABLE_MIN_MS, maxUnreachableMs, random))
  }
}

/** How often the job was given back already: starts that were neither this one nor a failed attempt nor ended in a crash. */
export function earlierRequeues(
  job: Pick<Job, 'attemptsStarted' | 'attemptsMade' | 'stalledCounter'>,
): number {
  return Math.max(0, job.attemptsStarted - job.attemptsMade - job.stalledCounter - 1)
}

/** Moves the job to delayed for a random while. The caller must throw BullMQ's `DelayedError` next. */
export async function requeue(
  job: Job,
  token: string | undefined,
  outcome: NotGranted,
  clock: Clock,
  maxUnreachableMs: number,
): Promise<Requeue> {
  const tries = earlierRequeues(job)
  const delayMs = requeueDelayMs(outcome, tries, clock.random(), maxUnreachableMs)
  const reason = outcomeError(outcome).message
  if (isMilestone(tries)) await job.log(`waits ${delayMs} ms: ${reason}`)
  await job.moveToDelayed(clock.wallNow() + delayMs, token)
  return { status: outcome.status, resource: outcome.resource, delayMs, reason }
}

/**
 * Parks a job behind the others of its line. It sleeps until it is woken; the second look closes the gap between the first
 * look and the parking, in which whoever should have woken it found it still active.
 */
export async function park(
  job: Job,
  token: string | undefined,
  resources: readonly string[],
  lines: Lines,
  clock: Clock,
  maxDelayMs: number = Infinity,
): Promise<Requeue> {
  const ticket = ticketOf(job)
  const reason = `others that were added earlier stand before it in the line of \`${labelOf(resources)}\``
  if (isMilestone(earlierRequeues(job))) await job.log(`waits for its turn: ${reason}`)
  const { attemptsStarted } = job
  const priority = awakePriority(job)
  await lines.park(resources, { ticket, priority }, attemptsStarted)
  const delayMs = Math.min(parkedMs(clock.random()), maxDelayMs)
  await job.moveToDelayed(clock.wallNow() + delayMs, token)
  if (await lines.isTurn(resources, ticket)) await lines.wake({ ticket, priority })
  return { status: 'in-line', resource: labelOf(resources), delayMs, reason }
}

/**
 * What a job without a priority has while it sleeps, if it was added asleep: the least urgent there is. BullMQ finds a woken job at
 * once among those with a priority, but searches all that wait for one without: with 100,000 of them for 2.2 ms, in which its Redis
 * does nothing else.
 */
const ASLEEP_PRIORITY = 2 ** 21 - 1

/** One that was given the very same has the next one, so that the two can be told apart. */
export function asleepPriority(given: number): number {
  return given === 0 ? ASLEEP_PRIORITY : Math.min(given, ASLEEP_PRIORITY - 1)
}

/** The priority with which a job wakes: that of whoever added it. */
export function awakePriority({ priority, opts }: Pick<Job, 'priority' | 'opts'>): number {
  return priority === ASLEEP_PRIORITY && isSleep(opts.delay) ? 0 : priority
}

/** Whether a job was added asleep, behind others, and has never been started. */
export function addedAsleep(job: Pick<Job, 'delay' | 'attemptsStarted'>): boolean {
  return job.delay >= PARKED_MS && job.attemptsStarted === 0
}

/** Whether a job that starts for the first time was added asleep, behind others; false for one with a priority of its own. */
export function sleptBehindOthers({
  opts,
  attemptsStarted,
}: Pick<Job, 'opts' | 'attemptsStarted'>): boolean {
  return attemptsStarted === 1 && isSleep(opts.delay) && opts.priority === ASLEEP_PRIORITY
}

/** When a job could first have run, on the wall clock: a delay of its own counts, the sleep behind others does not. */
export function dueAt({ opts, timestamp }: Pick<Job, 'opts' | 'timestamp'>): number {
  const { delay = 0 } = opts
  return timestamp + (isSleep(delay) ? 0 : delay)
}

/** Whether a job was added with this delay because others stood before it. */
function isSleep(delay = 0): boolean {
  return delay >= PARKED_MS && delay <= parkedMs(1)
}

/** Gives back a job that must stop here; it may start elsewhere, once this worker no longer takes it. */
export async function giveBack(job: Job, token: string | undefined, clock: Clock): Promise<void> {
  await job.log('given back: the worker shut down')
  await job.moveToDelayed(clock.wallNow() + GIVEN_BACK_MS, token)
}

/**
 * How long a parked job sleeps if nobody wakes it, which only happens when its ticket was lost: long, so that many waiting
 * jobs cost nothing, and random, so that they do not wake at once. `random` is in [0, 1).
 */
export function parkedMs(random: number): number {
  return Math.ceil(PARKED_MS * (1 + random / 10))
}

/** The 1st, 2nd, 4th, 8th, … time, so that a long wait does not fill the queue's memory with log lines. */
function isMilestone(tries: number): boolean {
  return (tries & (tries + 1)) === 0
}
