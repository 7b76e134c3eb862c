/** What must hold of every episode. A rule returns what is wrong, in words. */
import { Knowledge, LEASE_LAG_MS, type Known } from './known.ts'
import type { History, Run } from './history.ts'
import type { Action } from './plan.ts'

export interface Violation {
  readonly rule: string
  readonly detail: string
  /** On the clock of the history, if it has a time. */
  readonly at?: number
}

type Found = readonly Omit<Violation, 'rule'>[]
type Rule = (knowledge: Knowledge) => Found

export function judge(history: History): readonly Violation[] {
  const { failure } = history
  if (failure !== undefined) return [{ rule: 'an episode ends', detail: failure }]
  const knowledge = new Knowledge(history)
  const { beside } = history
  if (beside === undefined) return judged(knowledge)
  const second = new Knowledge({ ...beside, lagMs: history.lagMs })
  second.beside = knowledge
  knowledge.beside = second
  return [...judged(knowledge), ...judged(second)]
}

function judged(knowledge: Knowledge): readonly Violation[] {
  return Object.entries(RULES).flatMap(([rule, find]) =>
    find(knowledge).map((found) => ({ rule, ...found })),
  )
}

export const RULES: Readonly<Record<string, Rule>> = {
  'one at a time': oneAtATime,
  'tokens increase': tokensIncrease,
  'order of a line': orderOfALine,
  'the more urgent job is first': urgency,
  'tenants have their shares': shares,
  'what a worker gives back starts at once': givenBack,
  'a parent runs after its children': parents,
  'few run at once where few may': globalConcurrency,
  'a paused line starts nothing': pausedLines,
  'a paused queue starts nothing': pausedQueue,
  'a worker that drains starts nothing': drains,
  'a line that is held starts nothing': heldLines,
  'every call answers': answers,
  'calls answer the truth': truth,
  'a refused job is not there': refused,
  'a full line takes no job': fullLines,
  'a removed job does not run': removed,
  'a cancelled job does not run': cancelled,
  'a delay is waited out': delays,
  'no job is lost': lost,
  'jobs end as they must': endings,
  'what is done is not done again': doneOnce,
  'attempts count failures': attempts,
  'results are of the job': results,
  'computed once': computedOnce,
  'steps run once': stepsOnce,
  'steps are of the job': stepsOfTheJob,
  'a rate holds': rates,
  'a scheduler adds one at a time': schedulers,
  'a scheduler goes on': idleSchedulers,
  'counts are right': counts,
  'nothing is stuck': stuck,
  'nothing is left': left,
  'places are of jobs': places,
  'no lease is lost': leases,
  'a lost lease stops its run': lostLeases,
  'an end is of the last run': ends,
  'a line goes on without a frozen worker': goesOn,
  'no error without a cause': errors,
  'queues of one resource take turns': takeTurns,
}

/** A run, or all runs of one batch. */
interface Span {
  readonly what: string
  readonly from: number
  readonly given: number
  readonly to: number
  readonly token: number
  readonly trustedAtStart: boolean
  readonly batch: string | undefined
}

function spansOn(resource: string, knowledge: Knowledge): readonly Span[] {
  const spans = new Map<string, Span>()
  for (const [run, known] of allRuns(knowledge)) {
    if (!run.resources.includes(resource)) continue
    const to = known.endOf(run)
    const key = run.batch ?? run.run
    const before = spans.get(key)
    spans.set(key, {
      what: before === undefined ? nameOf(run) : `${before.what}, ${nameOf(run)}`,
      from: before?.from ?? run.at,
      given: before?.given ?? known.givenAt(run),
      to: Math.max(to, before?.to ?? 0),
      token: run.fencingToken,
      trustedAtStart: run.trustedUntil > run.at,
      batch: run.batch,
    })
  }
  for (const held of knowledge.history.held) {
    if (!held.resources.includes(resource)) continue
    spans.set(`held ${held.at}`, {
      what: 'a lease outside of jobs',
      ...{ from: held.at, given: held.at, to: Math.min(held.until, held.trustedUntil) },
      ...{ token: held.fencingToken, trustedAtStart: true, batch: undefined },
    })
  }
  return [...spans.values()].sort((a, b) => a.from - b.from)
}

/** Of both queues: the lease keeps them apart. */
function allRuns(knowledge: Knowledge): readonly (readonly [Run, Knowledge])[] {
  return [knowledge, knowledge.beside].flatMap(
    (known) => known?.runs.map((run) => [run, known] as const) ?? [],
  )
}

function resourcesIn({ history, runs }: Knowledge): readonly string[] {
  return [...new Set([...runs, ...history.held].flatMap((each) => [...each.resources]))].sort()
}

function oneAtATime(knowledge: Knowledge): Found {
  return resourcesIn(knowledge).flatMap((resource) => {
    const spans = spansOn(resource, knowledge)
    return spans.flatMap((span) => {
      const others = spans.filter(
        (other) => other !== span && other.from <= span.from && other.to > span.from,
      )
      const slots = knowledge.slotsBetween(resource, span.given - knowledge.graceMs, span.from)
      if (others.length < slots) return []
      const names = others.map(({ what, to }) => `${what} (until ${to.toFixed(1)})`).join('; ')
      const detail = `${span.what} began on ${resource} beside ${names}; it has ${slots} slots`
      return [{ at: span.from, detail }]
    })
  })
}

function tokensIncrease(knowledge: Knowledge): Found {
  return resourcesIn(knowledge).flatMap((resource) => {
    if (!knowledge.hasOneSlot(resource)) return []
    const spans = spansOn(resource, knowledge).filter((span) => span.trustedAtStart)
    return spans.flatMap((span, index) => {
      const before = spans[index - 1]
      if (before === undefined || before.token < span.token) return []
      const detail = `${span.what} has ${span.token} on ${resource}, and ${before.what} before it ${before.token}`
      return [{ at: span.from, detail }]
    })
  })
}

/** Whether a job takes its places when it is added. */
function joinsAtOnce(job: Known, knowledge: Knowledge): boolean {
  return job.plan.opts.delay === undefined && isOrdinary(job, knowledge)
}

/** One that a `LockedQueue` has added for certain, under an id of its own. */
function isOrdinary({ plan, add, kind }: Known, knowledge: Knowledge): boolean {
  const { deduplication, jobId } = plan.opts
  if (kind !== 'add' && kind !== 'addBulk') return false
  if ('by' in add.operation && add.operation.by === 'plain') return false
  if (add.error !== undefined || add.endedAt === undefined) return false
  if (knowledge.mayBeUndone(add.at, add.endedAt)) return false
  if (knowledge.mayBeSentTwice(add)) return false
  return deduplication === undefined && jobId === undefined
}

/** Jobs that joined their lines by themselves and were left alone since. */
function plainJoins(knowledge: Knowledge, when = joinsAtOnce): readonly Known[] {
  const { jobs, history } = knowledge
  const { order, within } = history.plan.settings
  if (order !== 'strict') return []
  return jobs.filter(
    (job) =>
      when(job, knowledge) &&
      job.touches.length === 0 &&
      job.plan.data.work.moves !== 'children' &&
      !(within === 'priority' && job.plan.opts.lifo === true),
  )
}

function orderOfALine(knowledge: Knowledge): Found {
  const { history } = knowledge
  const { within, batch } = history.plan.settings
  if (knowledge.all('leaveLines').length > 0) return []
  const joins = plainJoins(knowledge)
  const found: { at: number; detail: string }[] = []
  for (const first of joins) {
    if (
      first.runs.length === 0 ||
      first.runs.some((run) => knowledge.isLost(run) && run.killedAt === undefined)
    )
      continue
    for (const second of joins) {
      // A start that is lost with the queue's Redis comes again.
      const start = second.runs.find((run) => !knowledge.mayBeUndone(knowledge.givenAt(run)))
      if (start === undefined || !isBefore(first, second)) continue
      const shared = first.resources.find(
        (name) => second.resources.includes(name) && knowledge.hasOneSlot(name),
      )
      if (shared === undefined) continue
      const { priority: one = 0 } = first.plan.opts
      const { priority: other = 0 } = second.plan.opts
      if (within === 'priority' && one !== other) continue
      const ends =
        batch === undefined
          ? Math.max(...first.runs.map((run) => knowledge.endOf(run)))
          : (first.runs[0] as Run).at
      if (start.at >= ends) continue
      const detail = `${nameOf(start)} began on ${shared} before ${first.uid}, which joined first, had ended (${ends.toFixed(1)})`
      found.push({ at: start.at, detail })
    }
  }
  return found
}

function isBefore(one: Known, other: Known): boolean {
  if (one.add === other.add) return one.index < other.index
  return (one.add.endedAt ?? Infinity) < other.add.at
}

/** With 0 for none, the most urgent comes first; also before one whose delay has ended. */
function urgency(knowledge: Knowledge): Found {
  const { history, graceMs, isBroken } = knowledge
  if (history.plan.settings.within !== 'priority' || isBroken) return []
  // As with BullMQ, `promoteJobs` puts them before all with a priority.
  if (knowledge.all('leaveLines', 'promoteAll').length > 0) return []
  const joins = plainJoins(knowledge)
  const priorityOf = ({ plan }: Known): number => plan.opts.priority ?? 0
  return plainJoins(knowledge, isOrdinary).flatMap((late) => {
    const [start] = late.runs
    if (start === undefined) return []
    const given = knowledge.givenAt(start)
    return joins.flatMap((urgent) => {
      const [first] = urgent.runs
      if (first === undefined || priorityOf(urgent) >= priorityOf(late)) return []
      const wasThere = (urgent.add.endedAt ?? Infinity) + graceMs < given
      if (!wasThere || first.at <= start.at) return []
      const shared = late.resources.find(
        (name) => urgent.resources.includes(name) && knowledge.hasOneSlot(name),
      )
      if (shared === undefined) return []
      const detail = `${nameOf(start)} began on ${shared} before ${urgent.uid}, which is more urgent`
      return [{ at: start.at, detail }]
    })
  })
}

/** A start counts so much work, until it ends. */
const QUANTUM_MS = 50
const BACKLOG_RESOURCE = /:?alone$/

/** While a tenant waits for a worker, another one gets no more than its share. */
function shares(knowledge: Knowledge): Found {
  const { history, jobs, runs, graceMs, isFaulty } = knowledge
  const { tenant, weight, concurrency, rate, limiter, workers } = history.plan.settings
  if (!tenant || weight || isFaulty || rate !== undefined || limiter !== undefined) return []
  if (history.plan.operations.some((each) => UNFAIR.test(each.do))) return []
  const crowd = runs.filter((run) => /crowd\d$/.test(run.resources[0] ?? ''))
  const alone = jobs.filter(({ resources }) => BACKLOG_RESOURCE.test(resources[0] ?? ''))
  const places = concurrency * (workers.length + history.plan.operations.filter(isStart).length)
  // Both may owe what they have begun.
  const most = 2 * (places + 1) * QUANTUM_MS + 4 * graceMs
  return alone.flatMap((job, index) => {
    const [start] = job.runs
    const before = alone[index - 1]?.runs.at(-1)?.ended?.at ?? job.add.endedAt
    if (start === undefined || before === undefined || start.at <= before) return []
    const worked = crowd
      .filter((run) => run.at > before && run.at < start.at)
      .reduce((sum, run) => sum + (run.ended?.at ?? run.at) - run.at, 0)
    if (worked <= most) return []
    const detail = `${job.uid} waited while another tenant worked for ${worked.toFixed(0)} ms`
    return [{ at: start.at, detail }]
  })
}

const UNFAIR = /pause|hold|setSlots|setRate|cancel|fault|global|rest|Concurrency|leave|obliterate/i
const isStart = (operation: { readonly do: string }): boolean => operation.do === 'startWorker'

const STARTS_IN_MS = 1_000

/** Judged by the time in which nothing else ran. */
function givenBack(knowledge: Knowledge): Found {
  const { history, graceMs, isFaulty, runs } = knowledge
  const { settings } = history.plan
  if (isFaulty || settings.limiter !== undefined) return []
  if (history.plan.operations.some((each) => STOPS.test(each.do))) return []
  return knowledge.all('drainWorker').flatMap(({ answer, at, endedAt = Infinity }) => {
    const back = runs.filter(
      ({ worker, stopped }) =>
        worker === answer && stopped?.reason.startsWith('ShutdownError') === true,
    )
    // Another worker is there all the time.
    const others = history.plan.settings.workers.length - 1
    if (others < 1 || knowledge.all('closeWorker', 'drainWorker').length > 1) return []
    return back.flatMap((run) => {
      const from = Math.max(run.ended?.at ?? Infinity, at)
      if (from > endedAt) return []
      const next = runs.find((other) => other.uid === run.uid && other.at > from)
      const to = next?.at ?? history.settledAt
      const idleMs = lengthOf(idleTimes(runs, from, to))
      if (idleMs <= STARTS_IN_MS + 4 * graceMs) return []
      const detail = `${nameOf(run)} was given back, and started after ${idleMs.toFixed(0)} ms in which nothing ran`
      return [{ at: from, detail }]
    })
  })
}

const STOPS =
  /pause|hold|setRate|cancel|remove|fault|global|rest|obliterate|clean|drainQueue|settle/i

interface Idle {
  readonly from: number
  readonly to: number
}

/** When nothing ran. @param runs by their start. */
function idleTimes(
  runs: readonly Pick<Run, 'at' | 'ended'>[],
  from: number,
  to: number,
): readonly Idle[] {
  const idle: Idle[] = []
  let at = from
  for (const run of runs) {
    if (run.at >= to) break
    if (run.at > at) idle.push({ from: at, to: run.at })
    at = Math.max(at, run.ended?.at ?? run.at)
  }
  return at < to ? [...idle, { from: at, to }] : idle
}

function lengthOf(times: readonly Idle[]): number {
  return times.reduce((sum, { from, to }) => sum + to - from, 0)
}

/** Of flows whose parent is in a plain queue. */
function parents(knowledge: Knowledge): Found {
  const { history, byUid } = knowledge
  return history.parents.flatMap(({ uid, at }) => {
    const add = byUid.get(uid)?.add
    const flow = add?.operation
    if (add === undefined || flow?.do !== 'flow' || knowledge.mayBeUndone(add.at, at)) return []
    if (flow.children.some(({ opts }) => opts.continueParentOnFailure)) return []
    return flow.children.flatMap(({ data }) => {
      const late = byUid.get(data.uid)?.runs.find((run) => run.at > at)
      const isTouched = (byUid.get(data.uid)?.touches.length ?? 0) > 0
      if (late === undefined || isTouched || knowledge.isLost(late)) return []
      // `obliterate` removes the child that a worker has just fetched, and so the parent starts.
      const isObliterated = knowledge
        .all('obliterate')
        .some(
          ({ at: begun, endedAt = Infinity }) =>
            begun <= at && endedAt >= knowledge.givenAt(late) - knowledge.graceMs,
        )
      if (isObliterated) return []
      return [{ at, detail: `${uid} ran before its child ${nameOf(late)}` }]
    })
  })
}

function globalConcurrency(knowledge: Knowledge): Found {
  const { history, runs, graceMs, isBroken } = knowledge
  if (isBroken || history.plan.settings.batch !== undefined) return []
  return knowledge.all('globalConcurrency').flatMap((done) => {
    const { endedAt, error, answer } = done
    const { most } = done.operation
    // A sharded queue refuses it.
    if (endedAt === undefined || error !== undefined || answer === 'absent') return []
    if (most === undefined) return []
    const until = knowledge.untilNext(done, 'globalConcurrency', 'obliterate')
    return givenIn(knowledge, endedAt + graceMs, until).flatMap((run) => {
      const beside = runs.filter(
        (other) => other !== run && other.at < run.at && knowledge.endOf(other) > run.at,
      )
      if (beside.length < most) return []
      const names = beside.map(nameOf).join('; ')
      return [{ at: run.at, detail: `${nameOf(run)} began beside ${names}; ${most} may run` }]
    })
  })
}

/** Runs that were given to a worker in a time. */
function givenIn(knowledge: Knowledge, from: number, to: number): readonly Run[] {
  return knowledge.runs.filter((run) => {
    if (run.at < from) return false
    return knowledge.givenAt(run) > from && knowledge.toldAt(run) < to
  })
}

/** A caller gives the end of a pause in whole milliseconds. */
const WHOLE_MS = 1

function pausedLines(knowledge: Knowledge): Found {
  const { history, startGraceMs } = knowledge
  if (history.plan.settings.order !== 'strict') return []
  return knowledge.all('pauseLine').flatMap((done) => {
    const { operation, at, endedAt, error } = done
    if (endedAt === undefined || error !== undefined) return []
    if (knowledge.mayBeUndone(at, endedAt)) return []
    const resource = history.prefix + operation.resource
    const until = Math.min(
      at + (operation.forMs ?? Infinity) - WHOLE_MS,
      knowledge.untilNext(done, 'pauseLine', 'resumeLine', 'obliterate'),
    )
    const runs = givenIn(knowledge, endedAt + startGraceMs, until)
    // A worker that was given the job asks once more for its turn.
    return runs
      .filter((run) => run.at < until && run.resources.includes(resource))
      .map((run) => ({
        at: run.at,
        detail: `${nameOf(run)} began on ${resource}, paused since ${endedAt.toFixed(1)}`,
      }))
  })
}

function pausedQueue(knowledge: Knowledge): Found {
  return knowledge.all('pauseQueue').flatMap((done) => {
    const { at, endedAt, error } = done
    if (endedAt === undefined || error !== undefined) return []
    if (knowledge.mayBeUndone(at, endedAt)) return []
    const until = knowledge.untilNext(done, 'pauseQueue', 'resumeQueue', 'census', 'obliterate')
    return givenIn(knowledge, endedAt + knowledge.startGraceMs, until).map((run) => ({
      at: run.at,
      detail: `${nameOf(run)} began in a queue that was paused at ${endedAt.toFixed(1)}`,
    }))
  })
}

function drains(knowledge: Knowledge): Found {
  const { runs, graceMs, history } = knowledge
  const { batch, dedupe, workers } = history.plan.settings
  return knowledge.all('drainWorker').flatMap(({ at, endedAt, answer, operation }) => {
    // In another process it begins later; what has its lease may wait for others, or for a result.
    const isExact = workers[operation.worker] !== 'child' && !batch && !dedupe
    const late = runs.filter(
      (run) =>
        run.worker === answer && (isExact ? run.at > at : knowledge.givenAt(run) > at + graceMs),
    )
    const found = late.map((run) => ({
      at: run.at,
      detail: `${nameOf(run)} began ${(run.at - at).toFixed(1)} ms after its worker began to drain`,
    }))
    const stoodMs = knowledge.freezes
      .filter((freeze) => freeze.worker === answer && freeze.to > at)
      .reduce((sum, freeze) => sum + freeze.to - Math.max(at, freeze.from), 0)
    const limit = at + operation.timeoutMs + 5_000 + graceMs + stoodMs
    if (endedAt === undefined || endedAt < limit) return found
    const took = (endedAt - at).toFixed(0)
    return [...found, { at, detail: `drain with ${operation.timeoutMs} ms took ${took} ms` }]
  })
}

function heldLines(knowledge: Knowledge): Found {
  const { history, graceMs, jobs } = knowledge
  const { order, onFailure, batch } = history.plan.settings
  if (order !== 'strict' || onFailure !== 'block' || batch !== undefined) return []
  if (knowledge.isBroken || knowledge.all('leaveLines').length > 0) return []
  const enders = knowledge.all(
    ...(['settle', 'obliterate', 'clean', 'drainQueue', 'cancelLine', 'removeOrphans'] as const),
  )
  return jobs.flatMap(({ uid, plan, runs, touches, resources, kind }) => {
    if (kind === 'scheduler' || kind === 'child') return []
    const last = runs.at(-1)
    if (last?.ended?.outcome !== 'failed' || knowledge.isLost(last)) return []
    const { attempts: most = 1 } = plan.opts
    if (!last.ended.error?.includes('planned failure')) return []
    if (last.attempt + 1 < most && plan.data.work.isFinal !== true) return []
    const from = last.ended.at
    const until = Math.min(
      history.settlingAt,
      ...[...touches, ...enders]
        .filter((done) => (done.endedAt ?? Infinity) > from)
        .map(({ at }) => at),
    )
    return resources.flatMap((resource) => {
      if (!knowledge.hasOneSlot(resource)) return []
      return givenIn(knowledge, from + graceMs, until)
        .filter((run) => run.resources.includes(resource))
        .map((run) => ({
          at: run.at,
          detail: `${nameOf(run)} began on ${resource}, held since ${uid} failed at ${from.toFixed(1)}`,
        }))
    })
  })
}

function answers({ history }: Knowledge): Found {
  const found = history.done
    .filter(({ endedAt }) => endedAt === undefined)
    .map(({ operation, index, at }) => ({
      at,
      detail: `${operation.do} (${index}) never answered`,
    }))
  return [...found, ...history.unclosed.map((name) => ({ detail: `${name} did not close` }))]
}

/** Errors that a call may have, by a part of their text. */
const MAY_SAY: Readonly<Record<string, RegExp>> = {
  add: /LineFullError/,
  addBulk: /LineFullError/,
  addBeside: /LineFullError/,
  // BullMQ's own: of deduplication in flows, and of a transaction after `SCRIPT FLUSH`.
  flow: /deduplication|NOSCRIPT/i,
  remove: /locked|could not be removed|belongs to a job scheduler/i,
  retry: /not in the failed state|Missing key|is not in|belongs to/i,
  promote: /not in the delayed state|Missing key|is not in/i,
  changePriority: /Missing key/i,
  changeDelay: /not in the delayed state|Missing key/i,
  updateData: /Missing key/i,
  removeById: /locked|could not be removed|belongs to a job scheduler/i,
  note: /Missing key/i,
  hold: /ResourceTakenError|SplitVoteError|TimeoutError|LeaseLostError/,
  obliterate: /./,
  cancel: /scheduler/i,
  cancelLine: /scheduler/i,
  // Of a worker that closes meanwhile.
  ask: /^Error: Connection is closed/,
}

function truth(knowledge: Knowledge): Found {
  if (knowledge.isBroken) return []
  // Of a job whose hash is gone nobody knows the resource.
  const isDamaged = knowledge.all('deleteHash').length > 0
  return knowledge.history.done
    .filter(
      ({ error, operation }) =>
        error !== undefined &&
        !(MAY_SAY[operation.do]?.test(error) ?? false) &&
        !(isDamaged && operation.do === 'ask' && error.startsWith('ResourceError')),
    )
    .map(({ operation, index, at, error = '' }) => ({
      at,
      detail: `${operation.do} (${index}) failed: ${error}`,
    }))
}

function refused(knowledge: Knowledge): Found {
  return knowledge.jobs.flatMap(({ add, uid, runs, stored, kind }) => {
    if (kind !== 'add' || add.error?.includes('LineFullError') !== true) return []
    if (runs.length === 0 && stored === undefined) return []
    // The first sending was done, and the second one found its job in the line.
    if (knowledge.mayBeSentTwice(add)) return []
    return [{ at: add.at, detail: `${uid} was refused, and is there` }]
  })
}

/** Counted are jobs that stood in the line during all of the add, for certain. */
function fullLines(knowledge: Knowledge): Found {
  const { jobs, history } = knowledge
  const { maxLength, order } = history.plan.settings
  if (maxLength === undefined || order !== 'strict' || knowledge.isBroken) return []
  if (knowledge.all('leaveLines', 'obliterate').length > 0) return []
  return jobs.flatMap((job) => {
    if (!joinsAtOnce(job, knowledge) || job.kind !== 'add') return []
    const { add, resources } = job
    return resources.flatMap((resource) => {
      const there = jobs.filter((other) => {
        if (!joinsAtOnce(other, knowledge) || !other.resources.includes(resource)) return false
        // A job leaves its line while it waits for children, which is after its first start.
        const isParent = other.plan.data.work.moves === 'children'
        const leavesAt = isParent ? other.runs[0]?.at : other.runs.at(-1)?.ended?.at
        const isLast = (leavesAt ?? 0) > (add.endedAt ?? 0)
        return isLast && (other.add.endedAt ?? Infinity) < add.at && other.touches.length === 0
      })
      if (there.length < maxLength) return []
      const names = there.map(({ uid }) => uid).join(', ')
      return [{ at: add.at, detail: `${job.uid} joined ${resource}, which had ${names}` }]
    })
  })
}

function removed(knowledge: Knowledge): Found {
  const { graceMs, byUid, reusesIds } = knowledge
  return knowledge
    .all('remove', 'removeById')
    .flatMap(({ operation, at, endedAt = Infinity, answer }) => {
      const job = byUid.get(operation.uid)
      // BullMQ says that it has removed what is not there.
      if ((job?.add.endedAt ?? Infinity) > at) return []
      // An `addBulk` that adds only some jobs tells the id of none.
      if (job?.add.error !== undefined) return []
      if (job === undefined || answer !== 'done' || reusesIds || job.kind === 'scheduler') return []
      if (job.plan.opts.deduplication !== undefined || knowledge.mayBeSentTwice(job.add)) return []
      const found = job.runs
        .filter((run) => run.at > endedAt + graceMs)
        .map((run) => ({ at: run.at, detail: `${nameOf(run)} began after it was removed` }))
      if (job.stored === undefined) return found
      return [...found, { at: endedAt, detail: `${operation.uid} is there after it was removed` }]
    })
}

interface CancelAnswer {
  readonly jobId: string
  readonly outcome: string
}

function outcomesOf(answer: unknown): readonly CancelAnswer[] {
  return Array.isArray(answer) ? (answer as readonly CancelAnswer[]) : []
}

function cancelled(knowledge: Knowledge): Found {
  const { history, graceMs, reusesIds, jobs } = knowledge
  if (reusesIds) return []
  const calls = knowledge.all('cancel', 'cancelLine')
  const again = jobs.flatMap(({ kind, runs, touches }) =>
    runs.flatMap((run, index) => {
      const next = runs[index + 1]
      if (run.stopped?.reason.includes('JobCancelledError') !== true || next === undefined)
        return []
      // It may have ended before.
      if (run.ended?.outcome === 'done' || kind === 'scheduler') return []
      if ((run.ended?.at ?? Infinity) <= run.stopped.at) return []
      if (touches.some(({ operation }) => /^retry/.test(operation.do))) return []
      if (knowledge.all('retryAll').length > 0 || knowledge.isLost(run)) return []
      return [{ at: next.at, detail: `${nameOf(next)} began, though ${run.run} was cancelled` }]
    }),
  )
  const said = calls.flatMap(({ at, endedAt = Infinity, answer, operation }) => {
    return outcomesOf(answer).flatMap(({ jobId, outcome }) => {
      const uid = [...history.ids].find(([, id]) => id === jobId)?.[0]
      const job = jobs.find((each) => each.uid === uid)
      if (job === undefined || job.kind === 'scheduler') return []
      if (job.plan.opts.deduplication !== undefined || knowledge.mayBeSentTwice(job.add)) return []
      const retried = job.touches.some(
        (touch) => /^retry/.test(touch.operation.do) && (touch.endedAt ?? Infinity) > at,
      )
      const said = `${job.uid}: ${operation.do} said ${outcome} at ${endedAt.toFixed(1)}`
      const say = (what: string): Found => [{ at: endedAt, detail: `${said}, but ${what}` }]
      const isOver = (outcome === 'failed' || outcome === 'stopped') && !retried
      const later = isOver ? job.runs.find((run) => run.at > endedAt + graceMs) : undefined
      const ran = later === undefined ? [] : say(`it ran at ${later.at.toFixed(1)}`)
      const state = job.stored?.state
      if (state === undefined) return ran
      const isWrong =
        (isOver && state !== 'failed') ||
        (outcome === 'missing' && (job.add.endedAt ?? Infinity) < at) ||
        (outcome === 'completed' && state !== 'completed')
      return isWrong ? [...ran, ...say(`it is ${state}`)] : ran
    })
  })
  return [...again, ...said]
}

/** Clocks of processes on one machine agree to this. */
const CLOCK_MS = 2

function delays(knowledge: Knowledge): Found {
  const { jobs, isFaulty } = knowledge
  const promotions = knowledge.all('promoteAll')
  return jobs.flatMap(({ plan: { opts }, add, kind, touches, runs, resources }) => {
    const [first] = runs
    const { delay = 0, backoff, timestamp, deduplication, jobId } = opts
    if (first === undefined || touches.some(({ operation }) => HURRIES.test(operation.do)))
      return []
    if (promotions.some(({ endedAt = Infinity }) => endedAt > add.at)) return []
    if (resources.length === 0 || deduplication !== undefined || jobId !== undefined) return []
    const found: { at: number; detail: string }[] = []
    const isAdded = kind === 'add' || kind === 'addBulk'
    if (isAdded && delay > 0 && timestamp === undefined && first.at < add.at + delay - CLOCK_MS) {
      const after = (first.at - add.at).toFixed(1)
      found.push({ at: first.at, detail: `${nameOf(first)} began after ${after} of ${delay} ms` })
    }
    if (isFaulty || typeof backoff !== 'number' || kind === 'scheduler') return found
    for (const [index, run] of runs.entries()) {
      const before = runs[index - 1]
      if (before?.ended?.error !== PLANNED || run.attempt !== before.attempt + 1) continue
      const after = run.at - before.ended.at
      if (after >= backoff - CLOCK_MS) continue
      const detail = `${nameOf(run)} began ${after.toFixed(1)} ms after its failure, of ${backoff}`
      found.push({ at: run.at, detail })
    }
    return found
  })
}

const PLANNED = 'Error: planned failure'
const HURRIES = /^(promote|retry|changeDelay|skip)/

/** A job that is not there any more, and why that may be. */
function lost(knowledge: Knowledge): Found {
  const { history, jobs } = knowledge
  const { settings } = history.plan
  const removers = knowledge.all('drainQueue', 'clean', 'obliterate')
  const isObliterated = knowledge.all('obliterate').length > 0
  const ownRemoval = (option: 'removeOnComplete' | 'removeOnFail'): true | undefined =>
    jobs.some(({ plan: { opts } }) => opts[option] !== undefined) || undefined
  const removesCompleted = settings.removeOnComplete ?? ownRemoval('removeOnComplete')
  // No failed job that holds a line is removed by itself.
  const removesFailed =
    settings.onFailure === 'block'
      ? undefined
      : (settings.removeOnFail ?? ownRemoval('removeOnFail'))
  return jobs.flatMap(({ uid, plan, add, kind, stored, touches, runs }) => {
    if (stored !== undefined || add.error !== undefined || add.endedAt === undefined) return []
    const { opts } = plan
    if (kind === 'scheduler' || kind === 'child' || kind === 'parent') return []
    if (opts.jobId !== undefined || opts.deduplication !== undefined) return []
    if (isObliterated || settings.whenFull !== 'refuse') return []
    if (knowledge.mayBeUndone(add.at, add.endedAt)) return []
    const end = runs.at(-1)?.ended?.outcome
    const hasEnded = end !== undefined || settings.dedupe !== undefined || knowledge.isFaulty
    if (removesCompleted !== undefined && (end === 'done' || hasEnded)) return []
    const id = history.ids.get(uid)
    const hasFailed = history.seen.some((event) => event.kind === 'failed' && event.id === id)
    const mayFailUnrun =
      hasFailed || settings.maxWaitMs !== undefined || knowledge.all('cancelLine').length > 0
    if (removesFailed !== undefined && (end === 'failed' || mayFailUnrun)) return []
    const mayBeCancelled = touches.some(({ operation }) => operation.do === 'cancel')
    if (removesFailed !== undefined && mayBeCancelled) return []
    // Cancelled before it ran, it holds no line.
    const removesUnrun = runs.length === 0 && (opts.removeOnFail ?? settings.removeOnFail)
    const isCancelled = mayBeCancelled || knowledge.all('cancelLine').length > 0
    if (removesUnrun !== undefined && removesUnrun !== false && isCancelled) return []
    const wasRemoved =
      touches.some(({ operation }) => /^(remove|deleteHash)/.test(operation.do)) ||
      removers.some(({ endedAt = Infinity }) => endedAt > add.at)
    return wasRemoved ? [] : [{ at: add.at, detail: `${uid} was added, and is gone` }]
  })
}

function endings(knowledge: Knowledge): Found {
  const { history, jobs } = knowledge
  const { settings } = history.plan
  const forgets = jobs.some(({ plan: { data } }) => data.work.forgets === true)
  return jobs.flatMap(({ uid, plan, stored, runs, touches, add, kind }) => {
    if (stored === undefined || kind === 'scheduler') return []
    const say = (what: string): Found => [{ at: add.at, detail: `${uid} ${what}` }]
    const { work } = plan.data
    const { attempts: most = 1 } = plan.opts
    const isLost = runs.some((run) => knowledge.isLost(run))
    // Jobs of a batch have one lease.
    const mayForget = settings.batch === undefined ? work.forgets : forgets
    if (stored.state === 'completed') {
      const ran = runs.some((run) => run.ended?.outcome === 'done')
      if (ran || settings.dedupe !== undefined || knowledge.isFaulty) return []
      // A forgotten step may have ended before the batch did.
      if (settings.batch !== undefined && forgets) return []
      return say('completed, and no run of it did')
    }
    if (stored.state !== 'failed') return []
    const { failedReason = '' } = stored
    if (failedReason === 'planned failure') {
      if (work.fails >= most || work.isFinal === true || isLost) return []
      if (touches.some(({ operation }) => /^retry/.test(operation.do))) return []
      return say(`failed for good with ${work.fails} failures of ${most} attempts`)
    }
    if (failedReason.includes('shutting down')) return say(`failed, since its worker stopped`)
    if (mayForget && failedReason.includes('ended before its steps')) return []
    if (failedReason.includes('cancel')) return cancelledFor(knowledge, stored.id, touches, say)
    if (failedReason.includes('waited')) {
      return settings.maxWaitMs === undefined ? say(`failed: ${failedReason}`) : []
    }
    if (/child .* failed|pending dependencies/i.test(failedReason)) return []
    if (isLost || knowledge.isFaulty || touches.some(isDeletion)) return []
    return say(`failed: ${failedReason}`)
  })
}

/** Whatever happens to the queue's Redis between a job and its end. */
function doneOnce(knowledge: Knowledge): Found {
  const { history, runs, byUid } = knowledge
  const { plainWorkers } = history.plan.settings
  if (plainWorkers || knowledge.all('obliterate', 'retryAll').length > 0) return []
  const left = knowledge.all('closeWorker', 'drainWorker', 'kill').map(({ answer }) => answer)
  return runs.flatMap((run, index) => {
    const { ended, stopped, id, worker } = run
    if (ended?.outcome !== 'done' || stopped !== undefined || left.includes(worker)) return []
    if (knowledge.wasFrozen(run)) return []
    const { plan, touches = [], add } = byUid.get(run.uid) ?? {}
    if (touches.some(({ operation }) => /^(retry|deleteHash|skip)/.test(operation.do))) return []
    // BullMQ fails the end of a parent while children are open.
    if (add?.operation.do === 'flow' || plan?.data.work.moves === 'children') return []
    const again = runs.slice(index + 1).find((other) => {
      return other.id === id && knowledge.instance(other) === knowledge.instance(run)
    })
    if (again === undefined) return []
    // It may be started long after it was given, and its end may be written long after it.
    if (knowledge.mayBeUndone(knowledge.givenAt(run), again.at)) return []
    if (run.batch !== undefined && failedWithItsBatch(history, run, again.at)) return []
    const detail = `${nameOf(again)} began, and ${run.run} had done it until ${ended.at.toFixed(1)}`
    return [{ at: again.at, detail }]
  })
}

/** A step that one job of a batch forgets fails all of them. */
function failedWithItsBatch(
  { seen }: History,
  { id, worker, ended }: Run,
  before: number,
): boolean {
  return seen.some(
    (event) =>
      event.kind === 'failed' &&
      event.worker === worker &&
      event.id === id &&
      event.at >= (ended?.at ?? Infinity) &&
      event.at < before &&
      event.reason.includes('ended before its steps'),
  )
}

/** BullMQ's own queue knows nothing of places. */
function isPlainRemoval({ operation }: { readonly operation: Action }): boolean {
  return operation.do === 'removeById' && operation.by === 'plain'
}

function isDeletion({ operation }: Known['touches'][number]): boolean {
  return operation.do === 'deleteHash'
}

function cancelledFor(
  knowledge: Knowledge,
  id: string,
  touches: Known['touches'],
  say: (what: string) => Found,
): Found {
  const cancels = [
    ...touches.filter(({ operation }) => /^cancel/.test(operation.do)),
    ...knowledge.all('cancelLine', 'cancelAllHere'),
    // By the name of another job, which was deduplicated.
    ...knowledge
      .all('cancel')
      .filter(({ answer }) => outcomesOf(answer).some(({ jobId }) => jobId === id)),
  ]
  if (cancels.length === 0) return knowledge.reusesIds ? [] : say('is cancelled without a call')
  const retries = touches.filter(
    ({ operation, answer }) => operation.do === 'retry' && answer === 'done',
  )
  const lastRetry = Math.max(-Infinity, ...retries.map(({ at }) => at))
  const lastCancel = Math.max(...cancels.map(({ endedAt = Infinity }) => endedAt))
  if (lastRetry < lastCancel + knowledge.graceMs) return []
  return say('was retried, and was cancelled by a request from before that')
}

function attempts(knowledge: Knowledge): Found {
  if (knowledge.isFaulty) return []
  const { settings } = knowledge.history.plan
  const forgets = knowledge.jobs.some(({ plan: { data } }) => data.work.forgets === true)
  return knowledge.jobs.flatMap(({ uid, plan, stored, runs, touches, add, kind }) => {
    if (stored?.state !== 'completed' || kind === 'scheduler') return []
    // BullMQ starts it when one child fails, and fails its end while other ones run.
    const { operation } = add
    if (
      operation.do === 'flow' &&
      operation.children.some(({ opts }) => opts.continueParentOnFailure)
    )
      return []
    if (touches.some(({ operation }) => /retry|cancel/.test(operation.do))) return []
    if (forgets) return []
    if (settings.dedupe !== undefined || runs.some((run) => run.stopped !== undefined)) return []
    if (runs.some((run) => knowledge.isLost(run))) return []
    // `cancelAllJobs` also fails a job that was given to the worker, and has not started.
    const cancelled = knowledge.history.seen.filter(
      (event) =>
        event.kind === 'failed' &&
        event.id === stored.id &&
        event.reason.startsWith('The job was cancelled'),
    )
    // Cancelled early, it used an attempt that would have failed anyway.
    const least = plan.data.work.fails + 1
    const most = least + cancelled.length
    if (stored.attemptsMade >= least && stored.attemptsMade <= most) return []
    const detail = `${uid} has ${stored.attemptsMade} attempts, expected ${least} to ${most}`
    return [{ at: add.at, detail }]
  })
}

interface ResultValue {
  readonly uid: string
  readonly instance: string
  readonly run: string
}

function isResult(value: unknown): value is ResultValue {
  return typeof value === 'object' && value !== null && 'instance' in value
}

function results(knowledge: Knowledge): Found {
  const { history, byUid } = knowledge
  const { dedupe } = history.plan.settings
  return (history.final?.jobs ?? []).flatMap(({ id, uid, timestamp, state, returnvalue }) => {
    if (state !== 'completed' || byUid.get(uid)?.kind === 'scheduler') return []
    const at = byUid.get(uid)?.add.at ?? 0
    const own = `${uid}/${id}/${timestamp}`
    if (!isResult(returnvalue)) return [{ at, detail: `${uid} has ${JSON.stringify(returnvalue)}` }]
    if (returnvalue.instance === own) return []
    const detail = `${uid} (${own}) has the result of ${returnvalue.instance}`
    if (dedupe === undefined) return [{ at, detail }]
    const mine = byUid.get(uid.replace('+', ''))
    // A child has the key of its parent, which added it.
    const other = byUid.get(returnvalue.uid.replace('+', ''))
    const of = (job: Known | undefined): string | undefined =>
      dedupe.byKey ? job?.plan.data.key : job?.resources.toSorted().join()
    if (of(mine) !== of(other)) return [{ at, detail: `${detail}, of another key` }]
    if (!dedupe.fresh || mine === undefined) return []
    const computed = history.runs.get(returnvalue.run)
    const addedAt = mine.add.at
    if (computed === undefined || addedAt <= computed.at) return []
    return [{ at, detail: `${detail}, which began before it was added` }]
  })
}

function computedOnce(knowledge: Knowledge): Found {
  const { history, runs, byUid, graceMs } = knowledge
  const { dedupe } = history.plan.settings
  if (dedupe === undefined || knowledge.all('obliterate').length > 0) return []
  // A job without a place does not know which results are fresh.
  if (dedupe.fresh && knowledge.all('leaveLines').length > 0) return []
  const keyOf = (run: Run): string => (dedupe.byKey ? run.key : run.resources.toSorted().join())
  const done = runs.filter(
    (run) =>
      run.ended?.outcome === 'done' &&
      !knowledge.isLost(run) &&
      !knowledge.mayBeUndone(run.ended.at),
  )
  // A job that may not take a result drops it for all, and may then fail.
  const isDropped = (kept: Run, asker: Run): boolean =>
    runs.some(
      (run) => keyOf(run) === keyOf(asker) && run.at > (kept.ended?.at ?? 0) && run.at < asker.at,
    )
  // One that is given up lets others compute.
  const isBeside = (other: Run, run: Run): boolean =>
    other !== run &&
    [other, run].every((each) => each.stopped === undefined && !knowledge.isLost(each)) &&
    other.at < run.at &&
    (other.ended?.at ?? Infinity) > run.at + CLOCK_MS
  return runs.flatMap((run) => {
    // A job that takes its place later may not know that it was added before.
    const job = byUid.get(run.uid)
    const joined = job !== undefined && joinsAtOnce(job, knowledge)
    const addedAt = joined ? lastJoined(job, run, knowledge) : Infinity
    const first = done.find(
      (other) =>
        other !== run &&
        keyOf(other) === keyOf(run) &&
        (other.ended?.at ?? Infinity) + graceMs < run.at &&
        !(dedupe.fresh && (addedAt > knowledge.givenAt(other) || isDropped(other, run))),
    )
    if (first !== undefined) {
      const detail = `${nameOf(run)} computed what ${nameOf(first)} had computed until ${first.ended?.at.toFixed(1)}`
      return [{ at: run.at, detail }]
    }
    const beside = runs.find((other) => keyOf(other) === keyOf(run) && isBeside(other, run))
    if (beside === undefined) return []
    return [{ at: run.at, detail: `${nameOf(run)} computed beside ${nameOf(beside)}` }]
  })
}

/** A job that is retried by hand takes a new place, when a worker is given it. */
function lastJoined({ add, touches }: Known, run: Run, { history, graceMs }: Knowledge): number {
  const retries = touches.filter(({ operation, at }) => /^retry/.test(operation.do) && at < run.at)
  if (retries.length === 0) return add.endedAt ?? Infinity
  const from = Math.max(...retries.map(({ endedAt = Infinity }) => endedAt)) + graceMs
  const given = history.seen.find(
    (event) => event.kind === 'active' && event.id === run.id && event.at > from,
  )
  return given !== undefined && 'at' in given ? given.at : Infinity
}

function stepsOnce(knowledge: Knowledge): Found {
  const { history, runs } = knowledge
  if (!history.plan.settings.checkpoints || knowledge.all('obliterate').length > 0) return []
  // What a job kept goes with its end, also when it is tried again afterwards.
  const again = knowledge.all('retryAll').filter(({ operation }) => operation.state === 'completed')
  const isGone = (before: Run, at: number): boolean =>
    runs.some(
      (run) =>
        run.ended?.outcome === 'done' &&
        run.ended.at >= before.at &&
        knowledge.instance(run) === knowledge.instance(before) &&
        again.some((done) => done.at < at && (done.endedAt ?? at) > (run.ended?.at ?? at)),
    )
  const kept = new Map<string, Run>()
  const found: { at: number; detail: string }[] = []
  for (const run of runs) {
    for (const { step, at, value } of run.steps) {
      const key = `${knowledge.instance(run)} ${step}`
      const before = kept.get(key)
      if (before !== undefined && !Number.isNaN(at) && !isGone(before, at)) {
        found.push({ at, detail: `${nameOf(run)} ran ${step}, which ${before.run} had completed` })
      }
      const mayBeGone = knowledge.mayBeUndone(at, run.ended?.at)
      if (value !== undefined && !mayBeGone && (before === undefined || isGone(before, run.at)))
        kept.set(key, run)
    }
  }
  return found
}

function stepsOfTheJob(knowledge: Knowledge): Found {
  return knowledge.runs.flatMap((run) =>
    run.steps.flatMap(({ step, value }) => {
      if (value === undefined || value === knowledge.instance(run)) return []
      return [{ at: run.at, detail: `${nameOf(run)} was given ${step} of ${value}` }]
    }),
  )
}

function rates(knowledge: Knowledge): Found {
  const { history, graceMs, runs } = knowledge
  const { settings } = history.plan
  if (settings.order !== 'strict' || knowledge.isFaulty) return []
  const tooMany = (
    resource: string,
    { limit, perMs, burst }: { limit: number; perMs: number; burst: number },
    from: number,
    to: number,
    counts: (run: Run) => boolean = () => true,
  ): Found => {
    const starts = runs
      // Children that a job adds by a plain queue have no rate of their own.
      .filter((run) => run.resources.includes(resource) && !run.uid.endsWith('+') && counts(run))
      .map((run) => knowledge.givenAt(run))
      .filter((at) => at > from && at < to)
      .sort((a, b) => a - b)
    return starts.flatMap((at, index) => {
      const first = starts.findIndex(
        (earlier, since) =>
          since <= index &&
          index - since + 1 > burst + ((at - earlier + graceMs) * limit) / perMs + 1e-6,
      )
      if (first === -1) return []
      const took = (at - (starts[first] ?? 0)).toFixed(1)
      const detail = `${index - first + 1} starts on ${resource} in ${took} ms, with ${limit} in ${perMs} ms, burst ${burst}`
      return [{ at, detail }]
    })
  }
  const CHANGES = ['setRate', 'resetRate', 'obliterate'] as const
  const isChanged = (resource: string): boolean =>
    knowledge
      .all(...CHANGES)
      .some(
        ({ operation }) =>
          !('resource' in operation) || history.prefix + operation.resource === resource,
      )
  // Of a plain queue, a flow or a scheduler a job has none. BullMQ adds a kept one by itself.
  const hasOwn = ({ uid }: Run): boolean => {
    const known = knowledge.byUid.get(uid)
    if (known === undefined || (known.kind !== 'add' && known.kind !== 'addBulk')) return false
    const { operation } = known.add
    if (known.plan.opts.deduplication?.keepLastIfActive === true) return false
    return 'by' in operation && operation.by !== 'plain'
  }
  const { rate } = settings
  const byJob =
    rate === undefined || knowledge.all('leaveLines').length > 0
      ? []
      : resourcesIn(knowledge)
          .filter((resource) => !isChanged(resource))
          .flatMap((resource) => tooMany(resource, rate, -Infinity, Infinity, hasOwn))
  const set = knowledge.all('setRate').flatMap((done) => {
    const { operation, endedAt } = done
    if (endedAt === undefined) return []
    const until = knowledge.untilNext(done, ...CHANGES)
    return tooMany(history.prefix + operation.resource, operation, endedAt + graceMs, until)
  })
  return [...byJob, ...set, ...ratesOfOthers(knowledge)]
}

/** No resource has the rate of another one. */
function ratesOfOthers(knowledge: Knowledge): Found {
  const { history } = knowledge
  if (history.plan.settings.rate !== undefined) return []
  const own = new Set(
    knowledge.all('setRate').map(({ operation }) => history.prefix + operation.resource),
  )
  return [...history.rated]
    .filter((resource) => !own.has(resource))
    .map((resource) => ({ detail: `${resource} has a rate, and none was set` }))
}

function schedulers(knowledge: Knowledge): Found {
  const { history, runs } = knowledge
  const sets = knowledge.all('scheduler')
  const ids = new Set(sets.map(({ operation }) => operation.id))
  // A user may run jobs again that had ended.
  const again = knowledge.all('retryAll')
  const isRetried = (id: string, at: number): boolean =>
    again.some((retry) => retry.at < at) &&
    runs.some((run) => run.id === id && run.ended !== undefined && run.ended.at < at)
  // In a paused queue BullMQ leaves a scheduler's job of before where it is.
  const mayStand = knowledge.all('pauseQueue', 'census').map(({ operation, at, endedAt }) => ({
    from: at,
    to: operation.do === 'census' ? (endedAt ?? Infinity) : Infinity,
  }))
  return history.censuses.flatMap(({ jobs, at }) =>
    [...ids].flatMap((id) => {
      const open = jobs.filter(
        (job) =>
          job.id.startsWith(`repeat:${id}:`) &&
          !/completed|failed/.test(job.state) &&
          !isRetried(job.id, at),
      )
      const added = sets.filter(
        (set) =>
          set.operation.id === id &&
          mayStand.some(({ from, to }) => from < (set.endedAt ?? Infinity) && set.at < to),
      )
      if (open.length <= 3 + added.length) return []
      return [{ at, detail: `scheduler ${id} has ${open.length} unfinished jobs` }]
    }),
  )
}

function idleSchedulers(knowledge: Knowledge): Found {
  const { history, isFaulty } = knowledge
  if (isFaulty || history.plan.operations.some((each) => ENDS_SCHEDULERS.test(each.do))) return []
  const at = history.settlingAt
  const ended = knowledge
    .all('scheduler')
    .flatMap(({ operation: { id, endMs } }) => (endMs === undefined ? [] : [id]))
  return history.idleSchedulers
    .filter((id) => !ended.includes(id))
    .map((id) => ({ at, detail: `scheduler ${id} has no next job` }))
}

const ENDS_SCHEDULERS = /drainQueue|clean|obliterate|deleteHash/

function counts(knowledge: Knowledge): Found {
  const { history } = knowledge
  const all = [...history.censuses, ...(history.final === undefined ? [] : [history.final])]
  return all.flatMap(({ at, isQuiet, counts: told, jobs, listed }) => {
    if (isQuiet && told['active'] !== 0) return []
    const found: { at: number; detail: string }[] = []
    const isDamaged = knowledge.all('deleteHash').length > 0
    for (const [id, times] of listed) {
      if (times > 1) found.push({ at, detail: `job ${id} is in ${times} lists` })
    }
    // What moves by itself while it is counted: a delay that ends.
    if (isQuiet || isDamaged) return found
    for (const [state, count] of Object.entries(told)) {
      const has = jobs.filter((job) => job.state === state).length
      if (has !== count) found.push({ at, detail: `${state}: ${count} counted, ${has} listed` })
    }
    return found
  })
}

/** The longest time in which nothing runs although jobs may start. */
const GOES_ON_IN_MS = 3_000
const RECOVERS_IN_MS = 9_000
const MAX_COST = 4
/** Backoffs are of some ten milliseconds. */
const MOST_BETWEEN_MS = 60

function stuck(knowledge: Knowledge): Found {
  const { history, isFaulty, graceMs } = knowledge
  const { settledAt, settlingAt, unsettled } = history
  if (unsettled.length > 0) {
    return unsettled.map((job) => ({ at: settledAt, detail: job }))
  }
  const mayRecover = isFaulty || knowledge.lagMs > LEASE_LAG_MS
  const { rate, limiter } = history.plan.settings
  const paceMs =
    (rate === undefined ? 0 : (MAX_COST * rate.perMs) / rate.limit) +
    (limiter === undefined ? 0 : limiter.duration)
  const limitMs = (mayRecover ? RECOVERS_IN_MS : GOES_ON_IN_MS) + 4 * graceMs + paceMs
  const steps = withShared(knowledge)
  const idle = idleTimes(steps, settlingAt, settledAt)
  const found = idle
    .filter(({ from, to }) => to - from > limitMs)
    .map(({ from, to }) => ({ at: from, detail: `nothing ran for ${(to - from).toFixed(0)} ms` }))
  const runs = steps.filter(({ at }) => at > settlingAt).length
  const allMs = lengthOf(idle)
  if (found.length > 0 || allMs <= limitMs + runs * (MOST_BETWEEN_MS + paceMs)) return found
  return [{ at: settledAt, detail: `nothing ran for ${allMs.toFixed(0)} ms of ${runs} runs` }]
}

/** Runs, and jobs that took a shared result without one. */
function withShared({ runs, history }: Knowledge): readonly Pick<Run, 'at' | 'ended'>[] {
  if (history.plan.settings.dedupe === undefined) return runs
  const ends = history.seen.flatMap((event) =>
    event.kind === 'completed' ? [{ at: event.at }] : [],
  )
  return [...runs, ...ends].sort((a, b) => a.at - b.at)
}

/**
 * BullMQ's `drain` takes jobs of schedulers out of the list that wait, and keeps their hashes. Of a
 * hash that another program deleted, it keeps what belongs to the job.
 */
function isOfBullmq(key: string, knowledge: Knowledge): boolean {
  if (knowledge.all('deleteHash').length > 0 && !key.includes(':redlock:::')) return true
  // Its `obliterate` leaves the key of a parent that was deduplicated and then removed.
  const hasFlows = knowledge.all('flow').length > 0 && knowledge.all('obliterate').length > 0
  if (hasFlows && /:de:[^:]+$/.test(key)) return true
  const mayBe = knowledge.all('scheduler').length > 0 && knowledge.all('drainQueue').length > 0
  return mayBe && /:repeat:[^:]+:\d+$/.test(key)
}

function places(knowledge: Knowledge): Found {
  if (knowledge.all('deleteHash').length > 0) return []
  // BullMQ's own queue replaces a job, and knows nothing of its place.
  const replaces = knowledge.jobs.some(
    ({ plan: { opts }, kind, add: { operation } }) =>
      (opts.deduplication !== undefined || kind === 'scheduler') &&
      'by' in operation &&
      operation.by === 'plain',
  )
  const removes = knowledge.all('removeById').some(isPlainRemoval)
  return replaces || removes ? [] : knowledge.history.audits
}

function left(knowledge: Knowledge): Found {
  const { history } = knowledge
  const { lines, leases: held, leftAfterObliterate, unsettled, settledAt: at } = history
  // Nothing says in which line a job was whose hash is gone: the next job there drops its place.
  const damaged = knowledge.jobs
    .filter(({ touches }) => touches.some((touch) => isDeletion(touch) || isPlainRemoval(touch)))
    .flatMap(({ resources }) => resources)
  const isDamaged = (text: string): boolean =>
    damaged.some((resource) => text.includes(`line:${resource}`))
  return [
    ...(unsettled.length > 0 ? [] : lines)
      .filter((line) => !isDamaged(line))
      .map((line) => ({ at, detail: `in ${line}` })),
    ...held.map((key) => ({ at, detail: `the lease ${key}` })),
    ...leftAfterObliterate
      .filter((key) => !isOfBullmq(key, knowledge) && !isDamaged(key))
      .map((key) => ({ at, detail: `after obliterate: ${key}` })),
  ]
}

const MOVES = /^(Delayed|Waiting|WaitingChildren)Error/

function leases(knowledge: Knowledge): Found {
  const { history, isFaulty } = knowledge
  if (isFaulty || knowledge.lagMs > LEASE_LAG_MS) return []
  const forced = knowledge.all('closeWorker', 'drainWorker').map(({ answer }) => answer)
  // A run that moves its job gives the lock up, and one that has ended needs none.
  const needsNone = ({ run, at }: { readonly run: string; readonly at: number }): boolean => {
    const { ended } = history.runs.get(run) ?? {}
    return ended !== undefined && (ended.at <= at || MOVES.test(ended.error ?? ''))
  }
  const lostLocks = history.seen.flatMap((event) =>
    event.kind === 'stopped' && event.reason.startsWith('JobLockLostError') && !needsNone(event)
      ? event.run
      : [],
  )
  const isObliterated = knowledge.all('obliterate').length > 0
  const found = isObliterated
    ? []
    : lostLocks.map((run) => ({ detail: `the BullMQ lock of ${run}` }))
  const lostLeases = history.seen.flatMap((event) =>
    event.kind === 'leaseLost' && !forced.includes(event.worker)
      ? [{ at: event.at, detail: `that of job ${event.id} on ${event.worker}` }]
      : [],
  )
  // Nobody else takes a job from a worker that lives.
  const hasGone = (id: string): boolean =>
    knowledge.jobs.some(
      ({ uid, touches }) => touches.some(isDeletion) && history.ids.get(uid) === id,
    )
  const wasLeft = (id: string, at: number): boolean => {
    const given = history.seen.filter((event) => event.kind === 'active' && event.id === id)
    if (given.some((event) => 'worker' in event && forced.includes(event.worker))) return true
    // One that is closed by force tells no more of what it was given.
    return forced.length > 0 && !given.some((event) => 'at' in event && event.at < at)
  }
  const stalled = history.seen.flatMap((event) =>
    event.kind === 'stalled' && !isObliterated && !wasLeft(event.id, event.at) && !hasGone(event.id)
      ? [{ at: event.at, detail: `job ${event.id} had stalled, says ${event.worker}` }]
      : [],
  )
  return [...found, ...lostLeases, ...stalled]
}

/** Whatever became of its worker meanwhile, once it goes on. */
function lostLeases(knowledge: Knowledge): Found {
  const { freezes, graceMs, runs } = knowledge
  return runs.flatMap((run) => {
    const { ended, stopped, worker } = run
    if (ended === undefined) return []
    const thaws = freezes
      .filter((freeze) => freeze.worker === worker && freeze.from <= ended.trustedUntil + graceMs)
      .map(({ to }) => to)
    const limit = Math.max(run.at, ended.trustedUntil, ...thaws) + graceMs
    if (ended.at <= limit || (stopped?.at ?? Infinity) <= limit) return []
    const after = (limit - ended.trustedUntil).toFixed(1)
    return [
      { at: limit, detail: `${nameOf(run)} works ${after} ms after its lease, and is not told` },
    ]
  })
}

/**
 * Once a job has started elsewhere, its end is that of the later run. What one worker says is of
 * its last run of the job, and is judged where that run went on after another worker's had begun.
 */
function ends(knowledge: Knowledge): Found {
  const { history, runs } = knowledge
  const isOf = (run: Run, { id, worker }: { readonly id: string; readonly worker: string }) =>
    run.id === id && run.worker === worker
  return history.seen.flatMap((event) => {
    if (event.kind !== 'completed' && event.kind !== 'failed') return []
    // What the check for stalled jobs fails has no run in the worker that checks.
    if (event.kind === 'failed' && event.reason.includes('stalled')) return []
    const run = runs.findLast((each) => isOf(each, event) && each.at <= event.at)
    const endedAt = run?.ended?.at ?? Infinity
    if (run === undefined || endedAt > event.at) return []
    const isGivenAgain = history.seen.some(
      (other) =>
        other.kind === 'active' && isOf(run, other) && other.at > run.at && other.at < event.at,
    )
    if (isGivenAgain) return []
    const later = runs.find(
      (other) =>
        other.id === run.id &&
        other.worker !== run.worker &&
        other.at > run.at &&
        other.at < endedAt &&
        !knowledge.mayBeUndone(other.at),
    )
    if (later === undefined) return []
    const detail = `${run.worker} ${event.kind} job ${run.id} with ${nameOf(run)}, and ${nameOf(later)} had begun`
    return [{ at: event.at, detail }]
  })
}

/** One lease, and what a check for stalled jobs takes. */
const TAKEN_OVER_IN_MS = 3_000

/** Judged by the time in which no other worker had anything to do. */
function goesOn(knowledge: Knowledge): Found {
  const { history, freezes, runs, graceMs, isBroken } = knowledge
  const { settings, operations } = history.plan
  const { workers, tuned, plainWorkers, limiter } = settings
  if (isBroken || workers.length < 2 || tuned || plainWorkers || limiter !== undefined) return []
  if (operations.some((each) => STOPS.test(each.do) || STOPS_WORKERS.test(each.do))) return []
  return freezes.flatMap(({ worker, from, to }) => {
    const others = runs.filter((run) => run.worker !== worker)
    const open = runs.filter(
      (run) => run.worker === worker && run.at < from && (run.ended?.at ?? Infinity) > from,
    )
    return open.flatMap((run) => {
      const next = others.find((other) => other.id === run.id && other.at > from)
      const until = Math.min(next?.at ?? Infinity, to)
      const idleMs = lengthOf(idleTimes(others, from, until))
      if (idleMs <= TAKEN_OVER_IN_MS + 4 * graceMs) return []
      const detail = `nothing ran for ${idleMs.toFixed(0)} ms while ${nameOf(run)} stood still`
      return [{ at: from, detail }]
    })
  })
}

const STOPS_WORKERS = /closeWorker|drainWorker|leaveLines|deleteHash/

function errors(knowledge: Knowledge): Found {
  const { history, isFaulty } = knowledge
  if (isFaulty) return []
  const isObliterated =
    knowledge.all('obliterate', 'deleteHash').length > 0 || knowledge.lagMs > LEASE_LAG_MS
  const isClosed = knowledge.all('closeWorker', 'drainWorker').length > 0
  const isExpected = (message: string): boolean =>
    EXPECTED_ERRORS.test(message) ||
    (isObliterated && OBLITERATED.test(message)) ||
    (isClosed && CLOSED.test(message))
  return history.seen.flatMap((event) =>
    event.kind === 'error' && !isExpected(event.message)
      ? [{ at: event.at, detail: `${event.worker}: ${event.message}` }]
      : [],
  )
}

/** Of a lock that could not be renewed, the job's signal tells, where the job runs. */
const EXPECTED_ERRORS = /PlainWorkerError|could not renew lock|has pending dependencies/
/** What BullMQ's worker says of a job that was obliterated, or whose lock ended, while it ran. */
const OBLITERATED = /(Missing key|Missing lock|Lock mismatch) for job/

/** What BullMQ's worker may say of a command that it sent just before it was closed. */
const CLOSED = /^Error: Connection is closed/

/** Several bursts: a lease that is waited for is released at the end of the next burst. */
const TURNS_WITHIN_MS = 300

/**
 * Judged by the work of the other queue, from when a worker had the job until it started. While
 * others of its own line ran, it did not wait for the lease.
 */
function takeTurns(knowledge: Knowledge): Found {
  const { history, beside, graceMs, jobs, runs } = knowledge
  if (beside === undefined || knowledge.isFaulty || beside.isFaulty) return []
  const { order, rate, limiter, batch } = history.plan.settings
  if (order !== 'strict' || rate !== undefined || limiter !== undefined || batch) return []
  const operations = [history, beside.history].flatMap(({ plan }) => plan.operations)
  if (operations.some((each) => STOPS.test(each.do))) return []
  return jobs.flatMap(({ uid, plan, resources, runs: [start] }) => {
    const [resource = ''] = resources
    if (start === undefined || resources.length > 1 || !knowledge.hasOneSlot(resource)) return []
    if (plan.opts.jobId !== undefined || plan.data.work.moves !== undefined) return []
    const given = history.seen.find((event) => event.kind === 'active' && event.id === start.id)
    if (given === undefined || !('at' in given)) return []
    const own = runs.filter((run) => run.at < start.at && run.resources.includes(resource))
    const from = Math.max(given.at, ...own.map((run) => knowledge.endOf(run)))
    const work = beside.runs
      .filter((run) => run.resources.includes(resource))
      .map((run) => Math.min(beside.endOf(run), start.at) - Math.max(run.at, from))
      .filter((ms) => ms > 0)
    const worked = work.reduce((sum, ms) => sum + ms, 0)
    if (worked <= TURNS_WITHIN_MS + 2 * Math.max(0, ...work) + graceMs) return []
    const detail = `${uid} waited while the other queue worked on ${resource} for ${worked.toFixed(0)} ms`
    return [{ at: start.at, detail }]
  })
}

function nameOf(run: Run): string {
  return `${run.uid} (run ${run.run}, attempt ${run.attempt + 1})`
}
