/**
 * How a job comes by its lease before it may run: first its turn in the line of its resource, then the vote of the masters.
 */
import type { Job } from 'bullmq'
import { jitteredMs } from '../backoff.ts'
import { sleep, type Clock } from '../clock.ts'
import type { LeaseOptions, LockService } from '../lock/lock-service.ts'
import type { Lease } from '../lock/lease.ts'
import type { NotGranted } from '../lock/outcome.ts'
import type { Lines, Sleeper, Turn } from './lines.ts'
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
  readonly following?: Sleeper
}

export interface Admission {
  readonly locks: LockService
  readonly leaseOptions: LeaseOptions
  /** Undefined where order does not matter. */
  readonly lines: Lines | undefined
  readonly clock: Clock
}

/** After a split vote the resource is often free a moment later; a requeue would cost more than a short wait. */
const SPLIT_TRIES = 3
const SPLIT_RETRY_MS = { min: 3, max: 40 }
const NEXT_LOOK_MS = 4

export async function admit(
  { locks, leaseOptions, lines, clock }: Admission,
  job: Job,
  resources: readonly string[],
): Promise<Admitted | NotGranted | InLine> {
  const turn = lines === undefined ? FREE : await turnOf(lines, job, resources, clock)
  if (lines !== undefined && !turn.isTurn) return { status: 'in-line', lines }
  let outcome = await locks.tryAcquire(resources, leaseOptions)
  for (let tries = 0; outcome.status === 'split' && tries < SPLIT_TRIES; tries++) {
    const { min, max } = SPLIT_RETRY_MS
    await sleep(clock, jitteredMs(tries, min, max, clock.random()))
    outcome = await locks.tryAcquire(resources, leaseOptions)
  }
  const { following } = turn
  if (outcome.status !== 'granted' || following === undefined) return outcome
  return { ...outcome, following }
}

const FREE: Turn = { isTurn: true }

async function turnOf(
  lines: Lines,
  job: Job,
  resources: readonly string[],
  clock: Clock,
): Promise<Turn> {
  const ticket = ticketOf(job)
  if (!mayBeParked(job)) return { isTurn: await lines.isTurn(resources, ticket) }
  const turn = await lines.wakeUp(resources, ticket)
  if (turn.isNext !== true) return turn
  // It was woken a moment before the one ahead of it is noted as finished.
  await sleep(clock, NEXT_LOOK_MS)
  return lines.wakeUp(resources, ticket)
}

/** A job on its first start that was never delayed cannot have a mark; looking would cost every job a command. */
function mayBeParked(job: Job): boolean {
  return job.attemptsStarted > 1 || (job.opts.delay ?? 0) > 0
}
