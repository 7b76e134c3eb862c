import { counted } from '../../../counted.ts'
import type { LiveLease } from '../../operator/live-leases.ts'
import { coverageOf, holderLine, type ResourceView } from '../../operator/resource-view.ts'
import { detailOf, type ResourceLine } from '../../operator/resource-detail.ts'
import { timeLeft } from '../../operator/duration.ts'
import type { Cli } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { answeredByQuorum, leaseTable } from '../lease-table.ts'
import type { CommandSpec } from '../command.ts'
import { printable } from '../../operator/printable.ts'
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
        leaseTable({ ...view, leases: slots, masters: view.masters.length }, out),
      )
    }
    // A resource with slots is never held as a whole, so that it is free says nothing.
    if (slots.length === 0 || view.state !== 'free') {
      parts.push(holderLine(view), mastersTable(view))
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

function mastersTable({ masters, service }: ResourceView): string {
  return table(
    [service === undefined ? 'MASTER' : 'SERVICE', 'HOLDER', 'LEFT', 'COUNTER'],
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
