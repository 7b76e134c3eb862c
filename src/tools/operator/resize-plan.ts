/** What a resize of a fleet has to do, and whether it may: see `resize.ts`. */
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { counted } from '../../counted.ts'
import { quarantineMs } from '../../lock/trust.ts'
import { defaultFenceTtlMs, FENCE_LEASES } from '../../redlock/settings.ts'
import { diagnose } from './diagnosis.ts'
import { hasQuorum, valuesOf, type FleetProbe, type ServerAnswer } from './fleet-probe.ts'
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

export interface FleetSettings {
  /** Their names, sorted: also what tells two goals apart. */
  readonly masters: readonly string[]
  readonly maxLeaseMs: number
  readonly fenceTtlMs: number
}

/** It would not be safe, or cannot be done. The message says why. */
export class ResizeRefusedError extends Error {
  override readonly name = 'ResizeRefusedError'
  readonly code: 'RESIZE_REFUSED' | 'QUORUM_UNREACHABLE'

  constructor(why: string, code: ResizeRefusedError['code'] = 'RESIZE_REFUSED') {
    super(`${why}.`)
    this.code = code
  }
}

export const DRIFT_FACTOR = 0.01
/** What a resize changes, and what says so. */
const CHANGING = ['max-lease-differs', 'fleet-size-differs', 'resizing', 'retired', 'no-quorum']

/** @throws ResizeRefusedError. Changes nothing. */
export async function planResize(
  old: FleetProbe,
  next: FleetProbe,
  target: ResizeTarget,
): Promise<ResizePlan> {
  const [before, after] = await Promise.all([surveyFleet(old), surveyFleet(next)])
  const [olds, nexts] = [answersOf(old, before), answersOf(next, after)]
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

function answersOf(fleet: FleetProbe, { masters }: FleetSurvey): readonly MasterSurvey[] {
  const away = masters.flatMap((answer) =>
    answer.ok ? [] : `${answer.master} does not answer: ${answer.problem}`,
  )
  if (away.length === 0) return valuesOf(masters)
  return refuseUnanswered(fleet, masters, `${away.join('; ')}. All masters must answer`)
}

/** The error says whether a quorum is away. */
export function refuseUnanswered(
  fleet: FleetProbe,
  answers: readonly ServerAnswer<unknown>[],
  why: string,
): never {
  const isFew = !hasQuorum(fleet.coverage(answers))
  throw new ResizeRefusedError(why, isFew ? 'QUORUM_UNREACHABLE' : undefined)
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

export function describeGoal(goal: string): string {
  const { masters, maxLeaseMs, fenceTtlMs } = goalOf(goal)
  return `${masters.join(', ')}, with maxLeaseMs ${maxLeaseMs} and fenceTtlMs ${fenceTtlMs}`
}

export function refuse(why: string): never {
  throw new ResizeRefusedError(why)
}
