/** The end of a run, for people and for programs. */
import { interruptedRanAgain, problems, type Outcome } from './outcome.ts'

export function jsonReport(outcome: Outcome): string {
  const { audit, leases, ...rest } = outcome
  const found = problems(outcome)
  return JSON.stringify({
    right: found.length === 0,
    ...rest,
    ...audit,
    leases,
    interruptedJobRanAgain: interruptedRanAgain(outcome),
    problems: found,
  })
}

export function humanReport(outcome: Outcome): string {
  const { audit, faults, without } = outcome
  const rows: readonly (readonly [string, string | number])[] = [
    ['jobs in', outcome.jobsIn],
    ['jobs done', outcome.jobsDone],
    ['duplicate effects', audit.duplicateEffects.length],
    ['out-of-turn effects', audit.outOfTurnEffects.length],
    ['wrong balances', audit.wrongBalances.length],
    ['stale writes refused', audit.staleWritesRefused.length],
    ['two holders at a time', outcome.leases.violations.overlap],
    ['leases lost', outcome.leasesLost],
    ['requeues', outcome.requeues],
    ['interrupted job ran again', interruptedRanAgain(outcome) ? 'yes' : 'no'],
    ['time', seconds(outcome.elapsedMs)],
  ]
  const width = Math.max(...rows.map(([, value]) => String(value).length))
  const found = problems(outcome)
  return [
    '',
    ...rows.map(([name, value]) => `  ${name.padEnd(28)}${String(value).padStart(width)}`),
    '',
    ...faults.flatMap(({ name, atMs, seen, missing }) => [
      `  ${name} at ${seconds(atMs)}`,
      ...seen.map((what) => `    - ${what}`),
      ...(missing === undefined ? [] : [`    ! ${missing}`]),
    ]),
    '',
    ...(found.length === 0
      ? ['The ledger is right, and every fault happened.']
      : [
          without === undefined
            ? 'Not as it should be:'
            : `Without ${without === 'lease' ? 'a lease' : 'fencing'}, this went wrong:`,
          ...found.map((problem) => `  ${problem}`),
        ]),
    `Seed ${outcome.seed}.`,
    '',
  ].join('\n')
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
