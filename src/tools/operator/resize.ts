/**
 * Changes the masters of a fleet, or its `maxLeaseMs` and `fenceTtlMs`, while clients run:
 *
 *   check ─▶ close all masters, old and new ─▶ wait for the leases ─▶ open the new fleet ─▶ retire
 *
 * Quorums of the old and of the new fleet need not meet, so there is never more than one fleet. A
 * closed master grants and extends nothing for anybody. None is opened before all are closed and
 * every lease is over. Masters of both fleets are opened first.
 *
 * Every master has the goal stored, so a resize that was interrupted goes on when it is run again.
 * As long as no master is open, nothing of the new fleet is, and another goal may replace this one.
 */
import { counted } from '../../counted.ts'
import { sleep, systemClock } from '../../clock.ts'
import { quarantineMs } from '../../lock/trust.ts'
import { luaText, defineScript, type Script } from '../../lua.ts'
import { TOKENS_PER_GRANT } from '../../redlock/verbs.ts'
import { globEscape } from './glob.ts'
import { valuesOf, type FleetProbe, type ServerAnswer } from './fleet-probe.ts'
import type { Probe } from './probe.ts'
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { defaultFenceTtlMs, FENCE_LEASES } from '../../redlock/settings.ts'
import { diagnose } from './diagnosis.ts'
import { maxLeaseOf, surveyFleet, type FleetSurvey, type MasterSurvey } from './survey.ts'

/** What the fleet shall be. What is left out stays as it is. */
export interface ResizeTarget {
  readonly maxLeaseMs?: number | undefined
  readonly fenceTtlMs?: number | undefined
}

export interface ResizePlan {
  readonly from: FleetSettings
  readonly to: FleetSettings
  /** Nothing differs, and no resize was interrupted. */
  readonly isDone: boolean
  /** For how long at most no lease is granted. */
  readonly pauseMs: number
  /** It goes on with what was interrupted. */
  readonly resumes: boolean
  readonly goal: string
  /** Goals of resizes that were interrupted, and have opened no master. */
  readonly replaces: readonly string[]
  /** Masters of those that are of neither fleet. */
  readonly left: readonly string[]
  readonly hasOpened: boolean
}

interface FleetSettings {
  /** Their names, sorted: also what tells two goals apart. */
  readonly masters: readonly string[]
  readonly maxLeaseMs: number
  readonly fenceTtlMs: number
}

/** It would not be safe, or cannot be done. The message says why. */
class ResizeRefusedError extends Error {
  override readonly name = 'ResizeRefusedError'
  readonly code = 'RESIZE_REFUSED'
}

const DRIFT_FACTOR = 0.01
/** What a resize changes, and what says so. */
const CHANGING = ['max-lease-differs', 'fleet-size-differs', 'resizing', 'retired', 'no-quorum']

/** @throws ResizeRefusedError. Changes nothing. */
export async function planResize(
  old: FleetProbe,
  next: FleetProbe,
  target: ResizeTarget,
): Promise<ResizePlan> {
  const [before, after] = await Promise.all([surveyFleet(old), surveyFleet(next)])
  const [olds, nexts] = [answersOf(before.masters), answersOf(after.masters)]
  const wrong = diagnose(after).findings.filter(
    ({ severity, code, where }) =>
      severity === 'error' && !CHANGING.includes(code) && where !== 'this machine',
  )
  if (wrong.length > 0) {
    refuse(wrong.map(({ where, fact, fix }) => `${where} ${fact}; ${fix}`).join('. '))
  }
  if (diagnose(before).findings.some(({ code }) => code === 'same-server')) {
    refuse('The masters are not distinct servers: name each once')
  }
  const added = nexts.filter(({ runId }) => !olds.some((one) => one.runId === runId))
  const removed = olds.filter(({ runId }) => !nexts.some((one) => one.runId === runId))
  const enrolments = [...olds, ...nexts].flatMap(({ enrolment }) => enrolment ?? [])
  const begun = [...new Set(enrolments.flatMap(({ resizing }) => resizing || []))]
  const opened = nexts.flatMap(({ enrolment }) => enrolment?.resized || [])
  const [last] = [...begun, ...opened]
  // What the old masters have forgotten, the goal remembers.
  const known = settingsOf(before) ?? (last === undefined ? undefined : goalOf(last).from)
  if (known === undefined) {
    return refuse(
      'These masters know of no fleet: they are new, or lost their memory. If a resize was ' +
        'interrupted, run the same again. Else start a client first; `bootstrap` is only for ' +
        'a fleet that no client has ever used',
    )
  }
  const from: FleetSettings = { masters: namesOf(before), ...known }
  const to = targetOf(from, namesOf(after), target)
  const half = begun.find((goal) => enrolments.some(({ resized }) => resized === goal))
  const hasOpened = half !== undefined
  // Where a resize to undo another one was interrupted, both goals are there.
  const resumed = half ?? begun.find((goal) => sameGoal(goal, to))
  const resumes = resumed !== undefined && sameGoal(resumed, to)
  const forgot = olds.some(({ enrolment }) => enrolment === undefined)
  const first = half ?? begun[0]
  if (first !== undefined && !resumes && (hasOpened || forgot)) {
    refuse(`A resize to ${describeGoal(first)} was begun, and masters are open: finish it first`)
  }
  const remembering = nexts.filter(({ enrolment }) => enrolment !== undefined).length
  const wasDone =
    begun.length === 0 &&
    opened.length > 0 &&
    opened.length === remembering &&
    opened.every((goal) => sameGoal(goal, to))
  if (!wasDone) checkMembers(olds, added, removed, begun)
  const isSame = isDeepStrictEqual({ ...to, masters: from.masters }, from)
  const isDone = wasDone || (begun.length === 0 && isSame && added.length + removed.length === 0)
  const goal = resumes ? resumed : JSON.stringify({ id: randomUUID(), from: known, ...to })
  // rule: all-goals-but-one-are-replaced
  const replaces = begun.filter((one) => one !== goal)
  // Masters that an interrupted one has opened may have granted and forgotten leases, too.
  // rule: leases-of-forgotten-openings-are-over
  const longestMs = Math.max(from.maxLeaseMs, resumes ? to.maxLeaseMs : 0)
  const pauseMs = quarantineMs(longestMs, DRIFT_FACTOR)
  const named = new Set([...from.masters, ...to.masters])
  const meant = new Set(replaces.flatMap((one) => goalOf(one).masters))
  const left = [...meant].filter((master) => !named.has(master))
  return { from, to, isDone, pauseMs, resumes, goal, replaces, left, hasOpened }
}

/** @throws ResizeRefusedError where they are not all of one fleet, or others than one can add. */
function checkMembers(
  olds: readonly MasterSurvey[],
  added: readonly MasterSurvey[],
  removed: readonly MasterSurvey[],
  begun: readonly string[],
): void {
  if (added.length > 0 && removed.length > 0) {
    refuse(
      'A resize adds masters or takes some out. To replace one, start an empty server at its address; ' +
        'or add the new ones first, and take out the others in a second resize',
    )
  }
  for (const { enrolment } of olds) {
    const size = enrolment?.fleetSize ?? 0
    if ([0, olds.length].includes(size) || begun.includes(enrolment?.resized ?? '')) continue
    refuse(
      `The fleet has ${counted(size, 'master')}, and ${counted(olds.length, 'is', 'are')} named: name them all`,
    )
  }
  for (const { enrolment } of added) {
    if (enrolment === undefined || enrolment.isRetired || enrolment.quarantineMs > 0) continue
    if (begun.some((goal) => [enrolment.resizing, enrolment.resized].includes(goal))) continue
    refuse(`A new master is one of another fleet, of ${enrolment.fleetSize}: take an empty server`)
  }
}

function answersOf(masters: readonly ServerAnswer<MasterSurvey>[]): readonly MasterSurvey[] {
  for (const answer of masters) {
    if (answer.ok) continue
    refuse(`${answer.master} does not answer: ${answer.problem}. All masters must answer`)
  }
  return valuesOf(masters)
}

function targetOf(
  from: FleetSettings,
  masters: readonly string[],
  target: ResizeTarget,
): FleetSettings {
  const { maxLeaseMs = from.maxLeaseMs } = target
  const isDefault = from.fenceTtlMs === defaultFenceTtlMs(from.maxLeaseMs)
  const kept = isDefault ? defaultFenceTtlMs(maxLeaseMs) : from.fenceTtlMs
  const { fenceTtlMs = kept } = target
  if (fenceTtlMs < FENCE_LEASES * maxLeaseMs) {
    refuse(`fenceTtlMs is ${fenceTtlMs}: it must be ${FENCE_LEASES} × maxLeaseMs at least`)
  }
  return { masters, maxLeaseMs, fenceTtlMs }
}

/** As the masters have them stored; undefined where none has. */
function settingsOf({ masters }: FleetSurvey): Goal['from'] | undefined {
  const maxLeaseMs = maxLeaseOf(masters)
  if (maxLeaseMs === undefined) return undefined
  const stored = valuesOf(masters).map(({ enrolment }) => enrolment?.fenceTtlMs ?? 0)
  const fenceTtlMs = Math.max(...stored)
  return { maxLeaseMs, fenceTtlMs: fenceTtlMs || defaultFenceTtlMs(maxLeaseMs) }
}

function namesOf({ masters }: FleetSurvey): readonly string[] {
  return masters.map(({ master }) => master).sort()
}

interface Goal extends FleetSettings {
  readonly id: string
  readonly from: Omit<FleetSettings, 'masters'>
}

function goalOf(goal: string): Goal {
  return JSON.parse(goal) as Goal
}

function sameGoal(goal: string, to: FleetSettings): boolean {
  const { masters, maxLeaseMs, fenceTtlMs } = goalOf(goal)
  return isDeepStrictEqual({ masters, maxLeaseMs, fenceTtlMs }, to)
}

function describeGoal(goal: string): string {
  const { masters, maxLeaseMs, fenceTtlMs } = goalOf(goal)
  return `${masters.join(', ')}, with maxLeaseMs ${maxLeaseMs} and fenceTtlMs ${fenceTtlMs}`
}

function refuse(why: string): never {
  throw new ResizeRefusedError(`${why}.`)
}

const [closeScript, openScript, retireScript] = ['close', 'open', 'retire'].map((name) =>
  defineScript(name, luaText(`tools/operator/lua/${name}`)),
) as [Script, Script, Script]

/**
 * @param waits is told for how long no lease is granted.
 * @returns for how long none was granted, and masters that vote one `maxLeaseMs` later.
 */
export async function resizeFleet(
  old: FleetProbe,
  next: FleetProbe,
  plan: ResizePlan,
  waits: (ms: number) => void,
): Promise<{ readonly pausedMs: number; readonly late: readonly string[] }> {
  const { from, to, goal } = plan
  const startedAt = systemClock.now()
  const closed = await asked(old, (probe) => closeOne(probe, old, plan, old.size))
  const shared = new Set([...closed.values()].map(({ runId }) => runId))
  const news = await asked(next, async (probe) => {
    const { runId } = await probe.survey()
    if (shared.has(runId)) return { runId, outcome: 'shared' as const }
    return closeOne(probe, next, plan, 0)
  })
  const late = [...closed, ...news].flatMap(([master, { outcome }]) =>
    outcome === 'late' ? master : [],
  )
  const onOld = await asked(old, (probe) => outstandingOn(probe, old, from))
  const outstanding = [...onOld.values()]
  const floors = await asked(next, async (probe) => floorOf(probe, next))
  const counters = [...outstanding.map(({ largest }) => largest), ...floors.values()]
  // rule: floor-above-every-counter
  const floorUs = Math.max(...counters) + TOKENS_PER_GRANT
  if (!plan.hasOpened) {
    const remembersAll = [...closed.values()].every(({ outcome }) => outcome === 'closed')
    const waitMs = untilLeasesEnd(plan, outstanding, remembersAll)
    waits(waitMs)
    await sleep(systemClock, waitMs)
  }
  const open = (areShared: boolean): Promise<unknown> =>
    asked(next, async (probe) => {
      const runId = news.get(probe.name)?.runId ?? ''
      if (shared.has(runId) !== areShared || late.includes(probe.name)) return
      const floor = Math.ceil(floorUs).toFixed(0)
      const args = [runId, goal, to.maxLeaseMs, next.size, to.fenceTtlMs, floor]
      const [word] = (await probe.run(openScript, [next.keys.master], args)) as [string]
      if (word !== 'open') throw new Error('it was closed for another resize, or lost its memory')
    })
  // rule: masters-of-both-fleets-open-first
  await open(true)
  await open(false)
  const pausedMs = systemClock.now() - startedAt
  const kept = new Set([...news.values()].map(({ runId }) => runId))
  await asked(old, async (probe) => {
    const runId = closed.get(probe.name)?.runId ?? ''
    if (!kept.has(runId)) await probe.run(retireScript, [old.keys.master], [goal])
  })
  return { pausedMs, late }
}

/** For how long at most a lease of the old fleet may last. */
function untilLeasesEnd(
  { pauseMs }: ResizePlan,
  outstanding: readonly Outstanding[],
  remembersAll: boolean,
): number {
  // Another resize may have made it longer since this one was planned.
  // rule: leases-are-as-long-as-the-closed-masters-say
  const longestMs = Math.max(...outstanding.map((one) => one.longestMs))
  const mostMs = Math.max(pauseMs, quarantineMs(longestMs, DRIFT_FACTOR))
  const leftMs = remembersAll ? Math.max(...outstanding.map((one) => one.leftMs)) : Infinity
  // rule: old-leases-are-over-before-masters-open
  return Math.min(mostMs, quarantineMs(leftMs, DRIFT_FACTOR))
}

interface Closed {
  readonly runId: string
  readonly outcome: 'closed' | 'forgot' | 'open' | 'late'
}

async function closeOne(
  probe: Probe,
  fleet: FleetProbe,
  { goal, replaces, hasOpened }: ResizePlan,
  masters: number,
): Promise<Closed> {
  const { runId } = await probe.survey()
  const args = [runId, goal, masters, hasOpened ? 1 : 0, ...replaces]
  const reply = await probe.run(closeScript, [fleet.keys.master], args)
  const [word, detail] = reply as ['another' | 'mismatch' | Closed['outcome'], string]
  if (word === 'another') {
    return refuse(`${probe.name}: a resize to ${describeGoal(detail)} was begun: finish it first`)
  }
  if (word === 'mismatch') {
    return refuse(
      masters === 0
        ? `${probe.name} is one of another fleet of ${counted(Number(detail), 'master')}`
        : `${probe.name} is one of ${counted(Number(detail), 'master')}, and ${counted(masters, 'is', 'are')} named`,
    )
  }
  return { runId, outcome: word }
}

interface Outstanding {
  readonly longestMs: number
  readonly leftMs: number
  /** No counter was larger, also of those that have expired. */
  readonly largest: number
}

/** What leases and counters a closed master has. */
async function outstandingOn(
  probe: Probe,
  fleet: FleetProbe,
  { maxLeaseMs, fenceTtlMs }: FleetSettings,
): Promise<Outstanding> {
  const { keys, namespace } = fleet
  const [lease, fence] = [keys.lease(''), keys.fence('')]
  const [seconds] = (await probe.command('TIME')) as [string]
  // No clock of a client was ahead by more when it was granted what is forgotten now.
  // rule: floor-above-expired-counters
  const expiredUs = (Number(seconds) * 1_000 + maxLeaseMs / 2 - fenceTtlMs) * 1_000
  let [leftMs, largest] = [0, Math.max(expiredUs, await floorOf(probe, fleet))]
  await probe.scan(`${globEscape(namespace)}:*`, Infinity, async (page) => {
    const ours = page.filter((key) => key.startsWith(lease) || key.startsWith(fence))
    for (const [index, [value, ttlMs]] of (await probe.values(ours)).entries()) {
      if (ours[index]?.startsWith(fence) === true) largest = Math.max(largest, Number(value))
      else leftMs = Math.max(leftMs, ttlMs === -1 ? Infinity : ttlMs)
    }
  })
  const longestMs = Number(await probe.command('HGET', keys.master, 'maxLeaseMs'))
  return { longestMs, leftMs, largest }
}

/** Above every counter of the fleets before. */
async function floorOf(probe: Probe, { keys }: FleetProbe): Promise<number> {
  return Number(await probe.command('HGET', keys.master, 'floorUs'))
}

/**
 * What each answered, by its name.
 * @throws ResizeRefusedError where one gives no answer, or what `question` refuses.
 */
async function asked<Value>(
  fleet: FleetProbe,
  question: (probe: Probe) => Promise<Value>,
): Promise<ReadonlyMap<string, Value>> {
  let refusal: ResizeRefusedError | undefined
  const answers = await fleet.each((probe) =>
    question(probe).catch((error: unknown) => {
      if (error instanceof ResizeRefusedError) refusal = error
      throw error
    }),
  )
  if (refusal !== undefined) throw refusal
  const known = answers.map((answer) => {
    if (answer.ok) return [answer.master, answer.value] as const
    return refuse(`${answer.master}: ${answer.problem}. Run the same command again to go on`)
  })
  return new Map(known)
}
