/**
 * What a worker asks of the lines for a job that it has: whether it is its turn, and which jobs are
 * behind it. A job that may not run goes back to the queue, without using an attempt.
 */
import * as bullmq from 'bullmq'
import type { Job, JobJson } from 'bullmq'
import { systemClock, withinMs } from '../clock.ts'
import type { Slots } from '../slots.ts'
import type { LineBackend } from './line-backend.ts'
import { ASLEEP_DELAY_MS, type Arguments } from './line-runner.ts'
import type { LineVisit } from './visit.ts'

/** A job as BullMQ knows it, and its id. */
export type TakenJob = readonly [job: JobJson, id: string]

/** Replies of the park script. */
const ITS_TURN = -100
const TOO_LATE = -101
/** A job waits this long at most for jobs that this worker was given before it. */
const JOIN_LIMIT_MS = 50
// Fields of a job's hash: see `LineVisit`. The first tells of a run that used no attempt.
export const RAN = 'redlock:ran'
export const FROM = 'redlock:from'
export const BACK = 'redlock:back'

/**
 * Takes the job's places, and parks it if others are ahead of it.
 * @returns `slots`: no job is ahead of it, and these are set; `late`: it has waited too long.
 */
export async function park(
  lines: LineBackend,
  visit: LineVisit,
): Promise<'parked' | 'late' | { readonly slots: Slots | undefined }> {
  const { job, resources, join, limitEndsAt } = visit
  const { id, timestamp } = job
  const delayMs = ASLEEP_DELAY_MS - systemClock.wallNow()
  const stands = { id, timestamp: String(timestamp), resources: JSON.stringify(resources) }
  await lines.connection.client
  if (join !== undefined) await withinMs(systemClock, JOIN_LIMIT_MS, join.earlier)
  const askedAt = systemClock.now()
  const ours = { ...stands, ...waiting(lines, visit), limitEndsAt }
  const sent = putBack(lines, 'park', visit, delayMs, ours)
  join?.done()
  const reply = await sent
  lines.heard(reply, askedAt)
  if (Array.isArray(reply) && reply[0] === ITS_TURN) {
    const [, slots, from] = reply as readonly unknown[]
    visit.from = Number(from ?? visit.from)
    return { slots: slots === '' ? undefined : (JSON.parse(slots as string) as Slots) }
  }
  return reply === TOO_LATE ? 'late' : 'parked'
}

/** A job whose resources sleep starts again when they wake, or are resumed. */
export async function rest(lines: LineBackend, visit: LineVisit, delayMs: number): Promise<void> {
  await putBack(lines, 'rest', visit, Math.ceil(delayMs))
}

/** Whether a job may go back for a while: it has not waited for `maxWaitMs`. */
export async function mayGoBack(lines: LineBackend, visit: LineVisit): Promise<boolean> {
  const ours = waiting(lines, visit)
  if (ours.maxWaitMs === undefined) return true
  const looks = { does: 'look', id: visit.job.id, ...ours }
  return (await lines.send('moveToActive', [lines.keys['meta']], looks)) === 0
}

/** Whether a worker that looks is given a job, if the queue gives out jobs. */
export async function couldStart(lines: LineBackend): Promise<boolean> {
  return (await lines.run('line/lua/read-could-start', {})) === 1
}

/**
 * The next jobs that sleep behind the first job of a batch, locked with its token.
 * @param most this many at most.
 * @param before jobs that it has taken before.
 */
export async function take(
  lines: LineBackend,
  { job: { id = '', timestamp }, token = '0', resources: [resource] }: LineVisit,
  most: number,
  before: number,
): Promise<readonly TakenJob[]> {
  const { lockDuration, limiter, name } = lines.options
  const opts = { token, lockDuration, limiter, name }
  const askedAt = systemClock.now()
  const found = await lines.send('moveToActive', [lines.keys['meta']], {
    ...{ does: 'take', resource, most, before, id, timestamp: String(timestamp), opts },
    at: String(systemClock.wallNow()),
  })
  return (found as unknown[][]).map((reply) => {
    lines.heard(reply, askedAt)
    return bullmq.raw2NextJobData(reply) as unknown as TakenJob
  })
}

/** When a job could start first, as far as its options say it. */
export function dueAt({ timestamp, opts: { delay = 0 } }: Pick<Job, 'timestamp' | 'opts'>): number {
  return (Number.isFinite(timestamp) ? timestamp : 0) + delay
}

/** As `lua/park.lua` has it. */
function waiting({ settings }: LineBackend, { job, hasRun }: LineVisit) {
  // rule: job-that-has-run-has-waited
  return { maxWaitMs: hasRun ? undefined : settings.maxWaitMs, dueAt: dueAt(job) }
}

/**
 * Of a job that a worker has, without using an attempt.
 * @throws what BullMQ says where its script refuses the job.
 */
async function putBack(
  lines: LineBackend,
  does: 'park' | 'rest',
  { job: { id: jobId = '' }, token = '0' }: LineVisit,
  delayMs: number,
  ours?: Arguments,
): Promise<unknown> {
  const now = systemClock.wallNow()
  const how = { skipAttempt: true, ...(does === 'rest' && { fieldsToUpdate: { [RAN]: '1' } }) }
  const args = lines.moveToDelayedArgs(jobId, now, token, delayMs, how)
  const reply = await lines.send('moveToDelayed', args, { does, ...ours })
  if (typeof reply !== 'number' || reply >= 0 || reply === TOO_LATE) return reply
  throw lines.finishedErrors({ code: reply, jobId, command: does, state: 'active' })
}
