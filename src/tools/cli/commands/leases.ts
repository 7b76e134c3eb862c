import type { LiveLease } from '../../operator/live-leases.ts'
import { jobsUnder, type JobsByResource } from '../../operator/running-jobs.ts'
import type { Cli } from '../cli.ts'
import type { ExitCode } from '../exit-code.ts'
import { answeredByQuorum, countLeases, leaseTable } from '../lease-table.ts'
import { numberOption, type CommandSpec } from '../command.ts'
import { Option } from 'commander'
import { printable } from '../../operator/printable.ts'
import { messageOf } from '../../../message-of.ts'

interface LeasesFlags {
  readonly match: string
  readonly limit: number
}

export const leases: CommandSpec = {
  usage: 'leases',
  summary: 'who holds what now',
  description:
    'Shows live leases on all masters: holder, fencing token, time left, votes; with --queue-redis also the job and when it ' +
    'started. `held`: a quorum has its key. `leftover`: fewer have, so it is no lease, and it ends by itself. ' +
    '`unknown`: the missing votes could be on masters that do not answer.',
  servers: 'both',
  examples: ["leases --match 'customer:*'", 'leases --json --limit 10000'],
  options: [
    new Option('--match <glob>', 'only resources with a matching name').default('*'),
    numberOption('--limit <n>', 'the most leases to show', [1, 1_000_000], 100),
  ],
  run,
}

async function run(cli: Cli, search: LeasesFlags): Promise<ExitCode> {
  const { out } = cli
  const found = await (await cli.view()).leases(search)
  const jobs = await jobsOf(cli, found.leases)
  const rows = found.leases.map((lease) => ({ ...lease, job: jobs?.get(lease.resource) }))
  out.result({ ...found, leases: rows }, () =>
    found.leases.length === 0
      ? countLeases(found)
      : `${leaseTable(found, out, jobs)}\n\n${countLeases(found)}`,
  )
  return answeredByQuorum(cli, found)
}

/** Undefined where no queue is named, or its Redis does not answer. */
async function jobsOf(cli: Cli, held: readonly LiveLease[]): Promise<JobsByResource | undefined> {
  const queue = cli.queue()
  if (queue === undefined) return undefined
  try {
    return await jobsUnder(queue.places, held)
  } catch (error) {
    const problem = messageOf(error)
    const event = { event: 'unreachable', queueRedis: queue.server.name, problem }
    const name = `the queue's Redis ${queue.server.name}`
    cli.out.note(`Jobs are not shown: ${name} does not answer: ${printable(problem)}`, event)
    return undefined
  }
}
