/** Answers for people: the holder of a resource, the jobs in its line, and why a job waits. */
import type { Job } from 'bullmq'
import type { Inspection } from '../../lock/inspection.ts'
import type { LockService } from '../../lock/lock-service.ts'
import type { LineBackend } from '../bullmq/line-backend.ts'
import { lineScripts } from './line-scripts.ts'

/** One job in a line. */
export interface LineEntry {
  readonly queue: string
  readonly jobId: string
  /** BullMQ's state: `active`, `delayed`, `waiting`, … */
  readonly state: string
  /** When the job was added. */
  readonly joinedAt: Date
  readonly waitsFor: string
}

export interface ResourceInspection {
  readonly resource: string
  /** What the masters say; undefined when the lock service cannot tell. */
  readonly lease: Inspection | undefined
  readonly line: readonly LineEntry[]
}

/** Jobs of a line that are looked at. */
const MAX_ENTRIES = 100
const FIELDS = 4

interface Member {
  readonly queue: string
  readonly jobId: string
  readonly addedAtMs: number
  readonly state: string
}

/** How many places a line has, and the jobs at its head. */
export async function membersOf(
  resource: string,
  backend: LineBackend,
  limit: number = MAX_ENTRIES,
): Promise<{ readonly length: number; readonly members: readonly Member[] }> {
  const reply = await backend.run(lineScripts().places, `line:${resource}`, [limit])
  const [length, ...fields] = reply as readonly [number, ...string[]]
  const members: Member[] = []
  for (let index = 0; index + FIELDS <= fields.length; index += FIELDS) {
    const [base = '', jobId = '', timestamp, state = ''] = fields.slice(index, index + FIELDS)
    const queue = base.slice(base.lastIndexOf(':', base.length - 2) + 1, -1)
    members.push({ queue, jobId, state, addedAtMs: Number(timestamp) })
  }
  return { length, members }
}

export async function inspectResource(
  resource: string,
  locks: Pick<LockService, 'inspect'>,
  backend: LineBackend,
  limit?: number,
): Promise<ResourceInspection> {
  const [lease, { members }] = await Promise.all([
    locks.inspect?.(resource),
    membersOf(resource, backend, limit),
  ])
  const line = members.map(({ queue, jobId, addedAtMs, state }, ahead) => ({
    queue,
    jobId,
    state: state === 'asleep' ? 'waiting' : state,
    joinedAt: new Date(addedAtMs),
    waitsFor: describeWait(ahead, state, lease),
  }))
  return { resource, lease, line }
}

function describeWait(ahead: number, state: string, lease: Inspection | undefined): string {
  if (state === 'active') return 'nothing: it is being processed'
  if (state === 'failed') return 'retry or removal: it failed and holds its line'
  if (ahead > 0 && state === 'asleep') return `its turn: ${ahead} ahead of it`
  const { holder } = lease ?? {}
  if (holder !== undefined) {
    return `the lease of ${holder.name}, for at most another ${holder.freeInMs} ms`
  }
  if (state === 'delayed') return 'its delay or backoff to end'
  return 'a free worker'
}

/**
 * @param resources what the job touches: what its hash records, or what `resource` names.
 * @returns undefined for a job that has no place in their lines.
 */
export async function whyWaits(
  job: Job,
  resources: readonly string[],
  locks: Pick<LockService, 'inspect'>,
  backend: LineBackend,
): Promise<string | undefined> {
  const id = job.id ?? ''
  const state = await backend.forQueue(job.queueName, job.prefix).getState(id)
  if (state === 'completed' || state === 'failed') return `Job ${id} has ${state}.`
  for (const name of resources) {
    const { line } = await inspectResource(name, locks, backend)
    const ahead = line.findIndex(({ queue, jobId }) => jobId === job.id && queue === job.queueName)
    const entry = line[ahead]
    if (entry === undefined) continue
    if (ahead > 0) {
      return `Job ${id} (${entry.state}) waits in the line of \`${name}\` for ${entry.waitsFor}.`
    }
    if (name === resources.at(-1)) {
      return `Job ${id} (${entry.state}) is first in the line of \`${name}\` and waits for ${entry.waitsFor}.`
    }
  }
  return undefined
}
