/** One resource from all sides: its masters, its line, and the steps that running jobs did. */
import { messageOf } from '../../message-of.ts'
import type { LineEntry } from '../../worker/inspection.ts'
import type { LiveLease } from './live-leases.ts'
import type { LockView } from './lock-view.ts'
import type { QueueView } from './queue-view.ts'
import type { ResourceView } from './resource-view.ts'

export interface ResourceDetail extends ResourceView {
  /** Of a resource with slots: which have a key. */
  readonly slots: readonly LiveLease[]
  /** Undefined where no queue is named. */
  readonly line: ResourceLine | undefined
}

/** What the masters say stands for itself, so a queue that is away does not hide it. */
export type ResourceLine = readonly DetailEntry[] | { readonly problem: string }

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
  const line =
    queue && (await lineOf(queue, view).catch((error: unknown) => ({ problem: messageOf(error) })))
  return { ...view, slots, line }
}

async function lineOf(queue: QueueView, view: ResourceView): Promise<readonly DetailEntry[]> {
  const entries = await queue.line(view.resource, () => Promise.resolve(view))
  return Promise.all(
    entries.map(async (entry) => {
      if (entry.state !== 'active') return entry
      const stepsDone = await queue.completedSteps(entry.queue, entry.jobId)
      return stepsDone.length === 0 ? entry : { ...entry, stepsDone }
    }),
  )
}
