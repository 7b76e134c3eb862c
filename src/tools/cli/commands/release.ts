import { forceRelease, type ForcedRelease } from '../../operator/force-release.ts'
import { fewAnswer, hasQuorum, tooFewAnswer } from '../../operator/fleet-probe.ts'
import { coverageOf, holderLine, viewResource } from '../../operator/resource-view.ts'
import { slotsOf } from '../../operator/live-leases.ts'
import type { Cli } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { answeredByQuorum, leaseTable } from '../lease-table.ts'
import { YES, type CommandSpec } from '../command.ts'
import { printable } from '../../operator/printable.ts'
import { shortened } from '../../../options.ts'
import { table } from '../table.ts'
import { slotsLine } from './inspect.ts'

export const release: CommandSpec = {
  usage: 'release <resource>',
  summary: 'take a resource from its holder',
  description:
    'Takes a resource from its holder, on every master that answers. The holder keeps running and is not notified. It notices ' +
    'when it next extends its lease. Until then two clients work on the resource, and only a store that compares fencing ' +
    "tokens refuses the old one's writes. Usually waiting is better: a dead holder's lease ends by itself within " +
    'maxLeaseMs. One slot of a resource is named gpu#1.',
  servers: 'masters',
  examples: ['release customer:42', 'release customer:42 --yes --json'],
  options: [YES],
  run,
}

async function run(
  cli: Cli,
  resource: string,
  { yes }: { readonly yes?: boolean },
): Promise<ExitCode> {
  const { out } = cli
  const fleet = cli.fleet()
  const [view, slots] = await Promise.all([viewResource(fleet, resource), slotsOf(fleet, resource)])
  const name = shortened(printable(resource))
  const keys = view.masters.filter(({ holder }) => holder !== undefined).length
  if (keys === 0 && slots.length > 0) {
    out.result({ resource, masters: [], free: false, slots }, () =>
      [
        slotsLine(view, slots),
        leaseTable({ leases: slots, masters: fleet.size }, out),
        `nothing was changed: name one slot, such as \`release ${printable(slots[0]?.resource ?? '')}\``,
      ].join('\n\n'),
    )
    return answeredByQuorum(cli, coverageOf(view), EXIT.attention)
  }
  if (keys === 0 && view.state === 'free') {
    out.result({ resource, masters: [], free: true }, () => `${name} is free: nothing to do`)
    return EXIT.done
  }
  const warning =
    `${holderLine(view)}.\n` +
    'A holder keeps running and is not notified. Until it next extends its lease, another client may work on the resource at ' +
    'the same time. Only a store that compares fencing tokens is protected. Other resources of the same lease are lost with it.'
  const question = `Take ${name} from its holder?`
  if (!(await cli.confirms(warning, question, yes))) return EXIT.attention
  const done = await forceRelease(fleet, resource, cli.settings.maxLeaseMs)
  out.result({ resource, ...done }, () => describe(resource, done))
  return done.after.state === 'unknown' ? EXIT.noQuorum : EXIT.done
}

function describe(resource: string, { masters, after }: ForcedRelease): string {
  const rows = masters.map(({ master, outcome, holder, problem }) => [
    master,
    outcome,
    printable(holder ?? problem ?? ''),
  ])
  return `${table(['MASTER', 'OUTCOME', 'DETAIL'], rows)}\n\n${verdict(resource, after)}`
}

/** What the masters said afterwards. A waiting client may have the resource already. */
function verdict(resource: string, after: ForcedRelease['after']): string {
  const name = shortened(printable(resource))
  if (after.state === 'free') return `${name} can be acquired now`
  if (after.state === 'held') return `${holderLine(after)}: it was acquired meanwhile`
  const coverage = coverageOf(after)
  const few = hasQuorum(coverage) ? fewAnswer(coverage) : tooFewAnswer(coverage)
  return `${name} may still be held: ${few}`
}
