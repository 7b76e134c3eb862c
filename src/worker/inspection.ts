/** Answers for people: who holds a resource, who waits for it, and why a job does not run. */
import type { IQueueBackend, Job } from 'bullmq'
import type { Inspection } from '../lock/inspection.ts'
import type { LockService } from '../lock/lock-service.ts'
import { labelOf } from '../lock/resources.ts'
import type { Lines } from './lines.ts'
import { resourcesOf, type ResourceOf } from './resource.ts'
import { encodeTicket, ticketOf } from './ticket.ts'

/** One job in a line. */
export interface LineEntry {
  readonly queue: string
  readonly jobId: string
  /** BullMQ's state: `active`, `delayed`, `waiting`, … */
  readonly state: string
  readonly joinedAt: Date
  readonly waitsFor: string
}

export interface ResourceInspection {
  readonly resource: string
  /** What the masters say; undefined when the lock service cannot tell. */
  readonly lease: Inspection | undefined
  readonly line: readonly LineEntry[]
}

type Queues = Pick<IQueueBackend, 'forQueue'>

/** So many jobs of a line are looked at. */
const MAX_ENTRIES = 100

export async function inspectResource(
  resource: string,
  locks: Pick<LockService, 'inspect'>,
  lines: Lines,
  queues: Queues,
): Promise<ResourceInspection> {
  const [lease, members] = await Promise.all([
    locks.inspect?.(resource),
    lines.members(resource, MAX_ENTRIES),
  ])
  const line = await Promise.all(
    members.map(async ({ ticket, joinedAt, parked }, place) => {
      const { queue, jobId, prefix } = ticket
      const state = await queues.forQueue(queue, prefix).getState(jobId)
      const waitsFor = describeWait(place, state, parked, lease)
      return { queue, jobId, state, joinedAt, waitsFor }
    }),
  )
  return { resource, lease, line }
}

function describeWait(
  place: number,
  state: string,
  parked: boolean,
  lease: Inspection | undefined,
): string {
  if (state === 'active') return 'nothing: it is being processed'
  if (place > 0 && parked) return `its turn: ${place} before it`
  const { holder } = lease ?? {}
  if (holder !== undefined) {
    return `the lease of ${holder.name}, for at most another ${holder.freeInMs} ms`
  }
  if (state === 'delayed') return 'its delay or backoff to end'
  return state === 'waiting' || state === 'prioritized' ? 'a free worker' : state
}

export async function whyWaits<Data>(
  job: Job<Data>,
  resource: ResourceOf<Data>,
  locks: Pick<LockService, 'inspect'>,
  lines: Lines,
  queues: Queues,
): Promise<string> {
  const resources = resourcesOf(() => resource(job), job.id)
  const state = await job.getState()
  if (state === 'completed' || state === 'failed') return `Job ${job.id ?? ''} has ${state}.`
  const own = encodeTicket(ticketOf(job))
  for (const name of resources) {
    const { line } = await inspectResource(name, locks, lines, queues)
    const entry = line.find(
      ({ queue, jobId }) => encodeTicket({ prefix: job.prefix, queue, jobId }) === own,
    )
    if (entry !== undefined && entry !== line[0]) {
      return `Job ${job.id ?? ''} (${state}) waits in the line of \`${name}\` for ${entry.waitsFor}.`
    }
    if (entry !== undefined && name === resources.at(-1)) {
      return `Job ${job.id ?? ''} (${state}) is first in the line of \`${name}\` and waits for ${entry.waitsFor}.`
    }
  }
  return `Job ${job.id ?? ''} (${state}) has no place in the line of \`${labelOf(resources)}\` yet.`
}
