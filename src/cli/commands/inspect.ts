import type { Command } from 'commander'
import type { MasterView } from '../../lock/inspection.ts'
import type { FleetProbe } from '../../operator/fleet-probe.ts'
import { viewResource, type ResourceView } from '../../operator/resource-view.ts'
import type { LineEntry } from '../../worker/line/inspection.ts'
import { duration } from '../duration.ts'
import type { Cli, SharedFlags } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { command, type Run } from '../options.ts'
import { printable } from '../printable.ts'
import { table } from '../table.ts'

export function inspectCommand(run: Run): Command {
  return command('inspect <resource>', {
    summary: 'who holds a resource, and who waits for it',
    description:
      "Who holds a resource, what every master says about it and, if the queue's Redis is named, its line of jobs with what " +
      'each one waits for. A resource with slots is named with its slot: gpu#1.',
    servers: 'both',
    examples: [
      'inspect customer:42',
      'inspect customer:42 --queue-redis redis://queue:6379 --json',
    ],
  }).action((resource: string, flags: SharedFlags) => run(flags, (cli) => inspect(cli, resource)))
}

async function inspect(cli: Cli, resource: string): Promise<ExitCode> {
  const fleet: FleetProbe = cli.fleet()
  const view = await viewResource(fleet, resource)
  const line = await cli.queue()?.line(resource, () => Promise.resolve(view))
  const known = view.answered >= fleet.quorum
  cli.out.result({ ...view, quorum: fleet.quorum, ...(line !== undefined && { line }) }, () =>
    [
      known ? holderLine(view) : tooFew(view, fleet),
      '',
      mastersTable(view.masters),
      ...(line === undefined ? [] : ['', lineTable(line)]),
    ].join('\n'),
  )
  return known ? EXIT.done : EXIT.noQuorum
}

function tooFew({ answered }: ResourceView, { size, quorum }: FleetProbe): string {
  return `${answered} of ${size} masters answer and ${quorum} are needed to tell who holds it`
}

export function holderLine({ resource, holder, masters }: ResourceView): string {
  const name = printable(resource)
  if (holder !== undefined) {
    const left = holder.freeInMs < 0 ? 'for ever' : `for another ${duration(holder.freeInMs)}`
    return `${name} is held by ${printable(holder.name)} ${left}, with fencing token ${holder.fencingToken}`
  }
  const left = masters.filter((master) => master.holder !== undefined).length
  if (left === 0) return `${name} is free`
  return `${name} is held by nobody: ${left} of ${masters.length} masters have a key, less than a quorum`
}

function mastersTable(masters: readonly MasterView[]): string {
  return table(
    ['MASTER', 'HOLDER', 'LEFT', 'COUNTER'],
    masters.map(({ master, holder, ttlMs, counter, problem }) => [
      master,
      problem === undefined ? printable(holder ?? '-') : `does not answer: ${printable(problem)}`,
      ttlMs === undefined ? '-' : ttlMs < 0 ? 'for ever' : duration(ttlMs),
      counter === undefined ? '-' : String(counter),
    ]),
  )
}

function lineTable(line: readonly LineEntry[]): string {
  if (line.length === 0) return 'nobody stands in its line'
  return table(
    ['PLACE', 'QUEUE', 'JOB', 'STATE', 'SINCE', 'WAITS FOR'],
    line.map(({ queue, jobId, state, joinedAt, waitsFor }, place) => [
      String(place + 1),
      printable(queue),
      printable(jobId),
      state,
      joinedAt.toISOString(),
      printable(waitsFor),
    ]),
  )
}
