import type { Command } from 'commander'
import { findLeaks, type Leaks } from '../../operator/leaks.ts'
import { running, type Cli, type SharedFlags } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { command } from '../options.ts'
import { printable } from '../printable.ts'
import { answeredByQuorum } from '../quorum.ts'
import { numberFlag } from '../settings.ts'
import { table } from '../table.ts'

interface Flags extends SharedFlags {
  readonly limit: string
}

const MAX_LIMIT = 100_000

export function leaksCommand(): Command {
  return command('leaks', {
    summary: 'keys that never expire and should',
    description:
      'Finds keys of this namespace on the masters that have no time to live and must have one. This package writes no such keys; ' +
      'a restored backup or PERSIST can. Exit code 1 if there are any.',
    servers: 'masters',
    examples: ['leaks', 'leaks --json --limit 1000'],
  })
    .option('--limit <n>', 'the most keys to show of each master', '100')
    .action(running(leaks))
}

async function leaks(cli: Cli, { limit }: Flags): Promise<ExitCode> {
  const found = await findLeaks(cli.fleet(), { limit: numberFlag('--limit', limit, 1, MAX_LIMIT) })
  cli.out.result(found, () => describe(found))
  return answeredByQuorum(cli, found, found.leaks.length > 0 ? EXIT.attention : EXIT.done)
}

function describe({ leaks, truncated, masters, unreachable }: Leaks): string {
  const more = truncated ? '\n\nThere are or may be more: raise --limit.' : ''
  const answered = masters - unreachable.length
  const where =
    unreachable.length === 0 ? '' : ` on the ${answered} of ${masters} masters that answer`
  if (leaks.length === 0) {
    return answered === 0 ? 'Not known: no master answers' : `no leaks${where}${more}`
  }
  const rows = leaks.map(({ master, key, harm, fix }) => [
    master,
    printable(key),
    printable(harm),
    printable(fix),
  ])
  const shown = where === '' ? '' : `\n\nThese are the leaks${where}.`
  return `${table(['MASTER', 'KEY', 'HARM', 'FIX'], rows)}${shown}${more}`
}
