/** Leases as a table, and what is said of masters that do not answer. */
import { counted } from '../../counted.ts'
import { hasQuorum, tooFewAnswer, type Coverage } from '../operator/fleet-probe.ts'
import type { LiveLease, LiveLeases } from '../operator/live-leases.ts'
import type { JobsByResource } from '../operator/running-jobs.ts'
import { timeLeft } from '../operator/duration.ts'
import type { Cli } from './cli.ts'
import { EXIT, type ExitCode } from './exit-code.ts'
import type { Output } from './output.ts'
import { printable } from '../operator/printable.ts'
import { table } from './table.ts'

/** @param jobs undefined where no queue is named. */
export function leaseTable(
  { leases, masters, service }: Pick<LiveLeases, 'leases' | 'masters' | 'service'>,
  out: Output,
  jobs?: JobsByResource,
): string {
  const jobHead = jobs === undefined ? [] : ['JOB', 'SINCE']
  // A lock service does not vote.
  const votesHead = service === undefined ? ['VOTES'] : []
  return table(
    ['RESOURCE', 'STATE', 'HOLDER', ...jobHead, 'FENCING TOKEN', 'LEFT', ...votesHead],
    leases.map((lease) => {
      const votes = service === undefined ? [`${lease.votes} of ${masters}`] : []
      return [...row(lease, out, jobs), ...votes]
    }),
  )
}

function row(lease: LiveLease, out: Output, jobs?: JobsByResource): readonly string[] {
  const { resource, state, holder, fencingToken, freeInMs } = lease
  const job = jobs?.get(resource)
  const jobCells =
    job === undefined
      ? ['-', '-']
      : [printable(`${job.queue} ${job.jobId}`), new Date(job.since).toISOString()]
  return [
    printable(resource),
    out.paint(state === 'held' ? 'green' : 'yellow', state),
    printable(holder),
    ...(jobs === undefined ? [] : jobCells),
    fencingToken === undefined ? '-' : String(fencingToken),
    timeLeft(freeInMs),
  ]
}

/** `12 leases: 11 held, 1 leftover`; without a quorum of answers, that this is not all. */
export function countLeases(found: LiveLeases): string {
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
    out.note(`${master} does not answer: ${printable(problem)}`, event)
  }
  return hasQuorum(coverage) ? code : EXIT.noQuorum
}
