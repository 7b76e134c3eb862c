/** What a run came to, and whether that is right. Pure. */
import { counted } from '../../src/counted.ts'
import type { HistoryVerdict } from '../../src/testing/index.ts'
import type { Audit, Finding } from '../ledger-audit.ts'
import type { Fault } from './faults.ts'
import type { Without } from './options.ts'

export interface Outcome {
  readonly seed: number
  readonly without: Without | undefined
  readonly jobsIn: number
  readonly jobsDone: number
  readonly jobsFailed: number
  readonly audit: Audit
  /** What the workers logged about their leases, judged. */
  readonly leases: HistoryVerdict
  readonly leasesLost: number
  readonly requeues: number
  readonly faults: readonly Fault[]
  readonly elapsedMs: number
}

const SHOWN_FINDINGS = 3

/**
 * Everything that is not as it should be, in words and with the evidence; empty when all is right.
 */
export function problems(outcome: Outcome): readonly string[] {
  const { audit, leases, jobsIn, jobsDone, jobsFailed, faults, without } = outcome
  return [
    ...(jobsDone === jobsIn ? [] : [`${jobsIn - jobsDone} of ${jobsIn} jobs are not done`]),
    ...(jobsFailed === 0 ? [] : [`${counted(jobsFailed, 'job')} failed for good`]),
    ...(audit.jobsPosted === jobsIn
      ? []
      : [`the ledger has entries of ${audit.jobsPosted} jobs, expected ${jobsIn}`]),
    ...found('duplicate effects', audit.duplicateEffects),
    ...found('out-of-turn effects', audit.outOfTurnEffects),
    ...found('wrong balances', audit.wrongBalances),
    ...(without === 'lease' ? [] : leaseProblems(leases)),
    ...faults.flatMap(({ name, missing }) =>
      missing === undefined ? [] : [`fault "${name}" did not happen as planned: ${missing}`],
    ),
  ]
}

/** Whether the job that was interrupted by the kill ran again. */
export function interruptedRanAgain({ faults }: Outcome): boolean {
  return faults.some(({ name, missing }) => name === 'worker killed' && missing === undefined)
}

/** No two workers held an operator at a time, and every token rose. */
function leaseProblems({ verdict, findings }: HistoryVerdict): readonly string[] {
  if (verdict === 'clean') return []
  const shown = findings.slice(0, SHOWN_FINDINGS).map(({ kind, text }) => `    ${kind}: ${text}`)
  return [`the history of the leases is ${verdict}:\n${shown.join('\n')}`]
}

function found(what: string, findings: readonly Finding[]): readonly string[] {
  if (findings.length === 0) return []
  const shown = findings.slice(0, SHOWN_FINDINGS).map(describeFinding)
  return [`${findings.length} ${what}, among them:\n${shown.join('\n')}`]
}

function describeFinding({ customer, jobId, what, entries }: Finding): string {
  const subject = jobId === undefined ? customer : `${customer}, ${jobId}`
  const evidence = entries
    .slice(-SHOWN_FINDINGS)
    .map(
      (entry) =>
        `      entry ${entry.seq} by ${entry.worker}: ${entry.jobId}, ` +
        `${entry.balanceBefore} + ${entry.amount} = ${entry.balanceAfter}, token ${entry.fencingToken}`,
    )
  return [`    ${subject} ${what}`, ...evidence].join('\n')
}
