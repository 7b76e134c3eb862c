import {
  grouped,
  withFindings,
  type Diagnosis,
  type MasterHealth,
} from '../../operator/diagnosis.ts'
import type { Finding } from '../../../services/service-health.ts'
import { verdictOf, type ServiceDiagnosis } from '../../operator/lock-view.ts'
import { duration } from '../../operator/duration.ts'
import { standingJobs } from '../../operator/standing-jobs.ts'
import type { Cli } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import type { CommandSpec } from '../command.ts'
import type { Output, Style } from '../output.ts'
import { printable } from '../../operator/printable.ts'
import { table } from '../table.ts'

export const doctor: CommandSpec = {
  usage: 'doctor',
  summary: 'what is wrong with the masters and the queues, and what to do',
  description:
    "Looks at every master, or every server that --locks names, and, if it is named, at the queue's Redis: reachable, role, version, the same server twice, " +
    'eviction, persistence, clocks, enrolment and quarantine, maxLeaseMs, latency, keys that never expire. Of its queues: lines that a failed job holds or that are full, no worker, the job that has waited longest, settings that differ. Leaves nothing behind. ' +
    'Notes do not make a fleet unhealthy.',
  servers: 'both',
  examples: ['doctor', "doctor --json | jq -c '.findings[]'"],
  run,
}

async function run(cli: Cli): Promise<ExitCode> {
  const { maxLeaseMs, namespace } = cli.settings
  const locks = await cli.view()
  const queue = cli.queue()
  const [diagnosis, leaks, standing] = await Promise.all([
    locks.diagnose(queue?.server, maxLeaseMs),
    locks.leaks(),
    // The diagnosis says why the queue's Redis is away.
    queue && standingJobs(queue.places).catch(() => undefined),
  ])
  const found = withFindings(diagnosis, [...leaks, ...(standing?.findings ?? [])])
  cli.out.result({ ...found, namespace }, () => describe(found, cli.out))
  if (found.voting < found.quorum) return EXIT.noQuorum
  return found.healthy ? EXIT.done : EXIT.attention
}

const STYLES: Readonly<Record<Finding['severity'], Style>> = {
  error: 'red',
  warning: 'yellow',
  note: 'dim',
}

function describe(diagnosis: Diagnosis | ServiceDiagnosis, out: Output): string {
  const rows = 'service' in diagnosis ? serversTable(diagnosis, out) : mastersTable(diagnosis, out)
  const { healthy, margin } = diagnosis
  const word = margin < 0 ? 'NO QUORUM' : healthy ? 'healthy' : 'quorum'
  const { text } = verdictOf(diagnosis)
  const line = printable('service' in diagnosis ? text : `${word}: ${text}`)
  const said = out.paint(margin < 0 ? 'red' : healthy ? 'green' : 'yellow', line)
  const findings = grouped(diagnosis.findings).flatMap(({ severity, where, fact, fix }) => [
    `${out.paint(STYLES[severity], severity.padEnd(7))}  ${where}: ${printable(fact)}`,
    `         fix: ${fix}`,
  ])
  return [rows, '', said, '', ...findings].join('\n').trimEnd()
}

function mastersTable({ masters }: Diagnosis, out: Output): string {
  const head = ['MASTER', 'STATE', 'VERSION', 'ROLE', 'CLOCK', 'LATENCY', 'PERSISTENCE', 'UP']
  return table(
    [...head, 'RUN ID'],
    masters.map((master) => row(master, out)),
  )
}

function serversTable({ servers }: ServiceDiagnosis, out: Output): string {
  const rows = servers.map(({ server, version = '-', role, problem }) => [
    ...[server, out.paint(problem === undefined ? 'green' : 'red', role ?? 'unreachable')],
    printable(version),
  ])
  return table(['SERVER', 'ROLE', 'VERSION'], rows)
}

function row({ master, state, survey, clockOffMs }: MasterHealth, out: Output): readonly string[] {
  const name = [master, out.paint(state === 'votes' ? 'green' : 'red', state)]
  if (survey === undefined || clockOffMs === undefined) return name
  const { persistence, appendfsync } = survey
  return [
    ...name,
    printable(survey.version),
    survey.role,
    `${clockOffMs < 0 ? '-' : '+'}${duration(Math.abs(clockOffMs))}`,
    duration(survey.roundTripMs),
    persistence === 'aof' ? `aof ${appendfsync ?? ''}` : persistence,
    duration(survey.uptimeMs),
    survey.runId.slice(0, 8),
  ]
}
