/** Ways on for a line that a failed job holds. */
import { EXIT } from '../exit-code.ts'
import type { CommandSpec } from '../command.ts'
import { printable } from '../../operator/printable.ts'

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
  servers: 'queue',
  examples: ['retry invoices 7'],
  run: acting('retry'),
}

export const skip: CommandSpec = {
  usage: 'skip <queue> <jobId>',
  summary: 'let a line go on without the failed job that holds it',
  description:
    "Lets the lines of a failed job go on, for workers with onFailure: 'block'. The job stays among the failed ones.",
  servers: 'queue',
  examples: ['skip invoices 7'],
  run: acting('skip'),
}
