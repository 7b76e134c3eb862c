/** Answers for people: the holder of a resource, the jobs in its line, what each waits for. */
import { commandLine } from '../command-line.ts'
import { QuorumUnreachableError } from '../lock-errors.ts'
import type { Inspection } from '../lock/inspection.ts'
import type { LockService } from '../lock/lock-service.ts'
import type { LineRunner } from '../line/line-runner.ts'
import type { ResourceLimits } from '../line/limits.ts'
import { slotNames } from '../lock/slots.ts'
import { messageOf, withoutStop } from '../message-of.ts'
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
  const { name: queue } = sources.lines
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
  const around = { queue: lines.name, resource, limits, slots, lease }
  const found = members.map((member) => describeWait(member, around))
  const taken = found.includes(undefined) ? await takenSlots(resource, slots, locks) : undefined
  const waits = found.map((wait, nr) => wait ?? (members[nr]?.heldUntil ? undefined : taken))
  return { lease, limits, members, waits }
}

export async function leaseOf(
  resource: string,
  locks: QueueSources['locks'],
): Promise<Inspection | undefined> {
  try {
    return await locks.inspect?.(resource)
  } catch (error) {
    if (error instanceof TypeError) throw error // It can be no name.
    const unknown = withoutStop(messageOf(error))
    const ungranted = error instanceof QuorumUnreachableError ? { ungranted: unknown } : {}
    return { resource, masters: [], unknown, ...ungranted }
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
export async function whereItWaits(
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
export const LAPSED = 'its worker has not renewed its lock, so it is stopped, cut off or dead'

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

export function describeDelay(until: Date): string {
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
