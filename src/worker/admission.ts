/**
 * How a job comes by its lease before it may run: first its turn in the line of its resource, then the vote of the masters.
 */
import type { Job } from 'bullmq'
import { jitteredMs } from '../backoff.ts'
import { endOfTurn, sleep, withinMs, type Clock } from '../clock.ts'
import type { LeaseOptions, LockService } from '../lock/lock-service.ts'
import type { Lease } from '../lock/lease.ts'
import type { AcquireOutcome, NotGranted } from '../lock/outcome.ts'
import type { Lines, Sleeper, Turn } from './lines.ts'
import type { Passed } from './relay.ts'
import { ticketOf, type Ticket } from './ticket.ts'

/** Not the job's turn: others of its resource stand before it. */
export interface InLine {
  readonly status: 'in-line'
  readonly lines: Lines
}

export interface Admitted {
  readonly status: 'granted'
  readonly lease: Lease
  /** Whose turn it is when this job has finished, if that one sleeps. */
  readonly following: () => Promise<Sleeper | undefined>
}

export interface Admission {
  readonly locks: LockService
  readonly leaseOptions: LeaseOptions
  /** Undefined where order does not matter. */
  readonly lines: Lines | undefined
  /** From the job before it, which has just ended here. */
  readonly passed: Passed | undefined
  readonly clock: Clock
}

/** After a split vote the resource is often free a moment later; a requeue would cost more than a short wait. */
const SPLIT_TRIES = 3
const SPLIT_RETRY_MS = { min: 3, max: 40 }
/** A job that is done holds its lease no longer than this because the queue's Redis does not answer. */
const LATE_LOOK_MS = 50
/** Long enough for a finish that is under way, on a busy machine too; to park and be woken would take longer. */
const NEXT_LOOKS_MS = [2, 2, 4, 8, 16]

export async function admit(
  admission: Admission,
  job: Job,
  resources: readonly string[],
): Promise<Admitted | NotGranted | InLine> {
  const { lines, clock, passed } = admission
  if (lines === undefined) {
    const outcome = await acquire(admission, resources)
    return outcome.status === 'granted' ? admitted(outcome.lease, nobody) : outcome
  }
  const early = await passed?.outcome
  const before = passed?.before
  if (early?.status === 'granted' && before !== undefined) {
    return admitted(early.lease, followingOf(lines, job, resources, clock, before))
  }
  if (before !== undefined) await lines.leave(resources, before, ticketOf(job))
  const turn = await turnOf(lines, job, resources, clock)
  if (!turn.isTurn) {
    if (early?.status === 'granted') await early.lease.release()
    return { status: 'in-line', lines }
  }
  const outcome = early?.status === 'granted' ? early : await acquire(admission, resources)
  if (outcome.status !== 'granted') return outcome
  return admitted(outcome.lease, () => Promise.resolve(turn.following))
}

function admitted(lease: Lease, following: Admitted['following']): Admitted {
  return { status: 'granted', lease, following }
}

const nobody: Admitted['following'] = () => Promise.resolve(undefined)

async function acquire(
  { locks, leaseOptions, clock }: Admission,
  resources: readonly string[],
): Promise<AcquireOutcome> {
  let outcome = await locks.tryAcquire(resources, leaseOptions)
  for (let tries = 0; outcome.status === 'split' && tries < SPLIT_TRIES; tries++) {
    const { min, max } = SPLIT_RETRY_MS
    await sleep(clock, jitteredMs(tries, min, max, clock.random()))
    outcome = await locks.tryAcquire(resources, leaseOptions)
  }
  return outcome
}

async function turnOf(
  lines: Lines,
  job: Job,
  resources: readonly string[],
  clock: Clock,
): Promise<Turn> {
  const ticket = ticketOf(job)
  if (!mayBeParked(job)) return lines.start(resources, ticket)
  let turn = await lines.wakeUp(resources, ticket, job.attemptsStarted)
  for (const waitMs of NEXT_LOOKS_MS) {
    if (turn.isNext !== true) break
    // It was woken a moment before the one ahead of it is noted as finished.
    await sleep(clock, waitMs)
    turn = await lines.wakeUp(resources, ticket, job.attemptsStarted)
  }
  return turn.isLost === true ? { isTurn: await lines.join(resources, ticket) } : turn
}

/** For a job that may run: it looks, and takes out the one before it, when it has started. Where no answer comes, nobody follows. */
function followingOf(
  lines: Lines,
  job: Job,
  resources: readonly string[],
  clock: Clock,
  before: Ticket,
): () => Promise<Sleeper | undefined> {
  let turn: Turn | undefined
  const looking = endOfTurn()
    .then(() => lines.wakeUp(resources, ticketOf(job), job.attemptsStarted, before))
    .then(
      (found) => (turn = found),
      () => undefined,
    )
  return async () => {
    if (turn === undefined) await withinMs(clock, LATE_LOOK_MS, looking)
    return turn?.following
  }
}

/** A job on its first start that was never delayed cannot have a mark; looking would cost every job a command. */
function mayBeParked(job: Job): boolean {
  return job.attemptsStarted > 1 || (job.opts.delay ?? 0) > 0
}
