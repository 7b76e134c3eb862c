import type { Command } from 'commander'
import type { LiveLease } from '../../operator/live-leases.ts'
import { JobsUnderLeases } from '../../operator/running-jobs.ts'
import { running, type Cli, type SharedFlags } from '../cli.ts'
import type { ExitCode } from '../exit-code.ts'
import { countLeases, leaseTable, type Jobs } from '../lease-table.ts'
import { command } from '../options.ts'
import { printable } from '../printable.ts'
import { answeredByQuorum } from '../quorum.ts'
import { numberFlag } from '../settings.ts'
import { messageOf } from '../../../message-of.ts'

interface LeasesFlags extends SharedFlags {
  readonly match: string
  readonly limit: string
}

const MAX_LIMIT = 1_000_000

export function leasesCommand(): Command {
  return command('leases', {
    summary: 'who holds what now',
    description:
      'Shows live leases on all masters: holder, fencing token, time left, votes; with --queue-redis also the job and when it ' +
      'started. `held`: a quorum has its key. `leftover`: fewer have, so it is no lease, and it ends by itself. ' +
      '`unknown`: the missing votes could be on masters that do not answer.',
    servers: 'both',
    examples: ["leases --match 'customer:*'", 'leases --json --limit 10000'],
  })
    .option('--match <glob>', 'only resources with a matching name', '*')
    .option('--limit <n>', 'the most leases to show', '100')
    .action(running(leases))
}

async function leases(cli: Cli, { match, limit }: LeasesFlags): Promise<ExitCode> {
  const { out } = cli
  const search = { match, limit: numberFlag('--limit', limit, 1, MAX_LIMIT) }
  const found = await (await cli.view()).leases(search)
  const jobs = await jobsUnder(cli, found.leases)
  const rows = found.leases.map((lease) => ({ ...lease, job: jobs?.get(lease.resource) }))
  out.result({ ...found, leases: rows }, () =>
    found.leases.length === 0
      ? countLeases(found)
      : `${leaseTable(found, out, jobs)}\n\n${countLeases(found)}`,
  )
  return answeredByQuorum(cli, found)
}

/** Undefined where no queue is named, or its Redis does not answer. */
async function jobsUnder(cli: Cli, held: readonly LiveLease[]): Promise<Jobs> {
  const queue = cli.queue()
  if (queue === undefined) return undefined
  try {
    return await new JobsUnderLeases(queue).under(held)
  } catch (error) {
    const problem = messageOf(error)
    const event = { event: 'unreachable', queueRedis: queue.server.name, problem }
    const name = `the queue's Redis ${queue.server.name}`
    cli.out.note(`Jobs are not shown: ${name} does not answer: ${printable(problem)}`, event)
    return undefined
  }
}
