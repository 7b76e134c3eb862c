/** Ways on for a line that a failed job holds. */
import type { Command } from 'commander'
import { running, type Cli } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { command } from '../options.ts'
import { printable } from '../printable.ts'

export function retryCommand(): Command {
  return command('retry <queue> <jobId>', {
    summary: 'try a failed job again, in its place in line',
    description:
      "Tries a failed job again, as BullMQ's `job.retry()` does. A job that holds its line runs before the jobs behind it.",
    servers: 'queue',
    examples: ['retry invoices 7'],
  }).action(running(retry))
}

export function skipCommand(): Command {
  return command('skip <queue> <jobId>', {
    summary: 'let a line go on without the failed job that holds it',
    description:
      "Lets the lines of a failed job go on, for workers with onFailure: 'block'. The job stays among the failed ones.",
    servers: 'queue',
    examples: ['skip invoices 7'],
  }).action(running(skip))
}

async function retry(cli: Cli, queue: string, jobId: string): Promise<ExitCode> {
  const view = await cli.requiredQueue(queue)
  const state = (await view.retry(queue, jobId)) ?? 'missing'
  const isDone = state === 'failed'
  const told = isDone
    ? `Job ${jobId} waits again.`
    : await view.refusal(queue, jobId, 'has not failed')
  cli.out.result({ queue, jobId, outcome: isDone ? 'retried' : state }, () => printable(told))
  return isDone ? EXIT.done : EXIT.attention
}

async function skip(cli: Cli, queue: string, jobId: string): Promise<ExitCode> {
  const view = await cli.requiredQueue(queue)
  const isDone = await view.skip(queue, jobId)
  const told = isDone
    ? `The line goes on. Job ${jobId} stays failed.`
    : await view.refusal(queue, jobId, 'holds no line')
  const outcome = isDone ? 'skipped' : 'holds no line'
  cli.out.result({ queue, jobId, outcome }, () => printable(told))
  return isDone ? EXIT.done : EXIT.attention
}
