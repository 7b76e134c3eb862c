/** Answers for people: the holder of a resource, the jobs in its line, and why a job waits. */
import { commandLine } from '../command-line.ts'
import type { Job } from 'bullmq'
import { systemClock } from '../clock.ts'
import type { Inspection } from '../lock/inspection.ts'
import type { LockService } from '../lock/lock-service.ts'
import type { LineBackend } from '../line/line-backend.ts'
import type { LineRunner } from '../line/line-runner.ts'
import type { ResourceLimits } from '../line/limits.ts'
import { slotNames } from '../lock/slots.ts'
import { membersOf, type Member } from '../line/members.ts'
import type { Share } from '../line/shares.ts'
import { withoutStop } from '../message-of.ts'

/** One job in a line. */
export interface LineEntry {
  /** The name of the queue that has the job. */
  readonly queue: string
  /** BullMQ's id of the job. */
  readonly jobId: string
  /** BullMQ's state: `active`, `delayed`, `waiting`, … */
  readonly state: string
  /** When the job was added. */
  readonly addedAt: Date
  /** In words, what has to happen before the job starts. */
  readonly waitsFor: string
  /** Of a job that was added with a tenant or a weight. */
  readonly share?: Share
  /** Of a job that failed and holds the line. */
  readonly failedReason?: string
  /** When a worker was given it; of a job that runs. */
  readonly activeSince?: Date
  /** When its delay or backoff ends; of a job that has one. */
  readonly delayedUntil?: Date
  /** When the rate or the pause of its resource lets it start; of the first job of its line. */
  readonly heldUntil?: Date
}

/** The holder of a resource, the jobs in its line, and its limits. */
export interface ResourceInspection {
  /** The resource that was asked for. */
  readonly resource: string
  /** What the masters say; undefined when the lock service cannot tell. */
  readonly lease: Inspection | undefined
  /** The jobs of the line from its head on, 100 at most. */
  readonly line: readonly LineEntry[]
  /** What is set for it: a pause, slots, a rate. */
  readonly limits: ResourceLimits
}

export async function inspectResource(
  resource: string,
  locks: Pick<LockService, 'inspect'>,
  runner: LineRunner,
  standstill: () => Promise<Standstill | undefined>,
  limit?: number,
  id?: string,
): Promise<ResourceInspection> {
  const { lease, limits, members, waits } = await waitsIn(resource, locks, runner, limit, id)
  const known = await Promise.all(
    members.map(async ({ jobId, others = [], delayedUntil }, nr) => {
      if (waits[nr] !== undefined) return waits[nr]
      const other = await whereItWaits(jobId, others, locks, runner)
      if (other?.wait !== undefined) return `${other.wait}, in line for \`${other.resource}\``
      return delayedUntil && describeDelay(delayedUntil)
    }),
  )
  const stands = known.includes(undefined) ? await standstill() : undefined
  const free = `a free worker${stands === undefined ? '' : `. ${inWords(stands)}`}`
  const line = members.map(
    ({ jobId, addedAtMs, state, ahead: _ahead, others: _others, ...more }, nr) => ({
      ...{ queue: runner.queueName, jobId, state: STATES[state] ?? state },
      ...{ addedAt: new Date(addedAtMs), waitsFor: known[nr] ?? free, ...more },
    }),
  )
  return { resource, lease, line, limits }
}

/** The jobs of a line, and what there keeps each waiting; undefined where nothing does. */
async function waitsIn(
  resource: string,
  locks: Pick<LockService, 'inspect'>,
  runner: LineRunner,
  limit?: number,
  id?: string,
) {
  const [lease, { members, limits, slots }] = await Promise.all([
    locks.inspect?.(resource),
    membersOf(resource, runner, limit, id),
  ])
  const around = { queue: runner.queueName, resource, limits, slots, lease }
  const found = members.map((member) => describeWait(member, around))
  const taken = found.includes(undefined) ? await takenSlots(resource, slots, locks) : undefined
  const waits = found.map((wait) => wait ?? taken)
  return { lease, limits, members, waits }
}

/** Each is one more question to the masters. */
const MOST_SLOTS = 20

/** Undefined where one of several slots is free, or where there are too many to look at. */
async function takenSlots(
  resource: string,
  slots: number,
  locks: Pick<LockService, 'inspect'>,
): Promise<string | undefined> {
  if (slots < 2 || slots > MOST_SLOTS) return undefined
  // A worker without `slots` of its own takes the resource for the first one.
  const names = [resource, ...slotNames(resource, slots)]
  const asked = await Promise.all(names.map(async (name) => locks.inspect?.(name)))
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
  locks: Pick<LockService, 'inspect'>,
  runner: LineRunner,
): Promise<{ readonly resource: string; readonly wait?: string } | undefined> {
  let place: { readonly resource: string } | undefined
  for (const resource of resources) {
    const { lease, members, waits } = await waitsIn(resource, locks, runner, undefined, jobId)
    const nr = members.findIndex((member) => member.jobId === jobId)
    if (nr >= 0) place = { resource }
    // One that runs waits for nothing. It may be about to ask for a lease that another client has.
    if (members[nr]?.activeSince !== undefined) {
      if (lease?.holder !== undefined) return { resource }
    } else if (waits[nr] !== undefined) return { resource, wait: waits[nr] }
  }
  return place
}

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
  { jobId, state, ahead, share, delayedUntil, heldUntil, failedReason = '' }: Member,
  { queue, resource, limits, slots, lease }: Around,
): string | undefined {
  if (state === 'active') return 'nothing: it is being processed'
  if (state === 'failed') {
    const commands = `\`${commandLine`retry ${queue} ${jobId}`}\`, or \`${commandLine`skip ${queue} ${jobId}`}\``
    return `${commands}: it holds the line because it failed: ${failedReason}`
  }
  const closed = describeClosed(limits, `\`${commandLine`resume ${queue} ${resource}`}\``)
  if (closed !== undefined && (delayedUntil === undefined || limits.asleepUntil !== undefined)) {
    return ahead > 0 ? `its turn: ${ahead} ahead of it, and for ${closed}` : closed
  }
  if (state === 'ready' && share !== undefined) {
    return `the turn of its tenant \`${share.tenant}\`, of weight ${share.weight}`
  }
  if (heldUntil !== undefined) {
    return `the rate limit of its resource, until ${heldUntil.toISOString()}`
  }
  if (ahead > 0 && state === 'asleep') return `its turn: ${ahead} ahead of it`
  const { holder, unknown, ungranted } = lease ?? {}
  if (ungranted !== undefined) return `a quorum of the lock masters: ${ungranted}`
  // Of several slots it has one, and another may be free.
  if (holder !== undefined && slots <= 1) {
    const { name, freeInMs } = holder
    return freeInMs < 0
      ? `the lease of ${name}, which never ends: \`${commandLine`release ${resource} --yes`}\``
      : `the lease of ${name}, for at most another ${freeInMs} ms`
  }
  if (unknown !== undefined) return `a lease, whose holder is not known: ${unknown}`
  return undefined
}

function describeDelay(until: Date): string {
  return `its delay or backoff to end, at ${until.toISOString()}`
}

/** Of the first job of a line, which the others wait for. */
function describeFirst({ jobId, activeSince, waitsFor }: LineEntry): string {
  if (activeSince === undefined) return ` Job ${jobId} waits for ${waitsFor}.`
  return ` Job ${jobId} has been in progress since ${activeSince.toISOString()}.`
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

/** What keeps every job of a queue from starting, and what to do. */
export interface Standstill {
  /** A sentence. */
  readonly fact: string
  readonly fix: string
}

function inWords({ fact, fix }: Standstill): string {
  return `${fact} To go on: ${fix}`
}

/** Undefined where nothing does. */
export function standstillOf(
  queue: string,
  isPaused: boolean,
  hasWorkers: boolean,
): Standstill | undefined {
  if (isPaused) return { fact: `Queue \`${queue}\` is paused.`, fix: 'call `queue.resume()`' }
  if (hasWorkers) return undefined
  return { fact: `No worker of queue \`${queue}\` is connected.`, fix: 'start one' }
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

/**
 * Why a job does not run, in words.
 * @param resources what the job touches: what its hash records, or what `resource` names.
 */
export async function explainJob(
  job: Job,
  resources: readonly string[],
  locks: Pick<LockService, 'inspect'>,
  backend: LineBackend,
  standstill: () => Promise<Standstill | undefined>,
): Promise<Explanation> {
  const state = await backend.getState(job.id ?? '')
  const { failedReason } = job
  const before =
    state === 'delayed' && failedReason
      ? ` Its last attempt failed: ${withoutStop(failedReason)}.`
      : ''
  const why = (await whyWaits(job, state, resources, locks, backend, standstill)) + before
  const isOver = ['active', 'completed', 'failed'].includes(state)
  const stands = isOver ? undefined : await standstill()
  if (stands === undefined) return { state, why }
  const told = why.includes(stands.fact) ? why : `${why} ${inWords(stands)}.`
  return { state, why: told, standstill: stands.fact }
}

async function whyWaits(
  job: Job,
  state: string,
  resources: readonly string[],
  locks: Pick<LockService, 'inspect'>,
  backend: LineBackend,
  standstill: () => Promise<Standstill | undefined>,
): Promise<string> {
  const id = job.id ?? ''
  if (state === 'completed') return `Job ${id} has completed.`
  const place = await whereItWaits(id, resources, locks, backend)
  const found =
    place && (await inspectResource(place.resource, locks, backend, standstill, undefined, id))
  const entry = found?.line.find(({ jobId }) => jobId === id)
  if (found !== undefined && entry !== undefined) {
    const { line, lease, resource } = found
    const where = `${entry === line[0] ? 'first in' : 'in'} line for \`${resource}\``
    if (entry.activeSince !== undefined) {
      const since = entry.activeSince.toISOString()
      const holder =
        lease?.holder === undefined ? '' : `, whose lease is held by ${lease.holder.name}`
      const none = lease?.ungranted && ` No lease is granted: ${lease.ungranted}.`
      return `Job ${id} (active) has been in progress since ${since}, and is ${where}${holder}.${none ?? ''}`
    }
    const { waitsFor } = entry
    const [first] = line
    const isTold = first === undefined || waitsFor.includes(first.waitsFor)
    const ofFirst = isTold ? '' : describeFirst(first)
    return `Job ${id} (${entry.state}) is ${where} and waits for ${waitsFor}.${ofFirst}`
  }
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
  const due = state === 'delayed' ? await backend.dueAt(id) : undefined
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
