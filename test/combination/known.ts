/** What the oracle knows of an episode: who was added when, and what was done to whom. */
import type { Done, History, Run, StoredJob } from './history.ts'
import type { Action, ActionOf, JobPlan } from './plan.ts'
import type { Freeze } from './hands.ts'
import { instanceOf } from './seen.ts'
import type { Lost } from './frail.ts'

const ASKS: ReadonlySet<string> = new Set(['look', 'ask', 'note'])
/** The most that an episode sets. */
const MAX_SLOTS = 3

/** A process that stands still for longer may lose leases and locks. */
export const LEASE_LAG_MS = 250

/** A job of the plan whose add was called. */
export interface Known {
  readonly plan: JobPlan
  readonly uid: string
  readonly add: Done
  /** In its `addBulk` or flow; 0 where it was added alone. */
  readonly index: number
  readonly kind: 'add' | 'addBulk' | 'parent' | 'child' | 'scheduler'
  readonly runs: readonly Run[]
  readonly stored: StoredJob | undefined
  /** Operations on this job alone. */
  readonly touches: readonly Done[]
  readonly resources: readonly string[]
}

type Of<Kind extends Action['do']> = Done & {
  readonly operation: ActionOf<Kind, Done['operation']>
}

export class Knowledge {
  readonly history: History
  readonly jobs: readonly Known[]
  readonly byUid: ReadonlyMap<string, Known>
  /** By their start. */
  readonly runs: readonly Run[]
  /** When workers' processes were stopped. */
  readonly freezes: readonly Freeze[]
  /** The longest time for which a process stood still, but for the freezes that are faults. */
  readonly lagMs: number
  /** What a machine that stands still may add to the time that anything takes. */
  readonly graceMs: number
  /** How long a job that was given out already may take to start. */
  readonly startGraceMs: number
  /** Whether something broke: a connection, a process, a server, a clock. */
  readonly isFaulty: boolean
  /** The same, but for workers that stood still: they harm no call and no other worker. */
  readonly isBroken: boolean
  /** When writes were acknowledged that a replica lacked when it took over. */
  readonly undone: readonly Lost[]
  /** Ids that some job took for itself, or that begin again: they name no instance. */
  readonly reusesIds: boolean
  /** Of the other queue of the episode. */
  beside: Knowledge | undefined

  constructor(history: History) {
    this.history = history
    this.freezes = this.all('freezeWorker').flatMap(({ answer }) =>
      answer === undefined || answer === 'absent' ? [] : [answer as Freeze],
    )
    const shortMs = this.freezes.map(lengthOf).filter((ms) => ms <= LEASE_LAG_MS)
    this.lagMs = Math.max(history.lagMs, ...shortMs)
    this.graceMs = 60 + 2 * this.lagMs
    this.startGraceMs = 20 + this.lagMs
    this.runs = [...history.runs.values()].sort((a, b) => a.at - b.at)
    const adds = history.done.flatMap((add) => addedBy(add).map((each) => ({ ...each, add })))
    // An add that BullMQ deduplicated names the job that was there.
    const isSame = (one: string, other: string): boolean =>
      one === other || (history.ids.has(one) && history.ids.get(one) === history.ids.get(other))
    const stored = new Map(history.final?.jobs.map((job) => [job.uid, job]))
    this.jobs = adds.map(({ plan, index, kind, add }) => {
      const { uid } = plan.data
      return {
        ...{ plan, uid, add, index, kind },
        runs: this.runs.filter((run) => run.uid === uid),
        stored: stored.get(uid),
        touches: history.done.filter(
          ({ operation }) =>
            operation.do === 'retryAll' ||
            ('uid' in operation && !ASKS.has(operation.do) && isSame(operation.uid, uid)),
        ),
        resources: plan.data.resources.map((name) => history.prefix + name),
      }
    })
    this.byUid = new Map(this.jobs.map((job) => [job.uid, job]))
    // A minority of masters slows nobody.
    this.isBroken =
      this.all('kill', 'cut', 'cutProducer', 'stepClock').length > 0 ||
      this.all('restartQueue', 'faultQueue', 'failover').length > 0 ||
      this.all('faultMasters').some(({ operation }) => operation.count > 1)
    this.isFaulty = this.isBroken || this.freezes.some((freeze) => lengthOf(freeze) > LEASE_LAG_MS)
    this.undone = this.all('failover').map(({ answer, at, endedAt = Infinity }) => {
      const { from, to } = (answer as Lost | undefined) ?? { from: at, to: endedAt }
      return { from, to }
    })
    this.reusesIds =
      this.undone.length > 0 ||
      this.all('obliterate').length > 0 ||
      this.jobs.some(({ plan }) => plan.opts.jobId !== undefined)
  }

  /** Operations of these kinds that were called. */
  all<Kind extends Action['do']>(...kinds: readonly Kind[]): readonly Of<Kind>[] {
    return this.history.done.filter((done): done is Of<Kind> =>
      (kinds as readonly string[]).includes(done.operation.do),
    )
  }

  /** When what an operation set may end: at the next one of these, or when all is put right. */
  untilNext({ operation, at }: Done, ...kinds: readonly Action['do'][]): number {
    const isOfAnother = (other: Action): boolean =>
      'resource' in other && 'resource' in operation && other.resource !== operation.resource
    const next = this.all(...kinds).filter(
      (other) =>
        other.operation !== operation &&
        (other.endedAt ?? Infinity) > at &&
        !isOfAnother(other.operation),
    )
    return Math.min(this.history.settlingAt, ...next.map((other) => other.at))
  }

  /** Its connection broke meanwhile. A client then sends again what was not answered. */
  mayBeSentTwice({ at, endedAt = Infinity }: Done): boolean {
    return this.all('cutProducer', 'restartQueue', 'failover', 'faultQueue').some(
      (cut) => cut.at < endedAt && (cut.endedAt ?? cut.at) > at,
    )
  }

  /** Whether what was done between two times may have been lost with the queue's Redis. */
  mayBeUndone(from: number, to: number = from): boolean {
    return this.undone.some((lost) => from <= lost.to + this.graceMs && to >= lost.from)
  }

  /** When a worker was given the job of a run, at the earliest. */
  givenAt(run: Run): number {
    const at = this.toldAt(run)
    // One that stood still hears of it when it goes on.
    const freeze = this.freezes.find(
      ({ worker, to }) => worker === run.worker && at >= to && at < to + this.graceMs,
    )
    return freeze?.from ?? at
  }

  /** When a worker said that it was given the job of a run. */
  toldAt(run: Run): number {
    let at = run.at
    for (const event of this.history.seen) {
      if (event.kind !== 'active' || event.id !== run.id || event.worker !== run.worker) continue
      if (event.at <= run.at) at = event.at
    }
    return at
  }

  /** Whether the worker of a run stood still in it, or before its end can have been written. */
  wasFrozen({ worker, at, ended }: Run): boolean {
    return this.freezes.some(
      (freeze) =>
        freeze.worker === worker &&
        lengthOf(freeze) > LEASE_LAG_MS &&
        freeze.to >= at &&
        freeze.from <= (ended?.at ?? Infinity) + this.graceMs,
    )
  }

  /** A run that may have been lost, or that may have been followed by another one. */
  isLost(run: Run): boolean {
    const { ended, killedAt, stopped, id } = run
    if (ended === undefined || killedAt !== undefined || this.wasFrozen(run)) return true
    if (stopped !== undefined && !stopped.reason.startsWith('JobCancelledError')) return true
    return this.history.seen.some(
      (event) =>
        (event.kind === 'leaseLost' || event.kind === 'lockLost' || event.kind === 'stalled') &&
        event.id === id,
    )
  }

  /** When a run held its resources no longer, as it could know. */
  endOf(run: Run): number {
    const { ended, killedAt, stopped, trustedUntil } = run
    const isLost = stopped?.reason.startsWith('LeaseLostError') === true
    const lostAt = isLost ? stopped.trustedUntil : Infinity
    const trust = ended?.trustedUntil ?? (killedAt === undefined ? trustedUntil : lostAt)
    // A worker that stops leaves behind what does not listen, and says so.
    const left = stopped?.reason.startsWith('ShutdownError') === true ? stopped.at : Infinity
    const worked = Math.max(ended?.at ?? killedAt ?? Infinity, run.workedUntil ?? 0)
    return Math.min(worked, trust, left)
  }

  instance(run: Run): string {
    return instanceOf(run)
  }

  /** Slots of a resource that may have been in force in a queue between two times. */
  slotsBetween(resource: string, from: number, to: number): number {
    const other = this.beside === undefined ? 0 : slotsIn(this.beside, resource, from, to)
    return Math.max(other, slotsIn(this, resource, from, to))
  }

  hasOneSlot(resource: string): boolean {
    return this.slotsBetween(resource, -Infinity, Infinity) === 1 && !this.setsSlots(resource)
  }

  setsSlots(resource: string): boolean {
    return [...this.all('setSlots'), ...(this.beside?.all('setSlots') ?? [])].some(
      ({ operation }) => this.history.prefix + operation.resource === resource,
    )
  }
}

function slotsIn(knowledge: Knowledge, resource: string, from: number, to: number): number {
  const { settings } = knowledge.history.plan
  const isFirst = resource === `${knowledge.history.prefix}r0`
  const base = settings.slotsByJob && !isFirst ? 1 : settings.slots
  if (settings.order === 'relaxed') return base // It has no lines, and limits are of lines.
  // What was set may be lost, and count again.
  if (knowledge.undone.length > 0 && knowledge.setsSlots(resource)) return MAX_SLOTS
  let now = base
  let most = 0
  for (const { operation, at, endedAt = Infinity } of knowledge.all(
    'setSlots',
    'resetSlots',
    'obliterate',
  )) {
    if ('resource' in operation && knowledge.history.prefix + operation.resource !== resource)
      continue
    if (at > to) break
    const set = operation.do === 'setSlots' ? operation.slots : base
    if (operation.do === 'setSlots' && operation.forMs !== undefined) most = Math.max(most, base)
    if (endedAt >= from) most = Math.max(most, now)
    now = endedAt > from ? Math.max(now, set) : set
  }
  return Math.max(most, now)
}

function lengthOf({ from, to }: Freeze): number {
  return to - from
}

function addedBy({
  operation,
}: Done): readonly { plan: JobPlan; index: number; kind: Known['kind'] }[] {
  switch (operation.do) {
    case 'add':
      return [{ plan: operation.job, index: 0, kind: 'add' }]
    case 'addBulk':
      return operation.jobs.map((plan, index) => ({ plan, index, kind: 'addBulk' }))
    case 'flow':
      return [
        { plan: operation.parent, index: 0, kind: 'parent' },
        ...operation.children.map((plan, index) => ({ plan, index, kind: 'child' as const })),
      ]
    case 'scheduler':
      return [{ plan: operation.job, index: 0, kind: 'scheduler' }]
    default:
      return []
  }
}
