/** Who holds what: all leases, one resource, and how to take one from its holder. */
import {
  slotsOf,
  type LeaseSearch,
  type LiveLease,
  type LiveLeases,
} from '../../operator/live-leases.ts'
import { jobsUnder, type JobsByResource } from '../../operator/jobs.ts'
import type { Cli } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { numberOption, YES, type CommandSpec } from '../command.ts'
import { Option } from 'commander'
import { commandLine } from '../../../command-line.ts'
import { messageOf } from '../../../message-of.ts'
import { counted } from '../../../counted.ts'
import {
  coverageOf,
  holderLine,
  viewResource,
  forceRelease,
  detailOf,
  type ResourceView,
  type ResourceLine,
} from '../../operator/resource-view.ts'
import { whyUnanswered, timeLeft, printable } from '../../operator/words.ts'
import { shortened } from '../../../options.ts'
import { hasQuorum, tooFewAnswer, type Coverage } from '../../operator/fleet-probe.ts'
import { table, type Output } from '../output.ts'

export const leases: CommandSpec = {
  usage: 'leases',
  summary: 'who holds what now',
  description:
    'Shows live leases on all masters: holder, fencing token, time left, votes; with --queue-redis also the job and when it ' +
    'started. `held`: a quorum has its key. `leftover`: fewer have, so it is no lease, and it ends by itself. ' +
    '`unknown`: the missing votes could be of masters that do not answer, or that have restarted and forgotten.',
  examples: ["leases --match 'customer:*'", 'leases --json --limit 10000'],
  options: [
    new Option('--match <glob>', 'only resources with a matching name').default('*'),
    numberOption('--limit <n>', 'the most leases to show', [1, 1_000_000], 100),
  ],
  async run(cli, search: LeaseSearch) {
    const { out } = cli
    const found = await (await cli.view()).leases(search)
    const jobs = await jobsOf(cli, found.leases)
    const rows = found.leases.map((lease) => ({ ...lease, job: jobs?.get(lease.resource) }))
    out.result({ ...found, leases: rows }, () =>
      found.leases.length === 0
        ? countLeases(found)
        : `${leaseTable(found, out, jobs)}\n\n${countLeases(found)}`,
    )
    return answeredByQuorum(cli, found)
  },
}

export const inspect: CommandSpec = {
  usage: 'inspect <resource>',
  summary: 'who holds a resource, and which jobs wait for it',
  description:
    "Shows who holds a resource, what every master says about it and, if the queue's Redis is given, its line of jobs with what " +
    'each one waits for. A resource with slots shows who holds each slot; one slot is named gpu#1.',
  examples: ['inspect customer:42', 'inspect customer:42 --queue-redis redis://queue:6379 --json'],
  async run(cli, resource: string) {
    const { out } = cli
    const detail = await detailOf(await cli.view(), cli.queue(), resource)
    const { slots, line, missing, ...view } = detail
    out.result(detail, () => {
      const parts: string[] = []
      if (slots.length > 0) parts.push(slotsTable(view, slots, out))
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
    const code = view.state === 'unknown' || isPart ? EXIT.attention : EXIT.done
    return answeredByQuorum(cli, coverageOf(view), code)
  },
}

export const release: CommandSpec = {
  usage: 'release <resource>',
  summary: 'take a resource from its holder',
  description:
    'Takes a resource from its holder, on every master that answers. The holder keeps running and is not notified. It notices ' +
    'when it next extends its lease. Until then two clients work on the resource, and only a store that compares fencing ' +
    "tokens refuses the old one's writes. Usually waiting is better: a dead holder's lease ends by itself within " +
    'maxLeaseMs. One slot of a resource is named gpu#1.',
  examples: ['release customer:42', 'release customer:42 --yes --json'],
  options: [YES],
  async run(cli, resource: string, { yes }: { readonly yes?: boolean }) {
    const { out } = cli
    const fleet = cli.fleet()
    const asked = [viewResource(fleet, resource), slotsOf(fleet, resource)] as const
    const [view, slots] = await Promise.all(asked)
    const name = shortened(printable(resource))
    const keys = view.masters.filter(({ holder }) => holder !== undefined).length
    if (keys === 0 && slots.length > 0) {
      const example = printable(commandLine`release ${slots[0]?.resource ?? ''}`)
      out.result(
        { resource, masters: [], free: false, slots },
        () =>
          `${slotsTable(view, slots, out)}\n\nnothing was changed: name one slot, such as ${example}`,
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
    out.result({ resource, ...done }, () => {
      const rows = done.masters.map(({ master, outcome, holder, problem }) => [
        ...[master, outcome, printable(holder ?? problem ?? '')],
      ])
      return `${table(['MASTER', 'OUTCOME', 'DETAIL'], rows)}\n\n${nowOf(name, done.after)}`
    })
    return done.after.state === 'unknown' ? EXIT.noQuorum : EXIT.done
  },
}

/** Undefined where no queue is named, or its Redis does not answer. */
async function jobsOf(cli: Cli, held: readonly LiveLease[]): Promise<JobsByResource | undefined> {
  const queue = cli.queue()
  return (
    queue &&
    jobsUnder(queue.places, held).catch((error: unknown) => {
      const problem = messageOf(error)
      const event = { event: 'unreachable', queueRedis: queue.server.name, problem }
      cli.out.note(`Jobs are not shown: ${printable(queue.server.whyUnanswered(error))}`, event)
      return undefined
    })
  )
}

/** @param jobs undefined where no queue is named. */
function leaseTable(
  { leases, masters, service }: Pick<LiveLeases, 'leases' | 'masters' | 'service'>,
  out: Output,
  jobs?: JobsByResource,
): string {
  // A lock service does not vote.
  const votes = service === undefined
  const head = ['RESOURCE', 'STATE', 'HOLDER', ...(jobs ? ['JOB', 'SINCE'] : []), 'FENCING TOKEN']
  const rows = leases.map((lease) => {
    const { resource, state, holder, fencingToken = '-', freeInMs } = lease
    const job = jobs?.get(resource)
    const ofJob = job
      ? [printable(`${job.queue} ${job.jobId}`), new Date(job.since).toISOString()]
      : ['-', '-']
    return [
      ...[printable(resource), out.paint(state === 'held' ? 'green' : 'yellow', state)],
      ...[printable(holder), ...(jobs ? ofJob : []), String(fencingToken), timeLeft(freeInMs)],
      ...(votes ? [`${lease.votes} of ${masters}`] : []),
    ]
  })
  return table([...head, 'LEFT', ...(votes ? ['VOTES'] : [])], rows)
}

/** `12 leases: 11 held, 1 leftover`; without a quorum of answers, that this is not all. */
function countLeases(found: LiveLeases): string {
  const { leases, truncated, unreachable, masters } = found
  const parts = ['held', 'leftover', 'unknown'].flatMap((state) => {
    const count = leases.filter((lease) => lease.state === state).length
    return count === 0 ? [] : [`${count} ${state}`]
  })
  const all = `${counted(leases.length, 'lease')}: ${parts.join(', ')}`
  const known = leases.length === 0 ? 'no leases' : all
  const more = truncated ? '; there are or may be more: use --limit or --match' : ''
  if (unreachable.length === 0) return `${known}${more}`
  if (hasQuorum(found)) {
    return `${known}${more}; ${unreachable.length} of ${masters} masters did not answer`
  }
  const seen = unreachable.length === masters ? '' : `; on those that answer: ${known}${more}`
  return `The holders are not known: ${tooFewAnswer(found)}${seen}`
}

/** Names the masters that do not answer. Exit code 3 when fewer than a quorum do, else `code`. */
export function answeredByQuorum(
  { out }: Cli,
  coverage: Coverage,
  code: ExitCode = EXIT.done,
): ExitCode {
  for (const { master, problem } of coverage.unreachable) {
    const event = { event: 'unreachable', master, problem }
    out.note(`${master} ${whyUnanswered(problem)}: ${printable(problem)}`, event)
  }
  return hasQuorum(coverage) ? code : EXIT.noQuorum
}

/** `gpu has slots: 2 are held`, and who holds each. */
function slotsTable(view: ResourceView, slots: readonly LiveLease[], out: Output): string {
  const held = [view, ...slots].filter(({ state }) => state === 'held').length
  const maybe = slots.filter(({ state }) => state === 'unknown').length
  const also =
    maybe === 0 ? '' : `, ${maybe} may be held: masters do not answer, or may have forgotten`
  const name = shortened(printable(view.resource))
  const rows = leaseTable({ ...view, leases: slots, masters: view.masters.length }, out)
  return `${name} has slots: ${counted(held, 'is', 'are')} held${also}\n\n${rows}`
}

function mastersTable({ masters, service }: ResourceView): string {
  return table(
    [service === undefined ? 'MASTER' : 'SERVICE', 'HOLDER', 'LEFT', 'COUNTER'],
    masters.map(({ master, holder = '-', ttlMs, counter = '-', problem }) => [
      master,
      printable(problem === undefined ? holder : `${whyUnanswered(problem)}: ${problem}`),
      ttlMs === undefined ? '-' : timeLeft(ttlMs),
      String(counter),
    ]),
  )
}

function describeLine(line: ResourceLine): string {
  if ('problem' in line) return `its line is not known: ${printable(line.problem)}`
  if (line.length === 0) return 'no jobs waiting'
  return table(
    ['PLACE', 'QUEUE', 'JOB', 'STATE', 'JOINED', 'WAITS FOR'],
    line.map(({ queue, jobId, state, addedAt, waitsFor }, place) => [
      ...[String(place + 1), printable(queue), printable(jobId), state],
      ...[addedAt.toISOString(), printable(waitsFor)],
    ]),
    3,
  )
}

/** What the masters say after a release. A waiting client may have the resource already. */
function nowOf(name: string, after: ResourceView): string {
  if (after.state === 'free') return `${name} can be acquired now`
  if (after.state === 'held') return `${holderLine(after)}: it was acquired meanwhile`
  const coverage = coverageOf(after)
  const { unknown = '' } = after
  return `${name} may still be held: ${hasQuorum(coverage) ? unknown : tooFewAnswer(coverage)}`
}
