/** What is done to jobs: cancel them, try them again, skip them, let them leave their lines. */
import type { Cancelled } from '../../../line/cancel.ts'
import { isCancelled } from '../../operator/queue-view.ts'
import { numberOption, YES, type CommandSpec } from '../command.ts'
import { Option } from 'commander'
import { reportError } from '../cli.ts'
import { EXIT, UsageError } from '../exit-code.ts'
import { printable } from '../../operator/words.ts'
import { table } from '../output.ts'
import { counted } from '../../../counted.ts'

interface CancelFlags {
  readonly job?: string
  readonly resource?: string
  readonly reason?: string
  readonly waitMs: number
  readonly yes?: boolean
}

/** Jobs that are named one by one; of the others only how many there are. */
const MAX_ROWS = 50

export const cancel: CommandSpec = {
  usage: 'cancel <queue>',
  summary: 'fail jobs that wait, and stop those that run',
  description:
    'Cancels one job, or all jobs of a queue in the line of a resource. A job that waits fails with the reason. The signal of ' +
    'one that runs aborts, in any process. To keep jobs that are added later from starting, pause the resource first.',
  examples: [
    'cancel invoices --job 7 --reason "wrong customer"',
    'cancel invoices --resource customer:42 --reason runaway --yes',
  ],
  options: [
    new Option('--job <id>', 'this job'),
    new Option('--resource <name>', 'all jobs of the queue in the line of this resource'),
    new Option('--reason <text>', 'what the jobs fail with'),
    numberOption('--wait-ms <n>', 'how long to wait for jobs that run', [0, 3_600_000], 5_000),
    YES,
  ],
  async run(cli, queue: string, flags: CancelFlags) {
    const { job, resource, reason, waitMs: timeoutMs, yes } = flags
    const target = job ?? (resource === undefined ? undefined : { resource })
    if (target === undefined || (job !== undefined && resource !== undefined)) {
      throw new UsageError('Name either --job or --resource')
    }
    const view = await cli.requiredQueue(queue)
    const what = job === undefined ? `all jobs of ${resource ?? ''}` : `job ${job}`
    const warning = `This cancels ${what} in queue ${queue}, also while running.`
    if (!(await cli.confirms(warning, 'Cancel?', yes))) return EXIT.attention
    const options = { timeoutMs, ...(reason !== undefined && { reason }) }
    const jobs = await view.cancel(queue, target, options)
    cli.out.result({ queue, jobs }, () => describe(jobs))
    return jobs.every(isCancelled) ? EXIT.done : EXIT.attention
  },
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

const acting = (act: 'retry' | 'skip'): CommandSpec['run'] =>
  async function run(cli, queue: string, jobId: string) {
    const view = await cli.requiredQueue(queue)
    const { isDone, outcome, told } = await view[act](queue, jobId)
    cli.out.result({ queue, jobId, outcome }, () => printable(told))
    return isDone ? EXIT.done : EXIT.attention
  }

export const retry: CommandSpec = {
  usage: 'retry <queue> <jobId>',
  summary: 'try a failed job again, in its place in line',
  description:
    "Tries a failed job again, as BullMQ's `job.retry()` does. A job that holds its line runs before the jobs behind it.",
  examples: ['retry invoices 7'],
  run: acting('retry'),
}

export const skip: CommandSpec = {
  usage: 'skip <queue> <jobId>',
  summary: 'let a line go on without the failed job that holds it',
  description:
    "Lets the lines of a failed job go on, for workers with onFailure: 'block'. The job stays among the failed ones.",
  examples: ['skip invoices 7'],
  run: acting('skip'),
}

export const leaveLines: CommandSpec = {
  usage: 'leave-lines <queue>',
  summary: 'go back to plain BullMQ workers',
  description:
    'Makes every job that waits for its turn an ordinary waiting job, which a plain worker starts. ' +
    'Run it when the last LockedWorker of the queue has stopped: a running one puts them back in their lines.',
  examples: ['leave-lines invoices --yes'],
  options: [YES],
  async run(cli, queue: string, { yes }: { readonly yes?: boolean }) {
    const view = await cli.requiredQueue(queue)
    const warning = `Jobs of one resource in queue ${queue} may then run at the same time.`
    const agreed = await cli.confirms(warning, 'Let all jobs leave their lines?', yes)
    if (!agreed) return EXIT.attention
    const { jobs, errors } = await view.leaveLines(queue)
    const told = counted(jobs, 'job left its line', 'jobs left their lines')
    cli.out.result({ queue, jobs }, () => told)
    for (const error of errors) reportError(cli.out, error)
    return errors.length === 0 ? EXIT.done : EXIT.attention
  },
}
