import type { Command } from 'commander'
import { sleep, systemClock } from '../../clock.ts'
import { diagnose, type Diagnosis } from '../../operator/diagnosis.ts'
import type { FleetProbe } from '../../operator/fleet-probe.ts'
import { liveLeases, type LiveLeases } from '../../operator/live-leases.ts'
import { surveyFleet } from '../../operator/survey.ts'
import type { Cli, SharedFlags } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { countLeases, leaseTable } from '../lease-table.ts'
import { command, defaulted, type Run } from '../options.ts'
import type { Output } from '../output.ts'
import { printable } from '../printable.ts'
import { hasQuorum } from '../quorum.ts'
import { Screen } from '../screen.ts'
import { numberFlag } from '../settings.ts'

interface Flags extends SharedFlags {
  readonly match: string
  readonly limit: string
  readonly everyMs: string
  readonly frames?: string
}

interface Frame {
  readonly at: string
  readonly diagnosis: Diagnosis
  readonly leases: LiveLeases
}

export function watchCommand(run: Run): Command {
  return command('watch', {
    summary: 'masters and leases, live',
    description:
      'Draws the state of the masters and the live leases again and again; q or Ctrl-C ends it. Where the output is no terminal, ' +
      'one line for each look; with --json one object.',
    servers: 'masters',
    examples: ["watch --match 'customer:*'", 'watch --json --every-ms 5000 >> fleet.ndjson'],
  })
    .addOption(defaulted('--match <glob>', 'only resources with such a name', '*'))
    .addOption(defaulted('--limit <n>', 'the most leases to show', '100'))
    .addOption(defaulted('--every-ms <n>', 'how often to look', '1000'))
    .option('--frames <n>', 'the number of looks after which it ends')
    .action((flags: Flags) => run(flags, (cli) => watch(cli, flags), { graceful: true }))
}

async function watch(cli: Cli, flags: Flags): Promise<ExitCode> {
  const { out, signal } = cli
  const search = { match: flags.match, limit: numberFlag('--limit', flags.limit, 1, 10_000) }
  const everyMs = numberFlag('--every-ms', flags.everyMs, 100, 3_600_000)
  const frames =
    flags.frames === undefined ? Infinity : numberFlag('--frames', flags.frames, 1, 1e9)
  const fleet = cli.fleet()
  using screen = out.live ? new Screen(out, cli.interruption) : undefined
  const over = screen === undefined ? signal : AbortSignal.any([signal, screen.quit])
  for (let drawn = 1; !over.aborted; drawn++) {
    const frame = await look(fleet, search)
    if (screen === undefined) out.result(frame, () => line(frame))
    else screen.draw(page(frame, out))
    if (drawn >= frames) return hasQuorum(frame.leases) ? EXIT.done : EXIT.noQuorum
    await sleep(systemClock, everyMs, over).catch(() => undefined) // The loop's condition ends it.
  }
  return signal.aborted ? EXIT.interrupted : EXIT.done
}

async function look(
  fleet: FleetProbe,
  search: { readonly match: string; readonly limit: number },
): Promise<Frame> {
  const [survey, leases] = await Promise.all([surveyFleet(fleet), liveLeases(fleet, search)])
  const at = new Date(systemClock.wallNow()).toISOString()
  return { at, diagnosis: diagnose(survey), leases }
}

function line({ at, diagnosis, leases }: Frame): string {
  const { voting, masters, findings } = diagnosis
  const worst = findings.find(({ severity }) => severity !== 'note')
  const trouble = worst === undefined ? '' : `; ${worst.where} ${printable(worst.fact)}`
  return `${at}  ${voting} of ${masters.length} vote; ${countLeases(leases)}${trouble}`
}

function page({ at, diagnosis, leases }: Frame, out: Output): readonly string[] {
  const { voting, masters, quorum, findings } = diagnosis
  const style = voting < quorum ? 'red' : diagnosis.healthy ? 'green' : 'yellow'
  const votes = out.paint(style, `${voting} of ${masters.length} masters vote, ${quorum} needed`)
  return [
    `${out.paint('bold', 'bullmq-redlock')}  ${at}  ${votes}  ${out.paint('dim', 'q quits')}`,
    ...findings
      .filter(({ severity }) => severity !== 'note')
      .map(({ where, fact }) => out.paint('yellow', `  ${where}: ${printable(fact)}`)),
    '',
    ...leaseTable(leases, out).split('\n'),
    '',
    countLeases(leases),
  ]
}
