/**
 * How a job comes by its turn and its lease, unless the job before it has left it both. One that
 * may not run yet goes back to the queue.
 */
import { DelayedError, UnrecoverableError } from 'bullmq'
import pRetry from 'p-retry'
import { jitteredMs } from '../../backoff.ts'
import type { Channel } from '../../channel.ts'
import { sleep, systemClock } from '../../clock.ts'
import { WaitedTooLongError } from '../../job-errors.ts'
import type { LineBackend } from '../../line/line-backend.ts'
import { dueAt, mayGoBack, park } from '../../line/turns.ts'
import type { LeaseOptions } from '../../lock/lease-options.ts'
import type { Lease } from '../../lock/lease.ts'
import type { LockService } from '../../lock/lock-service.ts'
import { labelOf } from '../../names.ts'
import type { AcquireOutcome } from '../../lock/outcome.ts'
import { messageOf } from '../../message-of.ts'
import { slotNames, trySlots } from '../../lock/slots.ts'
import { slotsOf, slotsSetFor, type Slots } from '../../slots.ts'
import { MAX_UNREACHABLE_MS, OUTAGE_SLEEP_MS, requeue, requeueDelayMs } from './requeue.ts'
import type { Requeue } from './requeue.ts'
import { assertWanted, causeOf } from './failure.ts'
import type { Visit } from './visits.ts'

/** After a split vote the resource is often free a moment later; a requeue would cost more. */
const SPLIT_TRIES = 3
const SPLIT_RETRY_MS = { min: 3, max: 40 }
/** Where slots are set, no lock service tells when one is free. */
const SLOT_RETRIES_MS = [2, 2, 4, 8, 16]

/** What a worker asks for a job. */
export interface AdmissionOptions {
  readonly locks: LockService
  /** The lease of each job. */
  readonly leaseOptions: LeaseOptions
  /**
   * No job of its line is ahead of it. The lease may be on its way out, or a job of another queue
   * has it: it is waited for this long, in the order of arrival. 0 for no waiting.
   */
  readonly waitMs: number
  readonly maxWaitMs: number
  /** The lines of the queue; a worker that is made elsewhere has none. */
  readonly lines?: LineBackend | undefined
  readonly channel: Channel
}

/** @throws DelayedError for a job that is parked; UnrecoverableError for one that is too late. */
export async function takeTurn(
  lines: LineBackend,
  visit: Visit,
  options: AdmissionOptions,
): Promise<void> {
  const { resources } = visit
  const answer = await visit.awaits(insistToStart(visit, options, () => park(lines, visit)))
  if (answer === 'late') throw waitedTooLong(visit, options)
  if (typeof answer === 'object') {
    if (visit.lines === '') visit.lines = JSON.stringify(resources)
    visit.slots = answer.slots
    return
  }
  const label = labelOf(resources)
  const reason = `other jobs of \`${label}\` are ahead of it, or its limits let none start`
  throw requeued(visit, { status: 'in-line', resource: label, delayMs: 0, reason }, 0, options)
}

/** @throws DelayedError for a job that went back; UnrecoverableError for one that is too late. */
export async function admit(visit: Visit, options: AdmissionOptions): Promise<Lease> {
  const { lines } = options
  const { job, token, stop } = visit
  // BullMQ has added the next job of its scheduler already: it would not be the last that waits.
  // rule: scheduled-job-without-a-line-waits-in-place
  const mayStay = lines === undefined && job.repeatJobKey !== undefined
  const maxUnreachableMs = lines || mayStay ? OUTAGE_SLEEP_MS : MAX_UNREACHABLE_MS
  // Protected in BullMQ's types: the worker.
  const { queue } = job as unknown as { readonly queue?: { readonly closing?: unknown } }
  for (let tries = 0; ; tries++) {
    const outcome = await insistToStart(visit, options, leaseFor)
    if (outcome.status === 'granted') return outcome.lease
    assertWanted(visit)
    if (await isLate(visit, options)) throw waitedTooLong(visit, options)
    const at = systemClock.now()
    // BullMQ's worker waits for its jobs when it closes.
    // rule: closing-worker-keeps-no-scheduled-job
    const staysHere = mayStay && queue?.closing === undefined
    const goesBack = insistToStart(visit, options, async () => {
      if (!staysHere) return requeue(job, token, outcome, maxUnreachableMs)
      const ms = requeueDelayMs(outcome, tries, systemClock.random(), maxUnreachableMs)
      await sleep(systemClock, ms, stop.signal)
      return undefined
    })
    const why = await (staysHere ? goesBack : visit.awaits(goesBack))
    if (why !== undefined) throw requeued(visit, why, systemClock.now() - at, options)
  }
}

async function isLate(visit: Visit, options: AdmissionOptions): Promise<boolean> {
  const { job } = visit
  const { lines, maxWaitMs } = options
  if (lines)
    return !(await visit.awaits(insistToStart(visit, options, () => mayGoBack(lines, visit))))
  // A worker without lines knows only what the producer wrote.
  return !visit.hasRun && dueAt(job) + maxWaitMs <= systemClock.wallNow()
}

/** Reports a job that was requeued. @returns the error by which BullMQ knows it. */
function requeued(
  { job }: Visit,
  why: Requeue,
  tookMs: number,
  { channel }: AdmissionOptions,
): DelayedError {
  channel.tell('job:requeued', { job, why, tookMs })
  return new DelayedError(why.reason)
}

function waitedTooLong({ resources }: Visit, { maxWaitMs }: AdmissionOptions): UnrecoverableError {
  return new UnrecoverableError(new WaitedTooLongError(resources, maxWaitMs).message)
}

async function leaseFor(
  { resources, slots, stop }: Visit,
  admission: AdmissionOptions,
): Promise<AcquireOutcome> {
  const { locks, leaseOptions, waitMs } = admission
  const hasOwnSlots = slots !== undefined
  let [splits, waits] = [0, 0]
  for (;;) {
    const outcome = hasOwnSlots
      ? await acquireSlot(resources, slots, admission)
      : await locks.tryAcquire(resources, leaseOptions)
    const mayWait = outcome.status === 'taken' && waitMs > 0
    const slotMs = SLOT_RETRIES_MS[waits]
    if (mayWait && hasOwnSlots && slotMs !== undefined) {
      await sleep(systemClock, slotMs)
      waits++
    } else if (mayWait && !hasOwnSlots && waits === 0) {
      const { signal } = stop
      const waiting = locks.acquire(resources, { ...leaseOptions, waitMs, signal })
      const lease = await waiting.catch(() => undefined) // The next attempt says why.
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
 * Where slots are set for a resource, the worker tries their names itself. The first is that of a
 * worker without them: so both exclude each other while slots are set and ended.
 */
async function acquireSlot(
  resources: readonly string[],
  set: Slots,
  { locks, leaseOptions }: AdmissionOptions,
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
export async function insist<Value>(
  visit: Visit,
  channel: Channel,
  action: () => Promise<Value>,
): Promise<Value> {
  try {
    return await action()
  } catch (error) {
    return again(visit, channel, action, error)
  }
}

/** The same while the job is ours. @throws NotStarted when it must stop, or what it fails with. */
export async function insistToStart<Value, Host extends { readonly channel: Channel }>(
  visit: Visit,
  host: Host,
  action: (visit: Visit, host: Host) => Promise<Value>,
): Promise<Value> {
  try {
    return await action(visit, host)
  } catch (error) {
    const repeated = again(visit, host.channel, () => action(visit, host), error)
    return repeated.catch((cause: unknown) => {
      assertWanted(visit)
      throw causeOf(cause) === 'final' ? cause : new NotStarted('It could not start', { cause })
    })
  }
}

async function again<Value>(
  { job, stop: { signal } }: Visit,
  channel: Channel,
  action: () => Promise<Value>,
  refusal: unknown,
): Promise<Value> {
  const isTemporary = ({ error }: { readonly error: unknown }): boolean =>
    causeOf(error) === 'temporary'
  if (!isTemporary({ error: refusal })) throw refusal
  channel.tell('job:server-refused', { job: job.id, reason: messageOf(refusal) })
  const shouldRetry = isTemporary
  return pRetry(action, { ...RETRY_MS, retries: Infinity, randomize: true, signal, shouldRetry })
}
