import {
  grouped,
  withFindings,
  type Diagnosis,
  type MasterHealth,
} from '../../operator/diagnosis.ts'
import type { Finding } from '../../../services/service-health.ts'
import { verdictOf } from '../../operator/lock-view.ts'
import { duration, printable } from '../../operator/words.ts'
import { standingJobs } from '../../operator/standing-jobs.ts'
import { EXIT } from '../exit-code.ts'
import type { CommandSpec } from '../command.ts'
import { table, type Output, type Style } from '../output.ts'

export const doctor: CommandSpec = {
  usage: 'doctor',
  summary: 'what is wrong with the masters and the queues, and what to do',
  description:
    "Looks at every master, or every server that --locks names, and, if it is named, at the queue's Redis: reachable, role, version, the same server twice, " +
    'eviction, persistence, clocks, enrolment and quarantine, maxLeaseMs, latency, keys that never expire. Of its queues: lines that a failed job holds or that are full, no worker, the job that has waited longest, settings that differ. Leaves nothing behind. ' +
    'Notes do not make a fleet unhealthy.',
  examples: ['doctor', "doctor --json | jq -c '.findings[]'"],
  async run(cli) {
    const { maxLeaseMs, namespace } = cli.settings
    const locks = await cli.view()
    const queue = cli.queue()
    const [diagnosis, leaks, standing] = await Promise.all([
      locks.diagnose(queue?.server, maxLeaseMs),
      locks.leaks(),
      queue && standingJobs(queue.places),
    ])
    const found = withFindings(diagnosis, [...leaks, ...(standing?.findings ?? [])])
    cli.out.result({ ...found, namespace }, () => describe(found, cli.out))
    if (found.voting < found.quorum) return EXIT.noQuorum
    return found.healthy ? EXIT.done : EXIT.attention
  },
}

const STYLES: Readonly<Record<Finding['severity'], Style>> = {
  error: 'red',
  warning: 'yellow',
  note: 'dim',
}

function describe(diagnosis: Diagnosis, out: Output): string {
  const { servers, healthy, margin } = diagnosis
  const { text } = verdictOf(diagnosis)
  const word = margin < 0 ? 'NO QUORUM' : healthy ? 'healthy' : 'quorum'
  const line = printable(servers ? text : `${word}: ${text}`)
  const said = out.paint(margin < 0 ? 'red' : healthy ? 'green' : 'yellow', line)
  const findings = grouped(diagnosis.findings).flatMap(({ severity, where, fact, fix }) => [
    `${out.paint(STYLES[severity], severity.padEnd(7))}  ${where}: ${printable(fact)}`,
    `         fix: ${fix}`,
  ])
  const rows = servers
    ? table(
        ['SERVER', 'ROLE', 'VERSION'],
        servers.map(({ server, version = '-', role = 'unreachable', problem }) => [
          ...[server, out.paint(problem === undefined ? 'green' : 'red', role), printable(version)],
        ]),
      )
    : table(
        [...MASTERS, 'RUN ID'],
        diagnosis.masters.map((master) => row(master, out)),
      )
  return [rows, '', said, '', ...findings].join('\n').trimEnd()
}

const MASTERS = ['MASTER', 'STATE', 'VERSION', 'ROLE', 'CLOCK', 'LATENCY', 'PERSISTENCE', 'UP']

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
