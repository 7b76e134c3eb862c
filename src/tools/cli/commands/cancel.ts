import type { Command } from 'commander'
import type { Cancelled } from '../../../line/cancel.ts'
import { running, type Cli, type SharedFlags } from '../cli.ts'
import { confirmed } from '../confirm.ts'
import { EXIT, UsageError, type ExitCode } from '../exit-code.ts'
import { command } from '../options.ts'
import { printable } from '../printable.ts'
import { numberFlag } from '../settings.ts'
import { table } from '../table.ts'

interface CancelFlags extends SharedFlags {
  readonly job?: string
  readonly resource?: string
  readonly reason?: string
  readonly waitMs?: string
  readonly yes?: boolean
}

const WAIT_MS = 5_000
const MAX_WAIT_MS = 3_600_000
/** Jobs that are named one by one; of the others only how many there are. */
const MAX_ROWS = 50

export function cancelCommand(): Command {
  return command('cancel <queue>', {
    summary: 'fail jobs that wait, and stop those that run',
    description:
      'Cancels one job, or all jobs of a queue in the line of a resource. A job that waits fails with the reason. The signal of ' +
      'one that runs aborts, in any process. To keep jobs that are added later from starting, pause the resource first.',
    servers: 'queue',
    examples: [
      'cancel invoices --job 7 --reason "wrong customer"',
      'cancel invoices --resource customer:42 --reason runaway --yes',
    ],
  })
    .option('--job <id>', 'this job')
    .option('--resource <name>', 'all jobs of the queue in the line of this resource')
    .option('--reason <text>', 'what the jobs fail with')
    .option('--wait-ms <n>', `how long to wait for jobs that run; default: ${WAIT_MS}`)
    .option('--yes', 'do not ask')
    .action(running(cancel))
}

async function cancel(cli: Cli, queue: string, flags: CancelFlags): Promise<ExitCode> {
  const { job, resource, reason, waitMs, yes } = flags
  if ((job === undefined) === (resource === undefined)) {
    throw new UsageError('Name either --job or --resource')
  }
  const timeoutMs = waitMs === undefined ? WAIT_MS : numberFlag('--wait-ms', waitMs, 0, MAX_WAIT_MS)
  const view = await cli.requiredQueue(queue)
  const what = job === undefined ? `all jobs of ${resource ?? ''}` : `job ${job}`
  const warning = `This cancels ${what} in queue ${queue}, also while running.`
  if (!(await confirmed(cli, warning, 'Cancel?', yes))) return EXIT.attention
  const target = job ?? { resource: resource ?? '' }
  const options = { timeoutMs, ...(reason !== undefined && { reason }) }
  const jobs = await view.cancel(queue, target, options)
  cli.out.result({ queue, jobs }, () => describe(jobs))
  const isDone = jobs.every(({ outcome }) => !['running', 'missing', 'refused'].includes(outcome))
  return isDone ? EXIT.done : EXIT.attention
}

function describe(jobs: readonly Cancelled[]): string {
  if (jobs.length === 0) return 'no jobs in its line'
  const counts = new Map<string, number>()
  for (const { outcome } of jobs) counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
  const summary = [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(', ')
  if (jobs.length > MAX_ROWS) return summary
  const rows = jobs.map(({ jobId, outcome }) => [printable(jobId), outcome])
  return `${table(['JOB', 'OUTCOME'], rows)}\n\n${summary}`
}
