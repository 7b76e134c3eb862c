/** Whether leases can be had of a fleet, and if not, what is wrong with which master. */
import { ClockAheadError, LeaseTooShortError, MasterRefusedError } from '../../lock-errors.ts'
import { QuorumUnreachableError, type MasterProblem } from '../../lock-errors.ts'
import { noQuorum } from '../quorum.ts'
import type { Refusal } from '../wire/master.ts'
import type { LockFleet } from './fleet.ts'

/** A lease shorter than this many round trips is spent on talking to the masters. */
const ROUND_TRIPS_PER_LEASE = 4

/** All masters have been tried. @throws what {@link Redlock.ready} says. */
export function assertReady(fleet: LockFleet): void {
  const { quorum, settings } = fleet
  const { leaseMs, maxClockSkewMs } = settings
  const ownFaults = problemsOf(fleet, 'client')
  if (ownFaults.length > 0) throw new MasterRefusedError(ownFaults, true)
  const roundTripMs = roundTripsMs(fleet)[quorum - 1]
  if (roundTripMs === undefined) {
    const problems = problemsOf(fleet)
    if (problems.length > 0) throw new MasterRefusedError(problems)
    const answers = fleet
      .status()
      .map((one) => ({ master: one.name, answer: one.reason ?? one.state }))
    throw new QuorumUnreachableError(undefined, quorum, 0, answers)
  }
  const neededMs = Math.ceil(roundTripMs * ROUND_TRIPS_PER_LEASE)
  if (leaseMs < neededMs) throw new LeaseTooShortError(leaseMs, Math.ceil(roundTripMs), neededMs)
  const aheadMs = refusedAheadMs(fleet)
  if (aheadMs !== undefined) throw new ClockAheadError(Math.round(aheadMs), maxClockSkewMs)
}

/** Why no lease is granted now; undefined where a quorum votes. */
export function whyUngranted(fleet: LockFleet): string | undefined {
  const { masters, quorum } = fleet
  const silent = fleet.status().filter(({ state }) => state !== 'voting')
  const voting = masters.length - silent.length
  if (voting >= quorum) return undefined
  const others = silent.map(({ name, state, reason = state }) => `${name}: ${reason}`)
  if (silent.some(({ state }) => state === 'quarantined')) {
    others.push('If this fleet is new, run `bullmq-redlock bootstrap`')
  }
  return noQuorum(voting, masters.length, others)
}

/** Refused masters, or only those that this client's settings are to blame for. */
function problemsOf({ voters }: LockFleet, fault?: Refusal['fault']): readonly MasterProblem[] {
  return voters.flatMap(({ master, silence }) => {
    if (silence?.status !== 'refused' || (fault ?? silence.fault) !== silence.fault) return []
    return [{ master: master.name, problem: silence.problem, fix: silence.fix }]
  })
}

/** Round trips measured when the masters were enrolled, shortest first. */
function roundTripsMs({ voters }: LockFleet): readonly number[] {
  const usable = voters.filter(({ silence }) => silence?.status !== 'refused')
  const states = usable.map(({ master }) => master.state)
  const trips = states.flatMap((state) => ('facts' in state ? [state.facts.roundTripMs] : []))
  return trips.sort((a, b) => a - b)
}

/** How far this client's clock is ahead, where those that do not refuse it are no quorum. */
function refusedAheadMs({ masters, clocks, quorum, settings }: LockFleet): number | undefined {
  const enrolled = masters.filter(({ state }) => state.status === 'enrolled')
  const ahead = enrolled.map((master) => clocks.aheadMs(master) ?? 0).sort((a, b) => b - a)
  const refusing = ahead.filter((ms) => ms > settings.maxClockSkewMs).length
  // rule: clock-ahead-is-not-ready
  return enrolled.length - refusing < quorum ? ahead[refusing - 1] : undefined
}
