/** Single jobs, as an operator meets them: the ones that failed, the one that is searched for. */
import type { Inspect } from './lines.ts'
import type { Places } from './places.ts'
import { known } from './queue-server.ts'
import { linesIn, type QueueView } from './queue-view.ts'
import { luaText, defineScript } from '../../lua.ts'
import { stepsKey } from '../../worker/run/result-store.ts'

interface JobName {
  readonly queue: string
  readonly jobId: string
}

export interface JobSince extends JobName {
  /** Milliseconds since 1970. */
  readonly since: number
}

export interface FailedJob extends JobName {
  readonly name: string
  /** In whose lines it stood. */
  readonly resources: readonly string[]
  readonly reason: string
  readonly attempts: number
  /** Milliseconds since 1970. */
  readonly failedAt: number
  /** The jobs behind it wait until it is tried again or skipped. */
  readonly holdsLine: boolean
}

export interface FoundJob extends JobName {
  readonly state: string
  readonly resources: readonly string[]
  readonly why: string
}

/** A job from all sides. Its data and its result are not shown: they may be personal. */
export interface JobDetail extends FoundJob {
  readonly name: string
  readonly attempts: number
  /** Milliseconds since 1970. */
  readonly addedAt: number
  readonly startedAt: number | undefined
  readonly endedAt: number | undefined
  readonly failedReason: string | undefined
  /** The stacks of its failures, the last one first. */
  readonly stacks: readonly string[]
  /** The last lines of its log. */
  readonly log: readonly string[]
  readonly stepsDone: readonly string[]
  readonly holdsLine: boolean
}

/** A job of a resource that has ended. */
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

const FIELDS = [
  ...['name', 'redlock:lines', 'redlock:holds', 'failedReason', 'atm', 'finishedOn'],
  ...['timestamp', 'processedOn', 'stacktrace'],
] as const

const recentScript = defineScript('recent', luaText('tools/operator/lua/recent'))

/** The jobs that failed last, in any queue; those that hold a line come first. */
export async function failedJobs(places: Places): Promise<readonly FailedJob[]> {
  const ofQueues = await places.eachPlace(async ({ queueName: queue, base }) => {
    const ids = await places.server.command('ZREVRANGE', `${base}failed`, 0, MAX_FAILED - 1)
    return Promise.all(
      (ids as string[]).map(async (jobId) => {
        const fields = await fieldsOf(places, base + jobId, FIELDS.slice(0, 6))
        return {
          ...{ queue, jobId, reason: fields.failedReason ?? '', ...factsOf(fields) },
          ...{ resources: linesIn(fields['redlock:lines']) },
          failedAt: Number(fields.finishedOn ?? 0),
        }
      }),
    )
  })
  return ofQueues
    .flat()
    .filter(({ failedAt }) => failedAt > 0) // Not removed meanwhile.
    .sort((a, b) => Number(b.holdsLine) - Number(a.holdsLine) || b.failedAt - a.failedAt)
    .slice(0, MAX_FAILED)
}

/** The jobs with this id, of any queue. */
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

/** Undefined where there is no such job. */
export async function jobDetail(
  view: QueueView,
  { queue, jobId }: JobName,
  inspect: Inspect,
): Promise<JobDetail | undefined> {
  const { places } = view
  const place = await places.ofJob(queue, jobId)
  if (!(await places.hasJob(place, jobId))) return undefined
  const fields = await fieldsOf(places, place.base + jobId, FIELDS)
  const [explained, log, stepsDone] = await Promise.all([
    view.explain(queue, jobId, inspect),
    logOf(places, queue, jobId),
    completedSteps(places, queue, jobId),
  ])
  if (explained === undefined) return undefined
  const { state, resources, why } = explained
  const time = (text: string | undefined): number | undefined =>
    text === undefined ? undefined : Number(text)
  const stacks: unknown = JSON.parse(fields.stacktrace ?? '[]')
  return {
    ...{ queue, jobId, state, resources, why, log, stepsDone, ...factsOf(fields) },
    ...{ addedAt: Number(fields.timestamp), startedAt: time(fields.processedOn) },
    ...{ endedAt: time(fields.finishedOn), failedReason: fields.failedReason },
    stacks: Array.isArray(stacks) ? stacks.map(String).reverse() : [],
  }
}

/** What the job's log says last. BullMQ asks in a transaction, which a full server refuses. */
export async function logOf(
  places: Places,
  queue: string,
  jobId: string,
): Promise<readonly string[]> {
  const { base } = await places.ofJob(queue, jobId)
  return (await places.server.command('LRANGE', `${base}${jobId}:logs`, -LOG_LINES, -1)) as string[]
}

/** The steps of a job that are done; empty where its worker keeps no checkpoints. */
export async function completedSteps(
  places: Places,
  queue: string,
  jobId: string,
): Promise<readonly string[]> {
  const place = await places.ofJob(queue, jobId)
  const store = place.keyOf(stepsKey(jobId))
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

type Fields = Partial<Record<(typeof FIELDS)[number], string>>

async function fieldsOf(
  { server }: Places,
  key: string,
  wanted: readonly (keyof Fields)[],
): Promise<Fields> {
  const values = (await server.command('HMGET', key, ...wanted)) as readonly (string | null)[]
  return Object.fromEntries(wanted.map((field, index) => [field, values[index] ?? undefined]))
}

function factsOf(fields: Fields): Pick<JobDetail, 'name' | 'attempts' | 'holdsLine'> {
  const { name = '', atm = 0, finishedOn, 'redlock:holds': holds } = fields
  // As `line/lua/line.lua` has it.
  return { name, attempts: Number(atm), holdsLine: holds !== undefined && holds === finishedOn }
}
