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
import type { FleetProbe } from './fleet-probe.ts'
import type { Probe } from './probe.ts'
import {
  describeGoal,
  DRIFT_FACTOR,
  type FleetSettings,
  refuse,
  refuseUnanswered,
  type ResizePlan,
  ResizeRefusedError,
} from './resize-plan.ts'

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
    const why = `${answer.master}: ${answer.problem}. Run the same command again to go on`
    return refuseUnanswered(fleet, answers, why)
  })
  return new Map(known)
}
