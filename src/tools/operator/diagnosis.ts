/** What is wrong with a fleet, and what to do about it. Pure: a survey in, findings out. */
import { counted } from '../../counted.ts'
import { withoutAddresses } from '../../message-of.ts'
import { noQuorum, quorumOf } from '../../redlock/quorum.ts'
import type { Inspection } from '../../lock/inspection.ts'
import { valuesOf, type ServerAnswer } from './fleet-probe.ts'
import { findingsOf, type Finding, type ServiceHealth } from '../../services/service-health.ts'
import { duration } from './words.ts'
import { checkMaster, checkQueue, silences, unreachable, waits } from './server-checks.ts'
import { maxLeaseOf, type FleetSurvey, type MasterSurvey } from './survey.ts'

/** Of a fleet; or of a lock service, which says more of itself. */
export interface Diagnosis extends Partial<Omit<ServiceHealth, 'findings'>> {
  /** Errors first, then in the order of the masters. */
  readonly findings: readonly Finding[]
  readonly masters: readonly MasterHealth[]
  readonly quorum: number
  /** Masters whose votes count now. */
  readonly voting: number
  /** How many more masters may fail before no lease is granted; negative when none is. */
  readonly margin: number
  /** No errors and no warnings. */
  readonly healthy: boolean
}

export interface MasterHealth {
  readonly master: string
  readonly state: 'votes' | 'does not vote' | 'unreachable'
  readonly survey: MasterSurvey | undefined
  /** Its clock minus the median of all clocks. */
  readonly clockOffMs: number | undefined
}

const SEVERITIES = ['error', 'warning', 'note'] as const
/** This machine takes part in no vote; beyond this its own leases would suffer. */
const OWN_CLOCK_WARNING_MS = 1_000

/** `maxLeaseMs` is that of the clients; by default, what most masters have stored. */
export function diagnose(
  { masters, queue, namespace }: FleetSurvey,
  maxLeaseMs: number | undefined = maxLeaseOf(masters),
): Diagnosis {
  const commonOffsetMs = commonOffset(masters)
  const findings: Finding[] = []
  const health = masters.map((answer): MasterHealth => {
    const { master: where } = answer
    if (!answer.ok) {
      findings.push(unreachable(answer.problem, where))
      return { master: where, state: 'unreachable', survey: undefined, clockOffMs: undefined }
    }
    const { runId } = answer.value
    const first = masters.find((other) => other.ok && other.value.runId === runId)
    const duplicate = runId === '' || first === answer ? undefined : first?.master
    const around = { commonOffsetMs, maxLeaseMs, fleetSize: masters.length, duplicate, namespace }
    const found = checkMaster(where, answer.value, around)
    findings.push(...found)
    return {
      master: where,
      state: found.some(silences) ? 'does not vote' : 'votes',
      survey: answer.value,
      clockOffMs: Math.round(answer.value.clockOffsetMs - commonOffsetMs),
    }
  })
  const quorum = quorumOf(masters.length)
  const voting = health.filter(({ state }) => state === 'votes').length
  const margin = voting - quorum
  findings.push(...checkOwnClock(commonOffsetMs), ...checkFleet(masters.length, voting, quorum))
  findings.push(...queue.flatMap((node) => checkQueue(node, masters)))
  const diagnosis = { findings: [], masters: health, quorum, voting, margin, healthy: true }
  return withFindings(diagnosis, findings)
}

/** Why no lease is granted; undefined where a quorum votes. */
export function ungrantedBy({ voting, quorum, masters, findings }: Diagnosis): string | undefined {
  if (voting >= quorum) return undefined
  const names = masters.map(({ master }) => master)
  const found = findings.filter((finding) => silences(finding) && names.includes(finding.where))
  return noQuorum(
    voting,
    masters.length,
    grouped(found).map(({ where, fact, fix, code }) =>
      waits(code) ? `${where}: ${fact}; ${fix}` : `${where}: ${fact}`,
    ),
  )
}

/** Masters that could have forgotten what they granted. */
export function restartedIn({ findings }: Diagnosis): readonly string[] {
  return findings.filter(({ code }) => waits(code)).map(({ where }) => where)
}

export function withUngranted<Found extends Inspection>(found: Found, diagnosis: Diagnosis): Found {
  const ungranted = ungrantedBy(diagnosis)
  return ungranted === undefined ? found : { ...found, ungranted }
}

/** With more findings, in their order. */
export function withFindings<Found extends Diagnosis>(
  diagnosis: Found,
  more: readonly Finding[],
): Found {
  const rank = ({ severity }: Finding): number => SEVERITIES.indexOf(severity)
  const findings = [...diagnosis.findings, ...more].sort((a, b) => rank(a) - rank(b))
  const healthy = diagnosis.healthy && more.every(({ severity }) => severity === 'note')
  return { ...diagnosis, findings, healthy }
}

/** What is the same on several servers is said once. */
export function grouped(findings: readonly Finding[]): readonly Finding[] {
  const groups = new Map<string, Finding>()
  for (const finding of findings) {
    const { where, ...what } = finding
    const fact = withoutAddresses(finding.fact)
    const key = JSON.stringify({ ...what, fact })
    const group = groups.get(key)
    const together = { ...what, fact, where: `${group?.where ?? ''}, ${where}` }
    groups.set(key, group === undefined ? finding : together)
  }
  return [...groups.values()]
}

/** This machine's clock counts as one among the masters': it may be the one that is wrong. */
function commonOffset(masters: readonly ServerAnswer<MasterSurvey>[]): number {
  const offsets = valuesOf(masters).map(({ clockOffsetMs }) => clockOffsetMs)
  const sorted = [...offsets, 0].sort((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  return ((sorted[Math.floor(middle)] ?? 0) + (sorted[Math.ceil(middle)] ?? 0)) / 2
}

function checkOwnClock(commonOffsetMs: number): readonly Finding[] {
  return findingsOf('this machine', (report) => {
    if (Math.abs(commonOffsetMs) < OWN_CLOCK_WARNING_MS) return
    const direction = commonOffsetMs > 0 ? 'behind' : 'ahead of'
    const fact = `its clock is ${duration(Math.abs(commonOffsetMs))} ${direction} the masters'`
    const fix = 'run chrony or ntpd here; every master refuses a client that is too far ahead'
    report('warning', 'own-clock', fact, fix)
  })
}

function checkFleet(size: number, voting: number, quorum: number): readonly Finding[] {
  return findingsOf('fleet', (report) => {
    if (voting < quorum) {
      const fact = `${noQuorum(voting, size, [])}: no lease can be granted`
      const fix = 'do what is said of each master here; jobs wait and use no attempts'
      report('error', 'no-quorum', fact, fix)
    } else if (voting === quorum && size > 1) {
      const fact = `just a quorum votes (${voting} of ${size}): one more failure stops every worker`
      report('warning', 'no-margin', fact, 'do what is said of each master here, now')
    }
    if (size % 2 === 0) {
      const fact = `${size} masters survive no more failures than ${size - 1}`
      report('note', 'even', fact, 'use an odd number of masters')
    }
    if (size < 3) {
      const fact = `with ${counted(size, 'master')}, one failure stops every worker`
      report('note', 'small', fact, 'use five masters in production; three survive one failure')
    }
  })
}
