/**
 * How a job comes by its turn and its lease, unless the job before it has left it both. One that
 * may not run yet goes back to the queue.
 */
import { DelayedError, UnrecoverableError, type Job, type Worker } from 'bullmq'
import pRetry from 'p-retry'
import { jitteredMs } from '../../backoff.ts'
import { sleep, systemClock } from '../../clock.ts'
import { WaitedTooLongError } from '../../job-errors.ts'
import type { LineBackend } from '../../line/line-backend.ts'
import { couldStart, dueAt, mayGoBack, park } from '../../line/turns.ts'
import type { Lease } from '../../lock/lease.ts'
import { labelOf } from '../../names.ts'
import type { AcquireOutcome } from '../../lock/outcome.ts'
import { messageOf } from '../../message-of.ts'
import { slotNames, trySlots } from '../../lock/slots.ts'
import { slotsOf, slotsSetFor, type Slots } from '../../slots.ts'
import {
  earlierRequeues,
  MAX_UNREACHABLE_MS,
  OUTAGE_SLEEP_MS,
  requeue,
  requeueDelayMs,
  type Requeue,
} from './requeue.ts'
import { assertWanted, causeOf } from './failure.ts'
import type { JobRunsOptions } from './running-jobs.ts'
import type { Visit } from './visits.ts'

/** After a split vote the resource is often free a moment later; a requeue would cost more. */
const SPLIT_TRIES = 3
const SPLIT_RETRY_MS = { min: 3, max: 40 }
/** Where slots are set, no lock service tells when one is free. */
const SLOT_RETRIES_MS = [2, 2, 4, 8, 16]
/** How long a job at its turn waits in place for its lease, the first time. */
export const WAIT_MS = 100
/** About the longest sleep of one whose resource is taken. */
const MAX_WAIT_MS = 1_000

/** @throws DelayedError for a job that is parked; UnrecoverableError for one that is too late. */
export async function takeTurn(lines: LineBackend, visit: Visit): Promise<void> {
  const { resources } = visit
  const answer = await visit.awaits(insistToStart(visit, () => park(lines, visit)))
  if (answer === 'late') throw waitedTooLong(visit)
  if (typeof answer === 'object') {
    if (visit.lines === '') visit.lines = JSON.stringify(resources)
    visit.slots = answer.slots
    return
  }
  const label = labelOf(resources)
  const reason = `other jobs of \`${label}\` are ahead of it, or its limits let none start`
  throw requeued(visit, { status: 'in-line', resource: label, delayMs: 0, reason }, 0)
}

/** @throws DelayedError for a job that went back; UnrecoverableError for one that is too late. */
export async function admit(visit: Visit): Promise<Lease> {
  const { job, token, stop } = visit
  const { lines } = visit.options
  // BullMQ has added the next job of its scheduler already: it would not be the last that waits.
  // rule: scheduled-job-without-a-line-waits-in-place
  const mayStay = lines === undefined && job.repeatJobKey !== undefined
  const maxUnreachableMs = lines || mayStay ? OUTAGE_SLEEP_MS : MAX_UNREACHABLE_MS
  for (let tries = 0; ; tries++) {
    const outcome = await insistToStart(visit, leaseFor)
    if (outcome.status === 'granted') return outcome.lease
    assertWanted(visit)
    if (await isLate(visit)) throw waitedTooLong(visit)
    // BullMQ's worker waits for its jobs when it closes.
    // rule: closing-worker-keeps-no-scheduled-job
    if (mayStay && workerOf(job)?.closing === undefined) {
      const ms = requeueDelayMs(outcome, tries, systemClock.random(), maxUnreachableMs)
      await insistToStart(visit, () => sleep(systemClock, ms, stop.signal))
      continue
    }
    const at = systemClock.now()
    const goesBack = (): Promise<Requeue> => requeue(job, token, outcome, maxUnreachableMs)
    const why = await visit.awaits(insistToStart(visit, goesBack))
    throw requeued(visit, why, systemClock.now() - at)
  }
}

async function isLate(visit: Visit): Promise<boolean> {
  const { lines, maxWaitMs } = visit.options
  if (lines) return !(await visit.awaits(insistToStart(visit, () => mayGoBack(lines, visit))))
  // A worker without lines knows only what the producer wrote.
  return !visit.hasRun && dueAt(visit.job) + maxWaitMs <= systemClock.wallNow()
}

/** Reports a job that was requeued. @returns the error by which BullMQ knows it. */
function requeued({ job, options }: Visit, why: Requeue, tookMs: number): DelayedError {
  options.channel.tell('job:requeued', { job, why, tookMs })
  return new DelayedError(why.reason)
}

function waitedTooLong({ job, resources, options }: Visit): UnrecoverableError {
  const { maxWaitMs } = options
  const { message } = new WaitedTooLongError(resources, maxWaitMs, job.queueQualifiedName)
  return new UnrecoverableError(message)
}

async function leaseFor(visit: Visit): Promise<AcquireOutcome> {
  const { resources, slots, options } = visit
  const { locks, leaseOptions } = options
  const hasOwnSlots = slots !== undefined
  let [splits, waits] = [0, 0]
  for (;;) {
    const outcome = hasOwnSlots
      ? await acquireSlot(resources, slots, options)
      : await locks.tryAcquire(resources, leaseOptions)
    const isTaken = outcome.status === 'taken'
    const slotMs = SLOT_RETRIES_MS[waits]
    if (isTaken && hasOwnSlots && slotMs !== undefined) {
      await sleep(systemClock, slotMs)
      waits++
    } else if (isTaken && !hasOwnSlots && waits === 0) {
      const waitMs = patienceMs(visit)
      if (waitMs === 0) return outcome
      const lease = await waitInPlace(visit, waitMs)
      if (lease !== undefined) return { status: 'granted', lease }
      waits++
    } else if (outcome.status === 'split' && splits < SPLIT_TRIES) {
      const { min, max } = SPLIT_RETRY_MS
      await sleep(systemClock, jitteredMs(splits, min, max, systemClock.random()))
      splits++
    } else {
      return outcome
    }
  }
}

/**
 * A job that was refused before waits about as long as it slept. Else jobs of other queues that
 * run longer than a burst would release the lease mostly while it sleeps.
 */
function patienceMs({ job, options: { waitMs, visits, lines } }: Visit): number {
  const patient = [...visits.running].filter(({ isPatient }) => isPatient)
  // The other slots are for other resources.
  // rule: few-jobs-wait-longer
  if (patient.length >= (quarterOf(job) || (lines ? 1 : 0))) return waitMs
  // rule: refused-job-waits-longer
  return Math.max(waitMs, Math.min(WAIT_MS * 2 ** earlierRequeues(job), MAX_WAIT_MS))
}

/** Of the slots of its worker; 0 where these are few. */
function quarterOf(job: Job): number {
  return Math.floor((workerOf(job)?.concurrency ?? 0) / 4)
}

/** @returns its lease; undefined where the next attempt says why it has none. */
async function waitInPlace(visit: Visit, waitMs: number): Promise<Lease | undefined> {
  const { job, resources, stop, options } = visit
  const { locks, leaseOptions, lines } = options
  const over = new AbortController()
  const signal = AbortSignal.any([stop.signal, over.signal])
  const waiting = locks.acquire(resources, { ...leaseOptions, waitMs, signal })
  visit.isPatient = waitMs > options.waitMs
  if (visit.isPatient && lines && quarterOf(job) === 0) void giveWay(visit, lines, over)
  const lease = await waiting.catch(() => undefined)
  visit.isPatient = false
  return lease
}

/** Ends the wait of one that takes a slot which another job of the queue could use. */
async function giveWay(visit: Visit, lines: LineBackend, over: AbortController): Promise<void> {
  do {
    await sleep(systemClock, WAIT_MS)
    // rule: one-of-few-slots-gives-way
    if (visit.isPatient && (await couldStart(lines).catch(() => true))) over.abort()
  } while (visit.isPatient && !over.signal.aborted)
}

/** Protected in BullMQ's types. A job that a test has made has none. */
export function workerOf(job: Job): Worker | undefined {
  return (job as unknown as { readonly queue?: Worker }).queue
}

/**
 * Where slots are set for a resource, the worker tries their names itself. The first is that of a
 * worker without them: so both exclude each other while slots are set and ended.
 */
async function acquireSlot(
  resources: readonly string[],
  set: Slots,
  { locks, leaseOptions }: JobRunsOptions,
): Promise<AcquireOutcome> {
  const { slots: usual = 1, ...rest } = leaseOptions
  const names = resources.map((resource) => {
    const own = slotsOf(usual, resource)
    const count = slotsSetFor(set, resource) ?? own
    const [first = resource] = slotNames(resource, own)
    return [first, ...slotNames(resource, Math.max(2, count)).slice(1, count)]
  })
  const random = (): number => systemClock.random()
  return trySlots(names, random, (claim) => locks.tryAcquire(claim, rest))
}

/** Whether a lease of some resources covers no slot above those that are set for them. */
export function isWithin(
  lease: readonly string[],
  resources: readonly string[],
  set: Slots,
): boolean {
  return resources.every((resource) => {
    const slot = lease.find((name) => name.startsWith(`${resource}#`))
    if (slot === undefined || lease.includes(resource)) return true
    return !(Number(slot.slice(resource.length + 1)) > (slotsSetFor(set, resource) ?? Infinity))
  })
}

const RETRY_MS = { minTimeout: 50, maxTimeout: 2_000 }

/** A job that was not started has to be given back. */
export class NotStarted extends Error {}

/**
 * Repeats what a server refused, until it is done or the job's signal aborts: until the processor
 * has been called, no error of a server costs an attempt, and results are stored as patiently.
 */
export async function insist<Value>(visit: Visit, action: () => Promise<Value>): Promise<Value> {
  try {
    return await action()
  } catch (error) {
    return again(visit, action, error)
  }
}

/** The same while the job is ours. @throws NotStarted when it must stop, or what it fails with. */
export async function insistToStart<Value>(
  visit: Visit,
  action: (visit: Visit) => Promise<Value>,
): Promise<Value> {
  try {
    return await action(visit)
  } catch (error) {
    return again(visit, () => action(visit), error).catch((cause: unknown) => {
      assertWanted(visit)
      throw causeOf(cause) === 'final' ? cause : new NotStarted('It could not start', { cause })
    })
  }
}

async function again<Value>(
  { job, stop: { signal }, options }: Visit,
  action: () => Promise<Value>,
  refusal: unknown,
): Promise<Value> {
  const isTemporary = ({ error }: { readonly error: unknown }): boolean =>
    causeOf(error) === 'temporary'
  if (!isTemporary({ error: refusal })) throw refusal
  options.channel.tell('job:server-refused', { job: job.id, reason: messageOf(refusal) })
  const shouldRetry = isTemporary
  return pRetry(action, { ...RETRY_MS, retries: Infinity, randomize: true, signal, shouldRetry })
}
