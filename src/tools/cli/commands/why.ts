import type { Coverage } from '../../operator/fleet-probe.ts'
import { coverageOf, type ResourceView } from '../../operator/resource-view.ts'
import { logOf } from '../../operator/jobs.ts'
import type { Inspect } from '../../operator/lines.ts'
import type { Cli } from '../cli.ts'
import { EXIT } from '../exit-code.ts'
import { listOption, type CommandSpec } from '../command.ts'
import { printable } from '../../operator/words.ts'
import { answeredByQuorum } from './leases.ts'

export const why: CommandSpec = {
  usage: 'why <queue> <jobId>',
  summary: 'why a job does not run',
  description:
    'Says why a job does not run: its state, its lines, the jobs ahead of it, and the holder of the lease. ' +
    'A job that was started, or added through a LockedQueue, names its lines; for others, name them with --resource.',
  examples: ['why invoices 7', 'why invoices 7 --resource customer:42 --json'],
  options: [
    listOption('--resource <name>', 'what the job touches, if you know it; repeat it for each'),
  ],
  async run(cli, queue: string, jobId: string, flags: { readonly resource?: readonly string[] }) {
    const { out } = cli
    const view = await cli.requiredQueue()
    const seen: ResourceView[] = []
    const inspect = await inspector(cli, seen)
    const job = await view.explain(queue, jobId, inspect, flags.resource)
    if (job === undefined) {
      const why = await view.absence(queue, jobId)
      out.result({ queue, jobId, state: 'unknown', resources: [], why }, () => printable(why))
      return EXIT.attention
    }
    const { places } = view
    const log = await logOf(places, await places.ofJob(queue, jobId, flags.resource?.[0]), jobId)
    const lines = log.map((line) => `  ${printable(line)}`)
    const shown = log.length === 0 ? [] : ['', 'Its log says last:', ...lines]
    out.result({ queue, jobId, ...job, log }, () => [printable(job.why), ...shown].join('\n'))
    return answeredByQuorum(cli, leastCoverage(seen))
  },
}

/** Of the look in which the fewest masters answered. */
function leastCoverage(seen: readonly ResourceView[]): Coverage {
  const [least] = [...seen].sort((a, b) => a.answered - b.answered)
  return least ? coverageOf(least) : { masters: 0, quorum: 0, unreachable: [] }
}

/** Without masters the line still says who is before the job. */
async function inspector(cli: Cli, seen: ResourceView[]): Promise<Inspect> {
  const { masters, locks } = cli.settings
  if (locks === undefined && masters.length === 0) {
    const message = 'no masters are given, so the holder of the lease is not known'
    cli.out.note(message, { event: 'warning', message })
    return (resource) => Promise.resolve({ resource, masters: [] })
  }
  const lockView = await cli.view()
  return async (resource) => {
    const view = await lockView.resource(resource)
    seen.push(view)
    return view
  }
}
