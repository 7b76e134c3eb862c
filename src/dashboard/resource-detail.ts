/**
 * One resource from all sides: what every master says, the line before it, and the steps that its
 * running jobs have done.
 */
import type { LiveLease } from '../operator/live-leases.ts'
import type { LockView } from '../operator/lock-view.ts'
import type { QueueView } from '../operator/queue-view.ts'
import type { ResourceView } from '../operator/resource-view.ts'
import type { LineEntry } from '../worker/line/inspection.ts'
import { messageOf } from '../message-of.ts'

export interface ResourceDetail extends ResourceView {
  /** Of a resource with slots: which have a key. */
  readonly slots: readonly LiveLease[]
  /** Null where no queue is named. */
  readonly line: readonly DetailEntry[] | null
  /** Why the line is not known. */
  readonly lineProblem?: string
}

interface DetailEntry extends LineEntry {
  /** Of a running job, as far as its worker keeps checkpoints. */
  readonly stepsDone?: readonly string[]
}

export async function detailOf(
  locks: LockView,
  queue: QueueView | undefined,
  resource: string,
): Promise<ResourceDetail> {
  const [view, slots] = await Promise.all([locks.resource(resource), locks.slots(resource)])
  if (queue === undefined) return { ...view, slots, line: null }
  try {
    const entries = await queue.line(resource, () => Promise.resolve(view))
    return {
      ...view,
      slots,
      line: await Promise.all(entries.map((entry) => withSteps(entry, queue))),
    }
  } catch (error) {
    const lineProblem = messageOf(error)
    return { ...view, slots, line: null, lineProblem }
  }
}

async function withSteps(entry: LineEntry, view: QueueView): Promise<DetailEntry> {
  if (entry.state !== 'active') return entry
  const stepsDone = await view.completedSteps(entry.queue, entry.jobId)
  return stepsDone.length === 0 ? entry : { ...entry, stepsDone }
}
