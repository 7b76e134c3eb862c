/**
 * Answers for people: the holder of a resource, the jobs in its line, what each waits for, and why
 * a job does not run.
 */
import type { Job, JobJson } from 'bullmq'
import { systemClock } from '../clock.ts'
import { commandLine } from '../command-line.ts'
import { QuorumUnreachableError } from '../lock-errors.ts'
import type { Inspection } from '../lock/inspection.ts'
import type { LockService } from '../lock/lock-service.ts'
import type { LineBackend } from '../line/line-backend.ts'
import type { LineRunner } from '../line/line-runner.ts'
import type { ResourceLimits } from '../line/limits.ts'
import { slotNames } from '../lock/slots.ts'
import { messageOf, shortReason, withoutStop } from '../message-of.ts'
import { membersOf, type LineEntry, type Member } from '../line/members.ts'
import { inWords, startIn, type Standstill } from './standstill.ts'

/** The holder of a resource, the jobs in its line, and its limits. */
export interface ResourceInspection {
  /** The resource that was asked for. */
  readonly resource: string
  /** What the masters say, or why they do not; undefined when the lock service cannot tell. */
  readonly lease: Inspection | undefined
  /** The jobs of the line from its head on, 100 at most. */
  readonly line: readonly LineEntry[]
  /** What is set for it: a pause, slots, a rate. */
  readonly limits: ResourceLimits
}

/** What is asked about one queue. */
export interface QueueSources<Lines extends LineRunner = LineRunner> {
  readonly locks: Pick<LockService, 'inspect'>
  readonly lines: Lines
  /** What keeps every job of the queue from starting. */
  readonly standstill: () => Promise<Standstill | undefined>
}

/**
 * @param limit of the jobs that are told.
 * @param id of a job that is told, too, wherever it stands.
 */
export async function inspectResource(
  resource: string,
  sources: QueueSources,
  limit?: number,
  id?: string,
): Promise<ResourceInspection> {
  const { lease, limits, members, waits } = await waitsIn(resource, sources, limit, id)
  const known = await Promise.all(
    members.map(async (member, nr) => {
      if (waits[nr] !== undefined) return waits[nr]
      const other = await whereItWaits(member.jobId, member.others ?? [], sources)
      if (other?.wait !== undefined) return `${other.wait}, in line for \`${other.resource}\``
      return describeTime(member)
    }),
  )
  const free = known.includes(undefined) ? await whatStarts(sources) : ''
  const queue = sources.lines.queueName
  const line = members.map(
    ({ jobId, addedAtMs, state, ahead: _ahead, others: _others, ...more }, nr) => ({
      ...{ queue, jobId, state: STATES[state] ?? state, addedAt: new Date(addedAtMs) },
      ...{ waitsFor: known[nr] ?? free, ...more },
    }),
  )
  return { resource, lease, line, limits }
}

async function whatStarts({ standstill, lines }: QueueSources): Promise<string> {
  const [stands, start] = await Promise.all([standstill(), startIn(lines)])
  return stands === undefined ? start : `${start}. ${inWords(stands)}`
}

/** The jobs of a line, and what there keeps each waiting; undefined where nothing does. */
async function waitsIn(
  resource: string,
  { locks, lines }: QueueSources,
  limit?: number,
  id?: string,
) {
  const [lease, { members, limits, slots }] = await Promise.all([
    leaseOf(resource, locks),
    membersOf(resource, lines, limit, id),
  ])
  const around = { queue: lines.queueName, resource, limits, slots, lease }
  const found = members.map((member) => describeWait(member, around))
  const taken = found.includes(undefined) ? await takenSlots(resource, slots, locks) : undefined
  const waits = found.map((wait, nr) => wait ?? (members[nr]?.heldUntil ? undefined : taken))
  return { lease, limits, members, waits }
}

async function leaseOf(resource: string, locks: QueueSources['locks']) {
  try {
    return await locks.inspect?.(resource)
  } catch (error) {
    if (error instanceof TypeError) throw error // It can be no name.
    const unknown = withoutStop(messageOf(error))
    const ungranted = error instanceof QuorumUnreachableError ? { ungranted: unknown } : {}
    return { resource, masters: [], unknown, ...ungranted } satisfies Inspection
  }
}

/** Each is one more question to the masters. */
const MOST_SLOTS = 20

/** Undefined where one of several slots is free, or where there are too many to look at. */
async function takenSlots(
  resource: string,
  slots: number,
  locks: QueueSources['locks'],
): Promise<string | undefined> {
  if (slots < 2 || slots > MOST_SLOTS) return undefined
  // A worker without `slots` of its own takes the resource for the first one.
  const names = [resource, ...slotNames(resource, slots)]
  const asked = await Promise.all(names.map((name) => leaseOf(name, locks)))
  const holders = asked.flatMap((inspection) => inspection?.holder ?? [])
  if (holders.length < slots) return undefined
  const ends = holders.map(({ freeInMs }) => (freeInMs < 0 ? Infinity : freeInMs))
  const first = Math.min(...ends)
  const end = first === Infinity ? 'none of them ends' : `the first ends within ${first} ms`
  const who = [...new Set(holders.map(({ name }) => name))].join(', ')
  return `one of its ${slots} slots. All are held, by ${who}: ${end}`
}

/** Of the lines of a job, one that keeps it waiting; one that does not, where none does. */
async function whereItWaits(
  jobId: string,
  resources: readonly string[],
  sources: QueueSources,
): Promise<{ readonly resource: string; readonly wait?: string } | undefined> {
  let place: { readonly resource: string } | undefined
  for (const resource of resources) {
    const { lease, members, waits } = await waitsIn(resource, sources, undefined, jobId)
    const nr = members.findIndex((member) => member.jobId === jobId)
    if (nr >= 0) place = { resource }
    // One that runs may be about to ask for a lease that another client has.
    const tells = members[nr]?.activeSince === undefined || lease?.holder !== undefined
    if (waits[nr] !== undefined && tells) return { resource, wait: waits[nr] }
  }
  return place
}

/** Of a worker whose job's lock has lapsed. */
const LAPSED = 'its worker has not renewed its lock, so it is stopped, cut off or dead'

/** As BullMQ calls them. */
const STATES: Readonly<Record<string, string>> = {
  ...{ asleep: 'waiting', ready: 'waiting', held: 'delayed' },
}

interface Around extends Omit<ResourceInspection, 'line'> {
  readonly queue: string
  readonly slots: number
}

/** What of a line or its resource keeps a job waiting; undefined where nothing does. */
function describeWait(
  { jobId, state, ahead, share, delayedUntil, heldUntil, failedReason = '', lockLapsed }: Member,
  { queue, resource, limits, slots, lease }: Around,
): string | undefined {
  if (lockLapsed) return `a worker that takes it over: ${LAPSED}`
  if (state === 'active') return 'nothing: it is being processed'
  if (state === 'failed') {
    const commands = `${commandLine`retry ${queue} ${jobId}`}, or ${commandLine`skip ${queue} ${jobId}`}`
    return `${commands}: it holds the line because it failed: ${withoutStop(failedReason)}`
  }
  const closed = describeClosed(limits, commandLine`resume ${queue} ${resource}`)
  if (closed !== undefined && (delayedUntil === undefined || limits.asleepUntil !== undefined)) {
    return ahead > 0 ? `its turn: ${ahead} ahead of it, and for ${closed}` : closed
  }
  // rule: job-behind-others-waits-for-its-turn
  if (ahead > 0 && (state === 'asleep' || state === 'held')) return `its turn: ${ahead} ahead of it`
  // rule: time-is-told-where-nothing-else-keeps-a-job
  if (heldUntil !== undefined) return undefined
  const { holder, unknown, ungranted } = lease ?? {}
  if (ungranted !== undefined) return `a quorum of the lock masters: ${ungranted}`
  if (state === 'ready' && share !== undefined) {
    return `a free worker, and the turn of its tenant \`${share.tenant}\`, of weight ${share.weight}`
  }
  // Of several slots it has one, and another may be free.
  if (holder !== undefined && slots <= 1) {
    const { name, freeInMs } = holder
    return freeInMs < 0
      ? `the lease of ${name}, which never ends: ${commandLine`release --yes ${resource}`}`
      : `the lease of ${name}, for another ${freeInMs} ms if it is not extended`
  }
  if (unknown !== undefined) return `a lease, whose holder is not known: ${unknown}`
  return undefined
}

/** When a job may start, of one that has to wait until then. */
function describeTime({ delayedUntil, heldUntil }: Member): string | undefined {
  if (delayedUntil !== undefined) return describeDelay(delayedUntil)
  return heldUntil && `the rate limit of its resource, until ${heldUntil.toISOString()}`
}

function describeDelay(until: Date): string {
  return `its delay or backoff to end, at ${until.toISOString()}`
}

/** What keeps every job of a resource from starting, if something does, and what ends that. */
function describeClosed({ paused, asleepUntil }: ResourceLimits, resume: string) {
  if (paused !== undefined) {
    const { by, since, reason, until } = paused
    const because = reason === undefined ? '' : ` (${reason})`
    const end = until === undefined ? '' : `, or for ${until.toISOString()}`
    const who = `${by ?? 'unknown'} paused it at ${since.toISOString()}${because}`
    return `its resource to be resumed by ${resume}${end}: ${who}`
  }
  if (asleepUntil === undefined) return undefined
  const end = asleepUntil.toISOString()
  return `the rest of its resource to end, at ${end}, or by ${resume}: a job called lease.rateLimit`
}

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
  const isDue = due === undefined || due.getTime() <= systemClock.wallNow()
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
