/** One resource as the page shows it: who has it, who waits and why, its limits, and what ended. */
import { messageOf } from '../../message-of.ts'
import { endedJobs, type EndedJob } from '../operator/jobs.ts'
import type { LockView } from '../operator/lock-view.ts'
import type { QueueView, ResourceInQueue } from '../operator/queue-view.ts'
import { detailOf, type ResourceDetail } from '../operator/resource-detail.ts'

export interface ResourcePage extends ResourceDetail {
  /** Why the first job that waits does not run; undefined where none waits. */
  readonly why?: string
  /** Every queue: how long the line is there, and what is set. */
  readonly queues: readonly ResourceInQueue[]
  readonly ended: readonly EndedJob[]
  /** Why the queues are not known. */
  readonly problem?: string
}

export async function resourcePage(
  locks: LockView,
  queue: QueueView | undefined,
  resource: string,
): Promise<ResourcePage> {
  const detail = await detailOf(locks, queue, resource)
  if (queue === undefined) return { ...detail, queues: [], ended: [] }
  try {
    const [queues, ended, why] = await Promise.all([
      queue.linesOf(resource),
      endedJobs(queue, resource),
      whyOf(queue, detail),
    ])
    return { ...detail, queues, ended, ...(why !== undefined && { why }) }
  } catch (error) {
    return { ...detail, queues: [], ended: [], problem: messageOf(error) }
  }
}

async function whyOf(queue: QueueView, detail: ResourceDetail): Promise<string | undefined> {
  if (!Array.isArray(detail.line)) return undefined
  const line = detail.line as readonly { queue: string; jobId: string; state: string }[]
  const first = line.find(({ state }) => state !== 'active' && state !== 'failed') ?? line[0]
  if (first === undefined || first.state === 'active') return undefined
  return (await queue.explain(first.queue, first.jobId, () => Promise.resolve(detail)))?.why
}
