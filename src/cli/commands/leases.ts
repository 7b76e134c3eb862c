import type { Command } from 'commander'
import { liveLeases, type LiveLeases } from '../../operator/live-leases.ts'
import type { Cli, SharedFlags } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { countLeases, leaseTable } from '../lease-table.ts'
import { command, defaulted, type Run } from '../options.ts'
import { numberFlag } from '../settings.ts'

interface Flags extends SharedFlags {
  readonly match: string
  readonly limit: string
}

const MAX_LIMIT = 1_000_000

export function leasesCommand(run: Run): Command {
  return command('leases', {
    summary: 'who holds what now',
    description:
      'Live leases on all masters: holder, fencing token, time left, votes. `held`: a quorum has its key. `leftover`: fewer ' +
      'have, so nobody trusts it; it ends by itself. `unknown`: masters that do not answer might make it a quorum.',
    servers: 'masters',
    examples: ["leases --match 'customer:*'", 'leases --json --limit 10000'],
  })
    .addOption(defaulted('--match <glob>', 'only resources with such a name', '*'))
    .addOption(defaulted('--limit <n>', 'at most so many', '100'))
    .action((flags: Flags) => run(flags, (cli) => leases(cli, flags)))
}

async function leases(cli: Cli, { match, limit }: Flags): Promise<ExitCode> {
  const { out } = cli
  const search = { match, limit: numberFlag('--limit', limit, 1, MAX_LIMIT) }
  const found = await liveLeases(cli.fleet(), search)
  out.result(found, () =>
    found.leases.length === 0 && !found.truncated
      ? 'no leases'
      : `${leaseTable(found, out)}\n\n${countLeases(found)}`,
  )
  return answeredByQuorum(cli, found)
}

/** Says which masters are silent; exit code 3 when they are too many. */
export function answeredByQuorum(
  { out }: Pick<Cli, 'out'>,
  { silent, masters, quorum }: Pick<LiveLeases, 'silent' | 'masters' | 'quorum'>,
): ExitCode {
  for (const { master, problem } of silent) {
    out.note(`${master} does not answer: ${problem}`, { event: 'silent', master, problem })
  }
  return masters - silent.length >= quorum ? EXIT.done : EXIT.noQuorum
}
