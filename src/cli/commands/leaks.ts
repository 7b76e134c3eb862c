import type { Command } from 'commander'
import { findLeaks } from '../../operator/leaks.ts'
import type { Cli, SharedFlags } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { command, defaulted, type Run } from '../options.ts'
import { printable } from '../printable.ts'
import { numberFlag } from '../settings.ts'
import { table } from '../table.ts'
import { answeredByQuorum } from './leases.ts'

interface Flags extends SharedFlags {
  readonly limit: string
}

const MAX_LIMIT = 100_000

export function leaksCommand(run: Run): Command {
  return command('leaks', {
    summary: 'keys that never expire and should',
    description:
      'Keys of this namespace on the masters that have no time to live and must have one. Nothing that this package writes can ' +
      'become one; a restored backup or PERSIST can. Exit code 1 when there are any.',
    servers: 'masters',
    examples: ['leaks', 'leaks --json --limit 1000'],
  })
    .addOption(defaulted('--limit <n>', 'at most so many of each master', '100'))
    .action((flags: Flags) => run(flags, (cli) => leaks(cli, flags)))
}

async function leaks(cli: Cli, { limit }: Flags): Promise<ExitCode> {
  const { out } = cli
  const fleet = cli.fleet()
  const found = await findLeaks(fleet, { limit: numberFlag('--limit', limit, 1, MAX_LIMIT) })
  out.result(found, () => {
    const more = found.truncated ? '\n\nThere are or may be more: raise --limit.' : ''
    if (found.leaks.length === 0) return `no leaks${more}`
    const rows = found.leaks.map(({ master, key, harm, fix }) => [
      master,
      printable(key),
      printable(harm),
      printable(fix),
    ])
    return `${table(['MASTER', 'KEY', 'HARM', 'FIX'], rows)}${more}`
  })
  const { size: masters, quorum } = fleet
  const code = answeredByQuorum(cli, { silent: found.silent, masters, quorum })
  return code === EXIT.done && found.leaks.length > 0 ? EXIT.attention : code
}
