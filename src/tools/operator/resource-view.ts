/**
 * One resource from all sides: what every master says about it, also where a Redlock would refuse
 * the fleet; its line, its limits, and what ended. And how it is taken from its holder.
 */
import type { Inspection } from '../../lock/inspection.ts'
import { holderAmong, seenBy } from '../../redlock/inspect.ts'
import { missingVotes, type Seen } from '../../missing-votes.ts'
import { callOf, USUAL } from '../../redlock/wire/calls.ts'
import { counted } from '../../counted.ts'
import { shortened } from '../../options.ts'
import { duration, printable } from './words.ts'
import {
  hasQuorum,
  tooFewAnswer,
  type Coverage,
  type FleetProbe,
  type UnreachableMaster,
} from './fleet-probe.ts'
import { diagnose, restartedIn, withUngranted } from './diagnosis.ts'
import { describeToken } from '../../names.ts'
import { storedMaxLeaseMs, surveyFleet } from './survey.ts'
import { messageOf } from '../../message-of.ts'
import type { LineEntry } from '../../line/members.ts'
import { completedSteps, endedJobs, type EndedJob } from './jobs.ts'
import { lengthsOf, lineOf, type Inspect, type ResourceInQueue } from './lines.ts'
import type { LiveLease } from './live-leases.ts'
import type { LockView } from './lock-view.ts'
import type { Places } from './places.ts'
import type { QueueView } from './queue-view.ts'

export interface ResourceView extends Inspection, Pick<Coverage, 'service'> {
  /**
   * `held`: a quorum of the masters has the same key. `free`: no lease can have a quorum.
   * `unknown`: with the masters that do not answer, a lease might have one.
   */
  readonly state: 'held' | 'free' | 'unknown'
  readonly quorum: number
  readonly answered: number
  readonly unreachable: readonly UnreachableMaster[]
}

export async function viewResource(fleet: FleetProbe, resource: string): Promise<ResourceView> {
  const { quorum } = fleet
  const [seen, survey] = await Promise.all([seeResource(fleet, resource), surveyFleet(fleet)])
  const diagnosis = diagnose(survey)
  const holder = holderAmong(seen)
  const unreachable = seen.flatMap(({ master, problem }) =>
    problem === undefined ? [] : [{ master, problem }],
  )
  const answered = seen.length - unreachable.length
  const masters = seen.map(({ token: _, ...view }) => view)
  const view = withUngranted({ resource, quorum, unreachable, answered, masters }, diagnosis)
  if (holder !== undefined) return { ...view, state: 'held', holder }
  const unknown = missingVotes(seen, restartedIn(diagnosis))
  return unknown === undefined ? { ...view, state: 'free' } : { ...view, state: 'unknown', unknown }
}

/** One view of every master, with the holder's whole token. */
async function seeResource(fleet: FleetProbe, resource: string): Promise<readonly Seen[]> {
  const inspect = callOf({ verb: 'inspect', resources: [resource] })
  const answers = await fleet.each((probe) => fleet.call(probe, inspect))
  return answers.map((answer) =>
    answer.ok
      ? seenBy(answer.master, answer.value)
      : { master: answer.master, problem: answer.problem },
  )
}

export function coverageOf({ masters, quorum, unreachable }: ResourceView): Coverage {
  return { masters: masters.length, quorum, unreachable }
}

/** Who holds it, in one sentence that is true also where masters do not answer. */
export function holderLine(view: ResourceView): string {
  const { holder, masters, state } = view
  const name = shortened(printable(view.resource))
  if (holder !== undefined) {
    const expiry =
      holder.freeInMs < 0 ? 'without expiry' : `for another ${duration(holder.freeInMs)}`
    return `${name} is held by ${printable(holder.name)} ${expiry}, with fencing token ${holder.fencingToken}`
  }
  const coverage = coverageOf(view)
  if (!hasQuorum(coverage)) return `The holder of ${name} is not known: ${tooFewAnswer(coverage)}`
  const withKey = masters.filter((master) => master.holder !== undefined).length
  if (state === 'unknown') {
    return `${name} may be held: ${withKey} of ${counted(masters.length, 'master has', 'masters have')} a key, and ${view.unknown?.replace(/^[^,]*, /, '') ?? ''}`
  }
  if (withKey === 0) return `${name} is free`
  return `${name} is free (${withKey} of ${counted(masters.length, 'master still has', 'masters still have')} a leftover key)`
}

export interface ResourceDetail extends ResourceView {
  /** Of a resource with slots: which have a key. */
  readonly slots: readonly LiveLease[]
  /** Undefined where no queue is named. */
  readonly line: ResourceLine | undefined
  /** Why jobs may be missing in `line`. */
  readonly missing?: string | undefined
}

/** What the masters say stands for itself, so a queue that is away does not hide it. */
export type ResourceLine = readonly DetailEntry[] | { readonly problem: string }

interface DetailEntry extends LineEntry {
  /** Of a running job, as far as its worker keeps checkpoints. */
  readonly stepsDone?: readonly string[]
}

/** As the page shows it. */
export interface ResourcePage extends ResourceDetail {
  readonly holding: string
  /** Why the first job that waits does not run; undefined where none waits. */
  readonly why?: string | undefined
  /** Every queue: how long the line is there, and what is set. */
  readonly queues: readonly ResourceInQueue[]
  readonly ended: readonly EndedJob[]
}

export async function detailOf(
  locks: LockView,
  queue: QueueView | undefined,
  resource: string,
): Promise<ResourceDetail> {
  const [view, slots] = await Promise.all([locks.resource(resource), locks.slots(resource)])
  if (queue === undefined) return { ...view, slots, line: undefined }
  const { places } = queue
  try {
    const { entries, missing } = await lineOf(places, resource, seen(locks, view))
    if (entries.length === 0 && missing !== undefined) throw new Error(missing)
    const line = await Promise.all(entries.map((entry) => withSteps(places, entry, resource)))
    return { ...view, slots, line, missing }
  } catch (error) {
    return { ...view, slots, line: { problem: messageOf(error) } }
  }
}

export async function resourcePage(
  locks: LockView,
  queue: QueueView | undefined,
  resource: string,
): Promise<ResourcePage> {
  const detail = await detailOf(locks, queue, resource)
  const asked =
    queue &&
    ([
      lengthsOf(queue.places, resource),
      endedJobs(queue.places, resource),
      whyOf(queue, detail, seen(locks, detail)).catch(() => undefined),
    ] as const)
  // Of a queue that is away, `line` says why.
  const [queues = [], ended = [], why] = await Promise.all(asked ?? []).catch(() => [])
  return { ...detail, holding: holderLine(detail), queues, ended, why }
}

/** One that has been looked at is not looked at again. */
function seen(locks: LockView, view: ResourceView): Inspect {
  return (resource) =>
    resource === view.resource ? Promise.resolve(view) : locks.resource(resource)
}

async function withSteps(places: Places, entry: LineEntry, resource: string): Promise<DetailEntry> {
  if (entry.state !== 'active') return entry
  const place = await places.ofResource(entry.queue, resource)
  const stepsDone = await completedSteps(places, place, entry.jobId)
  return stepsDone.length === 0 ? entry : { ...entry, stepsDone }
}

async function whyOf(
  queue: QueueView,
  detail: ResourceDetail,
  inspect: Inspect,
): Promise<string | undefined> {
  const { line = [] } = detail
  if ('problem' in line) return undefined
  const first = line.find(({ state }) => state !== 'active' && state !== 'failed') ?? line[0]
  if (first === undefined || first.state === 'active') return undefined
  return (await queue.explain(first.queue, first.jobId, inspect))?.why
}

export interface ForcedRelease {
  readonly masters: readonly {
    readonly master: string
    readonly outcome: 'released' | 'held nothing' | 'unreachable'
    /** Whose lease was released. */
    readonly holder?: string
    readonly problem?: string
  }[]
  readonly after: ResourceView
  /** No lease on the resource can have a quorum now. */
  readonly free: boolean
}

/** As for an abandoned attempt: longer than every command of the holder that may still travel. */
const TOMBSTONE_LEASES = 2
/** Longer than the default: a tombstone that lives too long only takes memory. */
const UNKNOWN_MAX_LEASE_MS = 60_000

/**
 * Takes a resource from its holder. The holder is not asked and still runs: until it notices, two
 * of them do, and only a store that compares fencing tokens tells them apart.
 *
 * Each token that was seen is released by name, so that a lease that began in the meantime is not
 * touched; its tombstone refuses what the old holder still sends to get its keys back. Then every
 * master is asked again: the answer says what holds now, and not what should.
 * @param maxLeaseMs as clients have it; by default, as the masters have it stored.
 */
export async function forceRelease(
  fleet: FleetProbe,
  resource: string,
  maxLeaseMs?: number,
): Promise<ForcedRelease> {
  const leaseMs = maxLeaseMs ?? (await storedMaxLeaseMs(fleet)) ?? UNKNOWN_MAX_LEASE_MS
  const seen = await seeResource(fleet, resource)
  const tokens = [...new Set(seen.flatMap(({ token }) => token ?? []))]
  // On every master, also where the key was not seen: it may be on its way there.
  const answers = await fleet.each(async (probe) => {
    const deleted: string[] = []
    for (const token of tokens) {
      const named = { resources: [resource], token, leaseMs: TOMBSTONE_LEASES * leaseMs }
      const release = callOf({ verb: 'release', ...named })
      if ((await fleet.call(probe, release)) === USUAL) deleted.push(token)
    }
    return deleted
  })
  const masters = answers.map((answer, index): ForcedRelease['masters'][number] => {
    const { master } = answer
    // With no token there was no second question, and the first one may have failed.
    const problem = answer.ok ? seen[index]?.problem : answer.problem
    const [token] = answer.ok ? answer.value : []
    if (token !== undefined) return { master, outcome: 'released', holder: describeToken(token) }
    if (problem !== undefined) return { master, outcome: 'unreachable', problem }
    return { master, outcome: 'held nothing' }
  })
  const after = await viewResource(fleet, resource)
  return { masters, after, free: after.state === 'free' }
}
