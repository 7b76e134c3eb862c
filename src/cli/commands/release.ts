import type { Command } from 'commander'
import { forceRelease, type ForcedRelease } from '../../operator/force-release.ts'
import type { FleetProbe } from '../../operator/fleet-probe.ts'
import { viewResource } from '../../operator/resource-view.ts'
import { maxLeaseOf, surveyFleet } from '../../operator/survey.ts'
import type { Cli, SharedFlags } from '../cli.ts'
import { confirmed } from '../confirm.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { command, type Run } from '../options.ts'
import { printable } from '../printable.ts'
import { table } from '../table.ts'
import { holderLine } from './inspect.ts'

interface Flags extends SharedFlags {
  readonly force?: boolean
  readonly yes?: boolean
}

/** Longer than the default: a tombstone that lives too long only takes memory. */
const UNKNOWN_MAX_LEASE_MS = 60_000

export function releaseCommand(run: Run): Command {
  return command('release <resource>', {
    summary: 'take a resource from its holder',
    description:
      'Takes a resource from whoever holds it, on every master that answers. The holder is not asked and still runs: it notices ' +
      'when it next extends its lease, and until then two of them work on the resource. Only a store that compares fencing ' +
      "tokens refuses what the old one writes. Usually waiting is better: a dead holder's lease ends by itself within maxLeaseMs.",
    servers: 'masters',
    examples: ['release customer:42', 'release customer:42 --force --json'],
  })
    .option('--force', 'do not ask')
    .option('--yes', 'the same as --force')
    .action((resource: string, flags: Flags) => run(flags, (cli) => release(cli, resource, flags)))
}

async function release(cli: Cli, resource: string, flags: Flags): Promise<ExitCode> {
  const { out } = cli
  const fleet = cli.fleet()
  const view = await viewResource(fleet, resource)
  const keys = view.masters.filter(({ holder }) => holder !== undefined).length
  if (keys === 0 && view.answered >= fleet.quorum) {
    out.result(
      { resource, masters: [], free: true },
      () => `${printable(resource)} is free: nothing to do`,
    )
    return EXIT.done
  }
  const agreed = flags.force === true || flags.yes === true
  const warning =
    `${holderLine(view)}.\n` +
    'The holder still runs and is not told: until it next extends its lease, somebody else may work on the resource at the\n' +
    'same time. Only a store that compares fencing tokens is protected. Other resources of the same lease are lost with it.'
  const question = `Take ${printable(resource)} from its holder?`
  if (!(await confirmed(cli, { warning, question, flag: '--force', agreed }))) {
    out.note('nothing was changed')
    return EXIT.attention
  }
  const done = await forceRelease(fleet, resource, await longestLease(cli, fleet))
  out.result({ resource, ...done }, () => describe(resource, done))
  return done.free ? EXIT.done : EXIT.noQuorum
}

async function longestLease({ settings }: Cli, fleet: FleetProbe): Promise<number> {
  if (settings.maxLeaseMs !== undefined) return settings.maxLeaseMs
  const { masters } = await surveyFleet(fleet)
  return maxLeaseOf(masters) ?? UNKNOWN_MAX_LEASE_MS
}

function describe(resource: string, { masters, free }: ForcedRelease): string {
  const rows = masters.map(({ master, outcome, holder, problem }) => [
    master,
    outcome,
    printable(holder ?? problem ?? ''),
  ])
  const verdict = free
    ? `${printable(resource)} can be acquired now`
    : `${printable(resource)} may still be held: fewer than a quorum of the masters answer`
  return `${table(['MASTER', 'OUTCOME', 'DETAIL'], rows)}\n\n${verdict}`
}
