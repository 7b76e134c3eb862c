import { counted } from '../../../counted.ts'
import type { MasterView } from '../../../lock/inspection.ts'
import { hasQuorum } from '../../operator/fleet-probe.ts'
import type { LiveLease } from '../../operator/live-leases.ts'
import type { ResourceView } from '../../operator/resource-view.ts'
import { detailOf, type ResourceLine } from '../../operator/resource-detail.ts'
import { duration } from '../../operator/duration.ts'
import type { Cli } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { answeredByQuorum, coverageOf, leaseTable, timeLeft, tooFewAnswer } from '../lease-table.ts'
import type { CommandSpec } from '../command.ts'
import { printable } from '../printable.ts'
import { table } from '../table.ts'
import { shortened } from '../../../options.ts'

export const inspect: CommandSpec = {
  usage: 'inspect <resource>',
  summary: 'who holds a resource, and which jobs wait for it',
  description:
    "Shows who holds a resource, what every master says about it and, if the queue's Redis is given, its line of jobs with what " +
    'each one waits for. A resource with slots shows who holds each slot; one slot is named gpu#1.',
  servers: 'both',
  examples: ['inspect customer:42', 'inspect customer:42 --queue-redis redis://queue:6379 --json'],
  run,
}

async function run(cli: Cli, resource: string): Promise<ExitCode> {
  const { out } = cli
  const detail = await detailOf(await cli.view(), cli.queue(), resource)
  const { slots, line, missing, ...view } = detail
  out.result(detail, () => {
    const parts: string[] = []
    if (slots.length > 0) {
      parts.push(
        slotsLine(view, slots),
        leaseTable({ leases: slots, masters: view.masters.length }, out),
      )
    }
    // A resource with slots is never held as a whole, so that it is free says nothing.
    if (slots.length === 0 || view.state !== 'free') {
      parts.push(holderLine(view), mastersTable(view.masters))
    }
    const { ungranted } = view
    if (ungranted !== undefined) parts.push(`No lease is granted: ${printable(ungranted)}`)
    if (line !== undefined) parts.push(describeLine(line))
    if (missing !== undefined) parts.push(`Its line may have more jobs: ${printable(missing)}`)
    return parts.join('\n\n')
  })
  const isPart = missing !== undefined || (line !== undefined && 'problem' in line)
  return answeredByQuorum(
    cli,
    coverageOf(view),
    view.state === 'unknown' || isPart ? EXIT.attention : EXIT.done,
  )
}

/** Who holds it, in one sentence that is true also where masters do not answer. */
export function holderLine(view: ResourceView): string {
  const { holder, masters, state } = view
  const name = shortened(printable(view.resource))
  if (holder !== undefined) {
    const expiry =
      holder.freeInMs < 0 ? 'without expiry' : `for another ${duration(holder.freeInMs)}`
    return `${name} is held by ${printable(holder.name)} ${expiry}, with fencing token ${holder.fencingToken}`
  }
  const coverage = coverageOf(view)
  if (!hasQuorum(coverage)) return `The holder of ${name} is not known: ${tooFewAnswer(coverage)}`
  const withKey = masters.filter((master) => master.holder !== undefined).length
  if (state === 'unknown') {
    return `${name} may be held: ${withKey} of ${counted(masters.length, 'master has', 'masters have')} a key, and ${counted(view.unreachable.length, 'does', 'do')} not answer`
  }
  if (withKey === 0) return `${name} is free`
  return `${name} is free (${withKey} of ${counted(masters.length, 'master still has', 'masters still have')} a leftover key)`
}

/** `gpu has slots: 2 are held`. */
export function slotsLine(
  { resource, state: own }: ResourceView,
  slots: readonly LiveLease[],
): string {
  const held = [own, ...slots.map(({ state }) => state)].filter((state) => state === 'held').length
  const maybe = slots.filter(({ state }) => state === 'unknown').length
  const also = maybe === 0 ? '' : `, ${maybe} may be held by masters that do not answer`
  return `${shortened(printable(resource))} has slots: ${counted(held, 'is', 'are')} held${also}`
}

function mastersTable(masters: readonly MasterView[]): string {
  return table(
    ['MASTER', 'HOLDER', 'LEFT', 'COUNTER'],
    masters.map(({ master, holder, ttlMs, counter, problem }) => [
      master,
      problem === undefined ? printable(holder ?? '-') : `does not answer: ${printable(problem)}`,
      ttlMs === undefined ? '-' : timeLeft(ttlMs),
      counter === undefined ? '-' : String(counter),
    ]),
  )
}

function describeLine(line: ResourceLine): string {
  if ('problem' in line) return `its line is not known: ${printable(line.problem)}`
  if (line.length === 0) return 'no jobs waiting'
  return table(
    ['PLACE', 'QUEUE', 'JOB', 'STATE', 'JOINED', 'WAITS FOR'],
    line.map(({ queue, jobId, state, addedAt, waitsFor }, place) => [
      String(place + 1),
      printable(queue),
      printable(jobId),
      state,
      addedAt.toISOString(),
      printable(waitsFor),
    ]),
    3,
  )
}
