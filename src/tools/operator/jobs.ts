/** Single jobs, as an operator meets them: the ones that failed, the one that is searched for. */
import type { QueueView, Inspect } from './queue-view.ts'
import { MAX_QUEUES } from './queue-view.ts'
import { luaText } from '../../lua.ts'
import { defineScript } from '../../lua.ts'

export interface JobName {
  readonly queue: string
  readonly jobId: string
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

type Queues = Pick<QueueView, 'server' | 'places' | 'names'>

const MAX_FAILED = 10
const MAX_ENDED = 10
/** Of each queue, to find those of one resource. */
const MAX_LOOKED_AT = 300

const FIELDS = [
  ...['name', 'redlock:lines', 'redlock:holds', 'failedReason', 'atm', 'finishedOn'],
  ...['timestamp', 'processedOn', 'stacktrace'],
] as const
const LIST_FIELDS = FIELDS.slice(0, 6)

const recentScript = defineScript('recent', luaText('tools/operator/lua/recent'))

/** As `line/lua/line.lua` has it. */
function holdsLine(fields: Partial<Record<string, string>>): boolean {
  return fields['redlock:holds'] !== undefined && fields['redlock:holds'] === fields['finishedOn']
}

/** The jobs that failed last, in any queue; those that hold a line come first. */
export async function failedJobs(view: Queues): Promise<readonly FailedJob[]> {
  const { server, places } = view
  const ofQueues = await Promise.all(
    (await places.ofAll(await queuesOf(view))).map(async ({ queue, base }) => {
      const ids = await server.command('ZREVRANGE', `${base}failed`, 0, MAX_FAILED - 1)
      return Promise.all(
        (ids as string[]).map(async (jobId) => {
          const fields = await fieldsOf(view, base + jobId, LIST_FIELDS)
          return {
            ...{ queue, jobId, name: fields.name ?? '', resources: linesOf(fields) },
            ...{ reason: fields.failedReason ?? '', attempts: Number(fields.atm ?? 0) },
            ...{ failedAt: Number(fields.finishedOn ?? 0) },
            holdsLine: holdsLine(fields),
          }
        }),
      )
    }),
  )
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
  const names = await queuesOf(view)
  const found = await Promise.all(
    names.map(async (queue) => {
      const { base } = await view.places.ofJob(queue, jobId)
      const { timestamp } = await fieldsOf(view, base + jobId, ['timestamp'])
      if (timestamp === undefined) return []
      const explained = await view.explain(queue, jobId, inspect)
      return explained === undefined ? [] : [{ queue, jobId, ...explained }]
    }),
  )
  return found.flat()
}

/** Undefined where there is no such job. */
export async function jobDetail(
  view: QueueView,
  { queue, jobId }: JobName,
  inspect: Inspect,
): Promise<JobDetail | undefined> {
  const { base } = await view.places.ofJob(queue, jobId)
  const fields = await fieldsOf(view, base + jobId, FIELDS)
  if (fields.timestamp === undefined) return undefined
  const [explained, log, stepsDone] = await Promise.all([
    view.explain(queue, jobId, inspect),
    view.log(queue, jobId),
    view.completedSteps(queue, jobId),
  ])
  if (explained === undefined) return undefined
  const { state, resources, why } = explained
  const time = (text: string | undefined): number | undefined =>
    text === undefined ? undefined : Number(text)
  return {
    ...{ queue, jobId, state, resources, why, log, stepsDone },
    ...{ name: fields.name ?? '', attempts: Number(fields.atm ?? 0) },
    ...{ addedAt: Number(fields.timestamp), startedAt: time(fields.processedOn) },
    ...{ endedAt: time(fields.finishedOn), failedReason: fields.failedReason },
    ...{ stacks: stacksOf(fields.stacktrace), holdsLine: holdsLine(fields) },
  }
}

/** The jobs of a resource that ended last, as far as their queues keep them. */
export async function endedJobs(view: Queues, resource: string): Promise<readonly EndedJob[]> {
  const names = await queuesOf(view)
  const found = await Promise.all(
    names.flatMap((queue) =>
      (['completed', 'failed'] as const).map((outcome) => endedIn(view, queue, outcome, resource)),
    ),
  )
  return found
    .flat()
    .sort((a, b) => b.endedAt - a.endedAt)
    .slice(0, MAX_ENDED)
}

async function endedIn(
  { server, places }: Queues,
  queue: string,
  outcome: EndedJob['outcome'],
  resource: string,
): Promise<readonly EndedJob[]> {
  const { base } = await places.ofResource(queue, resource)
  const args = [JSON.stringify(resource), MAX_LOOKED_AT] as const
  const reply = (await server.run(recentScript, [base + outcome, base], args)) as string[]
  const found: EndedJob[] = []
  for (let index = 0; index + 4 <= reply.length; index += 4) {
    const [jobId = '', ended, started, reason = ''] = reply.slice(index, index + 4)
    const endedAt = Number(ended)
    found.push({ queue, jobId, outcome, endedAt, tookMs: endedAt - Number(started), reason })
  }
  return found
}

async function queuesOf(view: Queues): Promise<readonly string[]> {
  return (await view.names()).slice(0, MAX_QUEUES)
}

type Field = (typeof FIELDS)[number]

/** Empty where the key is of something else than a job. */
async function fieldsOf(
  { server }: Queues,
  key: string,
  wanted: readonly Field[],
): Promise<Partial<Record<Field, string>>> {
  const asked = server.command('HMGET', key, ...wanted)
  const values = (await asked.catch((error: unknown) => {
    if (String(error).includes('WRONGTYPE')) return []
    throw error
  })) as readonly (string | null)[]
  return Object.fromEntries(
    wanted.flatMap((field, index) => (values[index] == null ? [] : [[field, values[index]]])),
  )
}

function linesOf(fields: Partial<Record<Field, string>>): readonly string[] {
  const recorded = fields['redlock:lines']
  return recorded === undefined ? [] : (JSON.parse(recorded) as string[])
}

function stacksOf(text: string | undefined): readonly string[] {
  const stacks = text === undefined ? [] : (JSON.parse(text) as unknown)
  return Array.isArray(stacks) ? stacks.map(String).reverse() : []
}
