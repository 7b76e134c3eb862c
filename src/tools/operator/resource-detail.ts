/** One resource from all sides: its masters, its line, its limits, and what ended. */
import { messageOf } from '../../message-of.ts'
import type { LineEntry } from '../../line/members.ts'
import { completedSteps, endedJobs, type EndedJob } from './jobs.ts'
import { lengthsOf, lineOf, type Inspect, type ResourceInQueue } from './lines.ts'
import type { LiveLease } from './live-leases.ts'
import type { LockView } from './lock-view.ts'
import type { Places } from './places.ts'
import type { QueueView } from './queue-view.ts'
import { holderLine, type ResourceView } from './resource-view.ts'

export interface ResourceDetail extends ResourceView {
  /** Of a resource with slots: which have a key. */
  readonly slots: readonly LiveLease[]
  /** Undefined where no queue is named. */
  readonly line: ResourceLine | undefined
  /** Why jobs may be missing in `line`. */
  readonly missing?: string | undefined
}

/** What the masters say stands for itself, so a queue that is away does not hide it. */
export type ResourceLine = readonly DetailEntry[] | { readonly problem: string }

interface DetailEntry extends LineEntry {
  /** Of a running job, as far as its worker keeps checkpoints. */
  readonly stepsDone?: readonly string[]
}

/** As the page shows it. */
export interface ResourcePage extends ResourceDetail {
  /** Who holds it, in one sentence. */
  readonly holding: string
  /** Why the first job that waits does not run; undefined where none waits. */
  readonly why?: string | undefined
  /** Every queue: how long the line is there, and what is set. */
  readonly queues: readonly ResourceInQueue[]
  readonly ended: readonly EndedJob[]
}

export async function detailOf(
  locks: LockView,
  queue: QueueView | undefined,
  resource: string,
): Promise<ResourceDetail> {
  const [view, slots] = await Promise.all([locks.resource(resource), locks.slots(resource)])
  if (queue === undefined) return { ...view, slots, line: undefined }
  const { places } = queue
  try {
    const { entries, missing } = await lineOf(places, resource, seen(locks, view))
    if (entries.length === 0 && missing !== undefined) throw new Error(missing)
    const line = await Promise.all(entries.map((entry) => withSteps(places, entry)))
    return { ...view, slots, line, missing }
  } catch (error) {
    return { ...view, slots, line: { problem: messageOf(error) } }
  }
}

export async function resourcePage(
  locks: LockView,
  queue: QueueView | undefined,
  resource: string,
): Promise<ResourcePage> {
  const found = await detailOf(locks, queue, resource)
  const detail = { ...found, holding: holderLine(found) }
  const withoutQueues = { ...detail, queues: [], ended: [] }
  if (queue === undefined) return withoutQueues
  try {
    const [queues, ended, why] = await Promise.all([
      lengthsOf(queue.places, resource),
      endedJobs(queue.places, resource),
      whyOf(queue, detail, seen(locks, detail)),
    ])
    return { ...detail, queues, ended, why }
  } catch {
    return withoutQueues // `line` says why.
  }
}

/** One that has been looked at is not looked at again. */
function seen(locks: LockView, view: ResourceView): Inspect {
  return (resource) =>
    resource === view.resource ? Promise.resolve(view) : locks.resource(resource)
}

async function withSteps(places: Places, entry: LineEntry): Promise<DetailEntry> {
  if (entry.state !== 'active') return entry
  const stepsDone = await completedSteps(places, entry.queue, entry.jobId)
  return stepsDone.length === 0 ? entry : { ...entry, stepsDone }
}

async function whyOf(
  queue: QueueView,
  detail: ResourceDetail,
  inspect: Inspect,
): Promise<string | undefined> {
  const { line = [] } = detail
  if ('problem' in line) return undefined
  const first = line.find(({ state }) => state !== 'active' && state !== 'failed') ?? line[0]
  if (first === undefined || first.state === 'active') return undefined
  return (await queue.explain(first.queue, first.jobId, inspect))?.why
}
