/**
 * Cancels jobs wherever they are. One that waits fails at once, with the reason. For one that runs,
 * a request is left in the queue's Redis, at which every worker looks while it has jobs; its signal
 * aborts, and it fails without another attempt. Also how else jobs leave lines without a run.
 */
import { Job, UnrecoverableError, type Queue } from 'bullmq'
import { allEnded } from '../all-ended.ts'
import { sleep, systemClock } from '../clock.ts'
import { JobCancelledError } from '../job-errors.ts'
import { touchedName } from '../names.ts'
import {
  integerOption,
  jobIdOption,
  knownOptions,
  nameOption,
  objectOption,
  refuse,
} from '../options.ts'
import { LineBackend } from './line-backend.ts'
import { keyIn, type Client, type LineRunner } from './line-runner.ts'

/** What `queue.cancel` takes. */
export interface CancelOptions {
  /** What the jobs fail with, and the signal's reason says. @defaultValue 'no reason given' */
  readonly reason?: string
  /** How long to wait for jobs that run. @defaultValue 5 000 */
  readonly timeoutMs?: number
}

/** What became of one job. */
export interface Cancelled {
  /** BullMQ's id of the job. */
  readonly jobId: string
  /**
   * `failed`: it waited, and failed. `stopped`: it ran, and has failed since, or was removed at its
   * end. `completed`: it ended before it noticed. `running`: it still runs; its signal aborts all
   * the same. `finished`: it had ended before. `missing`: there is no such job. `refused`: it is
   * the next job of a scheduler, which would end with it: call `removeJobScheduler` for that.
   */
  readonly outcome:
    'failed' | 'stopped' | 'completed' | 'running' | 'finished' | 'missing' | 'refused'
}

/** Jobs of a line that one call cancels. */
const MAX_JOBS = 10_000
/** Places of a line that one call looks at. */
const READ_AT_ONCE = 1_000
const AT_ONCE = 50
const POLL_MS = 50
const TIMEOUT_MS = 5_000
/** Jobs that leave their lines in one call. */
const LEAVE_AT_ONCE = 1_000

/** @param target a job's id, or a resource: all jobs of this queue in its line, up to 10,000. */
export async function cancelJobs(
  queue: Queue,
  target: string | { readonly resource: string },
  options: CancelOptions = {},
): Promise<readonly Cancelled[]> {
  const asked: unknown = options
  objectOption(asked, 'an object, such as { reason: "wrong customer" }')
  knownOptions({ ...options }, { reason: true, timeoutMs: true })
  const { reason = 'no reason given', timeoutMs = TIMEOUT_MS } = options
  nameOption('reason', reason)
  integerOption('timeoutMs', timeoutMs, 0, Number.MAX_SAFE_INTEGER)
  const given: unknown = target
  if (typeof given !== 'string' && (typeof given !== 'object' || given === null)) {
    refuse('target', 'the id of a job, or `{ resource }`', given)
  }
  const backend = LineBackend.of(queue)
  const deadline = systemClock.now() + timeoutMs
  const ids = typeof target === 'string' ? [target] : await idsOf(backend, target.resource)
  const done: Cancelled[] = []
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    const some = ids.slice(from, from + AT_ONCE)
    done.push(...(await allEnded(some.map((id) => cancelOne(queue, id, reason, deadline)))))
  }
  return done.reverse()
}

/** From the end of the line on: else the next job would start when the first one has failed. */
async function idsOf(backend: LineBackend, name: string): Promise<readonly string[]> {
  const resource = touchedName(name)
  const ids = new Set<string>()
  let before: { readonly place?: string; readonly score?: string } = {}
  do {
    const part = { resource, most: READ_AT_ONCE, longest: MAX_JOBS, ...before }
    const reply = await backend.run('line/lua/standing', part)
    const [place = '', score = '', ...some] = reply as readonly string[]
    for (const id of some) ids.add(id)
    before = { place, score }
  } while (before.place !== '')
  return [...ids]
}

async function cancelOne(
  queue: Queue,
  jobId: string,
  reason: string,
  deadline: number,
): Promise<Cancelled> {
  const backend = LineBackend.of(queue)
  const error = new UnrecoverableError(new JobCancelledError(jobId, reason).message)
  let wasRunning = false
  for (;;) {
    const job = await Job.fromId(queue, jobId)
    const outcome = job === undefined ? 'missing' : await failOrAsk(backend, job, error, reason)
    if (outcome !== 'running') {
      if (!wasRunning || outcome === 'failed') return { jobId, outcome }
      const ended = await Job.fromId(queue, jobId)
      if (ended !== undefined && (await ended.isCompleted())) return { jobId, outcome: 'completed' }
      await skipJob(backend, jobId) // It must not hold its line, whatever failed jobs do.
      return { jobId, outcome: 'stopped' }
    }
    wasRunning = true
    if (systemClock.now() >= deadline) return { jobId, outcome }
    await sleep(systemClock, POLL_MS)
  }
}

/** Fails a job that waits, by BullMQ's own way; asks the worker of one that runs to stop it. */
async function failOrAsk(
  backend: LineBackend,
  job: Job,
  error: Error,
  reason: string,
): Promise<Cancelled['outcome']> {
  const { removeOnFail, stackTraceLimit = Infinity } = job.opts
  const removes = removeOnFail === true || removeOnFail === 0 // Others may hold their lines.
  // As BullMQ's `job.moveToFailed` keeps it.
  const stacks = stackTraceLimit > 0 ? [...(job.stacktrace ?? []), error.stack] : []
  const stacktrace = JSON.stringify(stacks.slice(-stackTraceLimit))
  const fields = { failedReason: error.message, stacktrace }
  const args = backend.moveToFailedArgs(job, error.message, removes, '0', false, fields)
  return (await backend.send('cancel', args, { reason })) as never
}

/** Which of these jobs, that run here, shall be stopped: BullMQ's token of the run, and why. */
export async function cancelRequests(
  backend: LineBackend,
  jobIds: readonly string[],
): Promise<readonly (readonly [jobId: string, token: string, reason: string])[]> {
  const client: Client = await backend.connection.client
  const found = await client.hmget(keyIn(backend.base, 'cancelled'), ...jobIds)
  return found.flatMap((text, nr) =>
    text === null ? [] : [[jobIds[nr] ?? '', ...(JSON.parse(text) as [string, string])] as const],
  )
}

/** A failed job lets its lines go on, and stays failed. @returns false where it held none. */
export async function skipJob(runner: LineRunner, jobId: string): Promise<boolean> {
  jobIdOption(jobId)
  return (await runner.run('line/lua/skip', { id: jobId })) === 1
}

/** Makes all jobs that sleep or are held ordinary waiting jobs. @returns how many they were. */
export async function leaveLines(runner: LineRunner): Promise<number> {
  let [from, moved] = [0, 0]
  let found: number
  do {
    const reply = await runner.run('line/lua/leave-lines', { from, most: LEAVE_AT_ONCE })
    const [seen, stay, woken] = reply as readonly [number, number, number]
    found = seen
    from += stay
    moved += woken
  } while (found === LEAVE_AT_ONCE)
  return moved
}
