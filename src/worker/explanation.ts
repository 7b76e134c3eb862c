/** Why a job does not run, in words for people. */
import type { Job, JobJson } from 'bullmq'
import { commandLine } from '../command-line.ts'
import { censusOf } from '../line/census.ts'
import type { LineBackend } from '../line/line-backend.ts'
import type { LineEntry } from '../line/members.ts'
import { shortReason, withoutStop } from '../message-of.ts'
import {
  describeDelay,
  inspectResource,
  LAPSED,
  leaseOf,
  whereItWaits,
  type QueueSources,
  type ResourceInspection,
} from './inspection.ts'
import { inWords, startIn } from './standstill.ts'

export interface Explanation {
  readonly state: string
  readonly why: string
  /** What keeps every job of the queue from starting. */
  readonly standstill?: string
}

/** Of a job that is asked about. */
export function noSuchJob(queue: string, jobId: string): string {
  return `There is no job ${jobId} in queue \`${queue}\`: it was removed, or never added.`
}

/** @param resources what the job touches: what its hash records, or what `resource` names. */
export async function explainJob(
  job: Job,
  resources: readonly string[],
  sources: QueueSources<LineBackend>,
): Promise<Explanation> {
  const { id = '' } = job
  const state = await sources.lines.getState(id)
  // rule: what-is-said-of-a-job-is-no-older-than-its-state
  const now = await sources.lines.getJobData(id)
  if (now === undefined) return { state, why: noSuchJob(job.queueName, id) }
  const { failedReason } = now
  const before =
    state === 'delayed' && failedReason
      ? ` The last attempt of job ${id} failed: ${withoutStop(shortReason(failedReason))}.`
      : ''
  const why = (await whyWaits(job, now, state, resources, sources)) + before
  // Another worker takes over a job whose worker is stopped.
  const isOver = ['active', 'completed', 'failed'].includes(state) && !why.includes(LAPSED)
  const stands = isOver ? undefined : await sources.standstill()
  if (stands === undefined) return { state, why }
  const told = why.includes(stands.fact) ? why : `${why} ${inWords(stands)}.`
  return { state, why: told, standstill: stands.fact }
}

async function whyWaits(
  job: Job,
  { failedReason = 'it is tried again now', processedOn = 0 }: Partial<JobJson>,
  state: string,
  resources: readonly string[],
  sources: QueueSources<LineBackend>,
): Promise<string> {
  const id = job.id ?? ''
  if (state === 'completed') return `Job ${id} has completed.`
  const place = await whereItWaits(id, resources, sources)
  const found = place && (await inspectResource(place.resource, sources, undefined, id))
  const entry = found?.line.find(({ jobId }) => jobId === id)
  if (found !== undefined && entry !== undefined) return whyInLine(entry, found)
  if (state === 'failed') {
    const again = commandLine`retry ${job.queueName} ${id}`
    return `Job ${id} has failed: ${withoutStop(shortReason(failedReason))}. To try it again: ${again}.`
  }
  if (state === 'waiting-children') {
    const { unprocessed = [] } = await job.getDependencies({ unprocessed: { count: 100 } })
    const [, queue = '', child] = /([^:]+):([^:]+)$/.exec(unprocessed[0] ?? '') ?? []
    const one = child && ` One of them: ${commandLine`why ${queue} ${child}`}.`
    return `Job ${id} (${state}) waits for its children to end.${one ?? ''}`
  }
  const { locks, lines } = sources
  const due = state === 'delayed' ? await lines.dueAt(id) : undefined
  const isDue = due === undefined || due.getTime() <= (await censusOf(lines, false)).nowMs
  if (!isDue && !(await lines.wasGivenBack(id))) {
    return `Job ${id} (delayed) waits for ${describeDelay(due)}.`
  }
  const since = new Date(processedOn).toISOString()
  if (state === 'active')
    return `Job ${id} (active) has been in progress since ${since}. ${NO_PLACE}`
  // Workers fetch no job while no lease is granted.
  const [resource] = resources
  const lease = resource === undefined ? undefined : await leaseOf(resource, locks)
  const none = lease?.ungranted && `a quorum of the lock masters: ${lease.ungranted}`
  if (isDue) {
    const waits = `Job ${id} (${state}) waits for ${none ?? (await startIn(lines))}.`
    return `${waits} ${due === undefined ? NO_PLACE : `It was due at ${due.toISOString()}.`}`
  }
  const held = lease?.holder && `the lease of ${lease.holder.name} on \`${lease.resource}\``
  return `Job ${id} (delayed) waits for ${none ?? held ?? 'a lease'}, and is tried again at ${due.toISOString()}.`
}

const NO_PLACE =
  'It has no place in a line: it was not added through a ' +
  "LockedQueue, or its workers keep no lines (order: 'relaxed')."

/** Of a job that has a place there. */
function whyInLine(entry: LineEntry, { line, lease, resource }: ResourceInspection): string {
  const { jobId, state, activeSince, waitsFor, lockLapsed } = entry
  const [first] = line
  const where = `${entry === first ? 'first in' : 'in'} line for \`${resource}\``
  // Of several slots it is not known which job has which.
  const isOne = line.filter((other) => other.activeSince !== undefined).length < 2
  const held = isOne && lease?.holder ? `, whose lease is held by ${lease.holder.name}` : ''
  if (activeSince !== undefined) {
    const since = activeSince.toISOString()
    const none = lease?.ungranted && ` No lease is granted: ${lease.ungranted}.`
    const lapsed = lockLapsed ? ` It waits for ${waitsFor}.` : ''
    return `Job ${jobId} (active) has been in progress since ${since}, and is ${where}${held}.${none ?? ''}${lapsed}`
  }
  const isTold = first === undefined || waitsFor.includes(first.waitsFor)
  // The first job may be about to ask for a lease that another client has.
  const ofFirst = isTold ? '' : describeFirst(first, held && ` in line for \`${resource}\`${held}`)
  return `Job ${jobId} (${state}) is ${where} and waits for ${waitsFor}.${ofFirst}`
}

/** Of the first job of a line, which the others wait for. */
function describeFirst({ jobId, activeSince, waitsFor, lockLapsed }: LineEntry, held = ''): string {
  if (activeSince === undefined || lockLapsed) return ` Job ${jobId} waits for ${waitsFor}.`
  return ` Job ${jobId} has been in progress since ${activeSince.toISOString()}${held}.`
}
