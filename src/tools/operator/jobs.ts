/** Single jobs, as an operator meets them: the ones that failed, the one that is searched for. */
import { lineOf, type Inspect } from './lines.ts'
import type { Places, QueuePlace } from './places.ts'
import { known } from './queue-server.ts'
import { linesIn, type JobExplanation, type QueueView } from './queue-view.ts'
import { keyIn } from '../../line/line-runner.ts'
import { luaText, defineScript } from '../../lua.ts'
import { stepsKey } from '../../worker/run/results.ts'
import { shortReason } from '../../message-of.ts'
import type { Inspection } from '../../lock/inspection.ts'
import type { LiveLease } from './live-leases.ts'

interface JobName {
  readonly queue: string
  readonly jobId: string
}

export interface JobSince extends JobName {
  /** Milliseconds since 1970. */
  readonly since: number
}

/** What the hash of a job says. Times are milliseconds since 1970. */
export interface JobRecord extends JobName {
  readonly name: string
  /** In whose lines it stands, or stood. */
  readonly resources: readonly string[]
  readonly attempts: number
  readonly addedAt: number
  readonly startedAt: number | undefined
  readonly endedAt: number | undefined
  readonly failedReason: string | undefined
  /** The jobs behind it wait until it is tried again or skipped. */
  readonly holdsLine: boolean
}

export interface FoundJob extends JobName, Pick<JobExplanation, 'state' | 'resources' | 'why'> {}

/** A job from all sides. Its data and its result are not shown: they may be personal. */
export interface JobDetail extends JobRecord, FoundJob {
  /** The stacks of its failures, the last one first. */
  readonly stacks: readonly string[]
  readonly log: readonly string[]
  readonly stepsDone: readonly string[]
}

export interface EndedJob extends JobName {
  readonly outcome: 'completed' | 'failed'
  /** Milliseconds since 1970. */
  readonly endedAt: number
  readonly tookMs: number
  readonly reason: string
}

const MAX_FAILED = 10
const MAX_ENDED = 10
/** Of each queue, to find those of one resource. */
const MAX_LOOKED_AT = 300
/** The last lines of a job's log that are shown: requeues say there why. */
const LOG_LINES = 5
/** As checkpoints are kept. */
const STEP_FIELD = 'value:'

const recentScript = defineScript('recent', luaText('tools/operator/lua/recent'))

/** The jobs that failed last, in any queue; those that hold a line come first. */
export async function failedJobs(places: Places): Promise<readonly JobRecord[]> {
  const ofQueues = await places.eachPlace(async (place) => {
    const ids = await places.server.command('ZREVRANGE', `${place.base}failed`, 0, MAX_FAILED - 1)
    return Promise.all((ids as string[]).map((jobId) => recordOf(places, place, jobId)))
  })
  return ofQueues
    .flat()
    .filter(({ endedAt }) => endedAt !== undefined) // Not removed meanwhile.
    .sort((a, b) => Number(b.holdsLine) - Number(a.holdsLine) || endOf(b) - endOf(a))
    .slice(0, MAX_FAILED)
}

const endOf = ({ endedAt = 0 }: JobRecord): number => endedAt

async function recordOf(
  { server }: Places,
  { base, queueName: queue }: QueuePlace,
  jobId: string,
): Promise<JobRecord> {
  const fields = ['name', 'redlock:lines', 'atm', 'timestamp', 'processedOn'] as const
  const ofEnd = ['finishedOn', 'failedReason', 'redlock:holds'] as const
  const found = await server.command('HMGET', base + jobId, ...fields, ...ofEnd)
  const [name, lines, attempts, ...times] = found as readonly (string | null)[]
  const [addedAt, startedAt, endedAt, failedReason, holds] = times
  const time = (text: string | null | undefined): number | undefined =>
    text ? Number(text) : undefined
  return {
    queue,
    jobId,
    name: name ?? '',
    resources: linesIn(lines),
    attempts: Number(attempts),
    addedAt: Number(addedAt),
    startedAt: time(startedAt),
    endedAt: time(endedAt),
    failedReason: typeof failedReason === 'string' ? shortReason(failedReason) : undefined,
    // As `line/lua/line.lua` has it.
    holdsLine: typeof holds === 'string' && holds === endedAt,
  }
}

export async function jobsWithId(
  view: QueueView,
  jobId: string,
  inspect: Inspect,
): Promise<readonly FoundJob[]> {
  const found = await view.places.each(async (queue) => {
    const explained = await view.explain(queue, jobId, inspect)
    return explained === undefined ? [] : [{ queue, jobId, ...explained }]
  })
  return found.flat()
}

export async function jobDetail(
  view: QueueView,
  { queue, jobId }: JobName,
  inspect: Inspect,
): Promise<JobDetail | undefined> {
  const { places } = view
  const place = await places.ofJob(queue, jobId)
  if (!(await places.hasJob(place, jobId))) return undefined
  const [record, explained, log, stepsDone, stacktrace] = await Promise.all([
    recordOf(places, place, jobId),
    view.explain(queue, jobId, inspect),
    logOf(places, queue, jobId),
    completedSteps(places, queue, jobId),
    places.server.command('HGET', place.base + jobId, 'stacktrace'),
  ])
  if (explained === undefined) return undefined
  const { state, why } = explained
  const stacks: unknown = JSON.parse(typeof stacktrace === 'string' ? stacktrace : '[]')
  const shown = Array.isArray(stacks) ? stacks.map(String).reverse() : []
  return { ...record, state, why, log, stepsDone, stacks: shown }
}

/** What the job's log says last. BullMQ asks in a transaction, which a full server refuses. */
export async function logOf(
  places: Places,
  queue: string,
  jobId: string,
  resource?: string,
): Promise<readonly string[]> {
  const { base } = await places.ofJob(queue, jobId, resource)
  return (await places.server.command('LRANGE', `${base}${jobId}:logs`, -LOG_LINES, -1)) as string[]
}

/** The steps of a job that are done; empty where its worker keeps no checkpoints. */
export async function completedSteps(
  places: Places,
  queue: string,
  jobId: string,
  resource?: string,
): Promise<readonly string[]> {
  const place = await places.ofJob(queue, jobId, resource)
  const store = keyIn(place.base, stepsKey(jobId))
  const [own, number, fields] = await Promise.all([
    places.server.command('HGET', place.base + jobId, 'redlock:steps'),
    places.server.command('HGET', store, 'number'),
    places.server.command('HKEYS', store),
  ])
  if (own !== number) return [] // Of an earlier job with this id.
  const steps = (fields as string[]).filter((field) => field.startsWith(STEP_FIELD))
  return steps.map((field) => field.slice(STEP_FIELD.length))
}

/** The jobs of a resource that ended last, as far as their queues keep them. */
export async function endedJobs(places: Places, resource: string): Promise<readonly EndedJob[]> {
  const names = await places.shownNames()
  const found = await known(
    names.flatMap((queue) =>
      (['completed', 'failed'] as const).map(async (outcome) => {
        const { base } = await places.ofResource(queue, resource)
        const args = [JSON.stringify(resource), MAX_LOOKED_AT] as const
        const reply = await places.server.run(recentScript, [base + outcome, base], args)
        return (reply as Recent[]).map(([jobId, ended, started, reason]): EndedJob => {
          const endedAt = Number(ended)
          return { queue, jobId, outcome, endedAt, tookMs: endedAt - Number(started), reason }
        })
      }),
    ),
  )
  return found
    .flat()
    .sort((a, b) => b.endedAt - a.endedAt)
    .slice(0, MAX_ENDED)
}

type Recent = readonly [id: string, ended: string, started: string, reason: string]

/** The job under each lease, by resource, and when it was started. */
export type JobsByResource = ReadonlyMap<string, JobSince>

/** The most leases that are looked at. */
const MAX_LEASES = 200

/**
 * The masters know processes, not jobs: a job is found as the active one in the line of its
 * resource. With `order: 'relaxed'` there is no line, and of a slot (`gpu#2`) it is not known.
 * @param earlier found before: asked for again only after its job has ended.
 */
export async function jobsUnder(
  places: Places,
  leases: readonly LiveLease[],
  earlier: JobsByResource = new Map(),
): Promise<JobsByResource> {
  const held = leases.filter(({ state }) => state === 'held').slice(0, MAX_LEASES)
  const found = await known(
    held.map(async ({ resource }) => {
      const before = earlier.get(resource)
      const isSame = before !== undefined && (await isActive(places, before, resource))
      const job = isSame ? before : await jobOf(places, resource)
      return job === undefined ? [] : [[resource, job] as const]
    }),
  )
  return new Map(found.flat())
}

async function jobOf(places: Places, resource: string): Promise<JobSince | undefined> {
  const inspect = (): Promise<Inspection> => Promise.resolve({ resource, masters: [] })
  const { entries } = await lineOf(places, resource, inspect)
  const running = entries.flatMap(({ queue, jobId, activeSince }) =>
    activeSince === undefined ? [] : [{ queue, jobId, since: activeSince.getTime() }],
  )
  // A job of another queue that asks for the lease has been active for a moment only.
  return running.sort((a, b) => a.since - b.since)[0]
}

async function isActive(
  places: Places,
  { queue, jobId }: JobSince,
  resource: string,
): Promise<boolean> {
  const { base } = await places.ofJob(queue, jobId, resource)
  return (await places.server.command('LPOS', `${base}active`, jobId)) !== null
}
