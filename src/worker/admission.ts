/**
 * How a job comes by its lease before it may run: first its turn in the line of its resource, then the vote of the masters.
 */
import type { Job } from 'bullmq'
import { jitteredMs } from '../backoff.ts'
import { endOfTurn, sleep, withinMs, type Clock } from '../clock.ts'
import type { LeaseOptions, LockService } from '../lock/lock-service.ts'
import type { Lease } from '../lock/lease.ts'
import type { AcquireOutcome, NotGranted } from '../lock/outcome.ts'
import type { JobReports } from './job-report.ts'
import type { Lines, Sleeper, Turn } from './lines.ts'
import type { Passed } from './relay.ts'
import { sleptBehindOthers } from './requeue.ts'
import { ticketOf } from './ticket.ts'

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
  readonly reports: Pick<JobReports, 'misplaced'>
}

const KEEPS_NO_LINES =
  "run jobs of a LockedQueue in a LockedWorker with order 'strict', or add them with an ordinary Queue: nobody wakes them here"
const OTHER_LINE =
  'give the LockedQueue the same `resource` and `namespace` as this worker. If they are, its line was deleted'

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
    if (sleptBehindOthers(job)) admission.reports.misplaced(job, resources, KEEPS_NO_LINES)
    const outcome = await acquire(admission, resources)
    return outcome.status === 'granted' ? admitted(outcome.lease, undefined) : outcome
  }
  const early = await passed?.outcome
  const lease = early?.status === 'granted' ? early.lease : undefined
  if (passed?.from !== undefined && lease !== undefined) {
    const { from, tookItOut } = passed
    // When it has started.
    const looking = endOfTurn().then(() =>
      lines.wakeUp(resources, ticketOf(job), job.attemptsStarted, from),
    )
    tookItOut(
      looking.then(
        () => true,
        () => false,
      ),
    )
    return { status: 'granted', lease, following: followingOf(looking, clock) }
  }
  passed?.tookItOut(false)
  const turn = await turnOf(lines, job, resources, admission).catch(async (error: unknown) => {
    await lease?.release()
    throw error
  })
  if (!turn.isTurn) {
    await lease?.release()
    return { status: 'in-line', lines }
  }
  const outcome = early?.status === 'granted' ? early : await acquire(admission, resources)
  return outcome.status === 'granted' ? admitted(outcome.lease, turn.following) : outcome
}

/** Whoever follows is known already. */
function admitted(lease: Lease, next: Sleeper | undefined): Admitted {
  return { status: 'granted', lease, following: () => Promise.resolve(next) }
}

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
  { clock, reports }: Admission,
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
  if (turn.isLost !== true) return turn
  if (sleptBehindOthers(job)) reports.misplaced(job, resources, OTHER_LINE)
  return { isTurn: await lines.join(resources, ticket) }
}

/** Where no answer comes in time, nobody follows. */
function followingOf(looking: Promise<Turn>, clock: Clock): Admitted['following'] {
  let turn: Turn | undefined
  const known = looking.then(
    (found) => (turn = found),
    () => undefined,
  )
  return async () => {
    if (turn === undefined) await withinMs(clock, LATE_LOOK_MS, known)
    return turn?.following
  }
}

/** A job on its first start that was never delayed cannot have a mark; looking would cost every job a command. */
function mayBeParked(job: Job): boolean {
  return job.attemptsStarted > 1 || (job.opts.delay ?? 0) > 0
}
