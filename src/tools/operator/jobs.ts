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

export interface EndedJob extends JobRecord {
  readonly outcome: 'completed' | 'failed'
}

const MAX_FAILED = 10
const MAX_ENDED = 10
/** Of each queue, to find those of one resource. */
const MAX_LOOKED_AT = 300
/** The last lines of a job's log that are shown: requeues say there why. */
const LOG_LINES = 5
/** As checkpoints are kept. */
const STEP_FIELD = 'value:'

/** Of the hash of a job, in the order of `recent.lua`. */
const FIELDS = [
  ...['redlock:lines', 'failedReason', 'name', 'atm', 'timestamp'],
  ...['processedOn', 'finishedOn', 'redlock:holds'],
]
type Values = readonly (string | null | undefined)[]

const recentScript = defineScript('recent', luaText('tools/operator/lua/recent'))

/** The jobs that failed last, in any queue; those that hold a line come first. */
export async function failedJobs(places: Places): Promise<readonly JobRecord[]> {
  const ofQueues = await places.eachPlace((place) => recent(places, place, 'failed', MAX_FAILED))
  return ofQueues
    .flat()
    .sort((a, b) => Number(b.holdsLine) - Number(a.holdsLine) || endOf(b) - endOf(a))
    .slice(0, MAX_FAILED)
}

/** The jobs of a resource that ended last, as far as their queues keep them. */
export async function endedJobs(places: Places, resource: string): Promise<readonly EndedJob[]> {
  const found = await places.each(async (queue) => {
    const place = await places.ofResource(queue, resource)
    const ofOutcomes = (['completed', 'failed'] as const).map(async (outcome) => {
      const jobs = await recent(places, place, outcome, MAX_LOOKED_AT, resource)
      return jobs.map((job) => ({ ...job, outcome }))
    })
    return (await Promise.all(ofOutcomes)).flat()
  })
  return found
    .flat()
    .sort((a, b) => endOf(b) - endOf(a))
    .slice(0, MAX_ENDED)
}

const endOf = ({ endedAt = 0 }: JobRecord): number => endedAt

/** @param most that are looked at. */
async function recent(
  { server }: Places,
  place: QueuePlace,
  outcome: EndedJob['outcome'],
  most: number,
  resource?: string,
): Promise<readonly JobRecord[]> {
  const named = resource === undefined ? '' : JSON.stringify(resource)
  const keys = [place.base + outcome, place.base]
  const reply = await server.run(recentScript, keys, [named, most, ...FIELDS])
  return (reply as readonly [string, Values][])
    .map(([jobId, values]) => recordOf(place, jobId, values))
    .filter(({ endedAt }) => endedAt !== undefined) // Not removed meanwhile.
}

function recordOf({ name: queue }: QueuePlace, jobId: string, values: Values): JobRecord {
  const [lines, failedReason, name, attempts, addedAt, startedAt, endedAt, holds] = values
  return {
    ...{ queue, jobId, name: name ?? '', resources: linesIn(lines) },
    ...{ attempts: Number(attempts), addedAt: Number(addedAt) },
    startedAt: startedAt ? Number(startedAt) : undefined,
    endedAt: endedAt ? Number(endedAt) : undefined,
    failedReason: failedReason || undefined,
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
  const key = place.base + jobId
  const [values, explained, log, stepsDone] = await Promise.all([
    places.server.command('HMGET', key, ...FIELDS, 'stacktrace') as Promise<Values>,
    view.explain(queue, jobId, inspect),
    logOf(places, place, jobId),
    completedSteps(places, place, jobId),
  ])
  if (explained === undefined) return undefined
  const { state, why } = explained
  const record = recordOf(place, jobId, values)
  const failedReason = record.failedReason && shortReason(record.failedReason)
  const stacks: unknown = JSON.parse(values.at(-1) ?? '[]')
  const shown = Array.isArray(stacks) ? stacks.map(String).reverse() : []
  return { ...record, failedReason, state, why, log, stepsDone, stacks: shown }
}

/** What the job's log says last. BullMQ asks in a transaction, which a full server refuses. */
export async function logOf(
  { server }: Places,
  { base }: QueuePlace,
  jobId: string,
): Promise<readonly string[]> {
  return (await server.command('LRANGE', `${base}${jobId}:logs`, -LOG_LINES, -1)) as string[]
}

/** The steps of a job that are done; empty where its worker keeps no checkpoints. */
export async function completedSteps(
  { server }: Places,
  { base }: QueuePlace,
  jobId: string,
): Promise<readonly string[]> {
  const store = keyIn(base, stepsKey(jobId))
  const [own, number, fields] = await Promise.all([
    server.command('HGET', base + jobId, 'redlock:steps'),
    server.command('HGET', store, 'number'),
    server.command('HKEYS', store),
  ])
  if (own !== number) return [] // Of an earlier job with this id.
  const steps = (fields as string[]).filter((field) => field.startsWith(STEP_FIELD))
  return steps.map((field) => field.slice(STEP_FIELD.length))
}

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
  const { base } = await places.ofResource(queue, resource)
  return (await places.server.command('LPOS', `${base}active`, jobId)) !== null
}
