/** Why a job does not run, in words. */
import type { Job } from 'bullmq'
import { systemClock } from '../clock.ts'
import { commandLine } from '../command-line.ts'
import type { LineBackend } from '../line/line-backend.ts'
import type { LineEntry } from '../line/members.ts'
import { withoutStop } from '../message-of.ts'
import { describeDelay, inspectResource, whereItWaits } from './inspection.ts'
import type { ResourceInspection, QueueSources } from './inspection.ts'
import { inWords } from './standstill.ts'

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
  const state = await sources.lines.getState(job.id ?? '')
  const { failedReason } = job
  const before =
    state === 'delayed' && failedReason
      ? ` Its last attempt failed: ${withoutStop(failedReason)}.`
      : ''
  const why = (await whyWaits(job, state, resources, sources)) + before
  const isOver = ['active', 'completed', 'failed'].includes(state)
  const stands = isOver ? undefined : await sources.standstill()
  if (stands === undefined) return { state, why }
  const told = why.includes(stands.fact) ? why : `${why} ${inWords(stands)}.`
  return { state, why: told, standstill: stands.fact }
}

async function whyWaits(
  job: Job,
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
    const again = `\`${commandLine`retry ${job.queueName} ${id}`}\``
    return `Job ${id} has failed: ${withoutStop(job.failedReason)}. To try it again: ${again}.`
  }
  if (state === 'waiting-children') {
    const { unprocessed = [] } = await job.getDependencies({ unprocessed: { count: 100 } })
    const [, queue = '', child] = /([^:]+):([^:]+)$/.exec(unprocessed[0] ?? '') ?? []
    const one = child && ` One of them: \`${commandLine`why ${queue} ${child}`}\`.`
    return `Job ${id} (${state}) waits for its children to end.${one ?? ''}`
  }
  const due = state === 'delayed' ? await sources.lines.dueAt(id) : undefined
  if (due === undefined) {
    const since = new Date(job.processedOn ?? 0).toISOString()
    const does =
      state === 'active' ? `has been in progress since ${since}` : 'waits for a free worker'
    return (
      `Job ${id} (${state}) ${does}. It has no place in a line: it was not added through a ` +
      "LockedQueue, or its workers keep no lines (order: 'relaxed')."
    )
  }
  return due.getTime() > systemClock.wallNow()
    ? `Job ${id} (delayed) waits for ${describeDelay(due)}.`
    : `Job ${id} (delayed) waits for a free worker: it was due at ${due.toISOString()}.`
}

/** Of a job that has a place there. */
function whyInLine(entry: LineEntry, { line, lease, resource }: ResourceInspection): string {
  const { jobId, state, activeSince, waitsFor, lockLapsed } = entry
  const [first] = line
  const where = `${entry === first ? 'first in' : 'in'} line for \`${resource}\``
  if (activeSince !== undefined) {
    const since = activeSince.toISOString()
    const holder =
      lease?.holder === undefined ? '' : `, whose lease is held by ${lease.holder.name}`
    const none = lease?.ungranted && ` No lease is granted: ${lease.ungranted}.`
    const lapsed = lockLapsed ? ` It waits for ${waitsFor}.` : ''
    return `Job ${jobId} (active) has been in progress since ${since}, and is ${where}${holder}.${none ?? ''}${lapsed}`
  }
  const isTold = first === undefined || waitsFor.includes(first.waitsFor)
  const ofFirst = isTold ? '' : describeFirst(first)
  return `Job ${jobId} (${state}) is ${where} and waits for ${waitsFor}.${ofFirst}`
}

/** Of the first job of a line, which the others wait for. */
function describeFirst({ jobId, activeSince, waitsFor, lockLapsed }: LineEntry): string {
  if (activeSince === undefined || lockLapsed) return ` Job ${jobId} waits for ${waitsFor}.`
  return ` Job ${jobId} has been in progress since ${activeSince.toISOString()}.`
}
