/** Live leases as a table: what `leases` prints and `watch` draws. */
import type { LiveLease, LiveLeases } from '../operator/live-leases.ts'
import { duration } from './duration.ts'
import type { Output } from './output.ts'
import { printable } from './printable.ts'
import { table } from './table.ts'

const HEAD = ['RESOURCE', 'STATE', 'HOLDER', 'FENCING TOKEN', 'LEFT', 'VOTES']

export function leaseTable({ leases, masters }: LiveLeases, out: Output): string {
  return table(
    HEAD,
    leases.map((lease) => row(lease, masters, out)),
  )
}

function row(lease: LiveLease, masters: number, out: Output): readonly string[] {
  const { resource, state, holder, fencingToken, freeInMs, votes } = lease
  return [
    printable(resource),
    out.paint(state === 'held' ? 'green' : 'yellow', state),
    printable(holder),
    fencingToken === undefined ? '-' : String(fencingToken),
    freeInMs < 0 ? 'for ever' : duration(freeInMs),
    `${votes} of ${masters}`,
  ]
}

/** `12 leases: 11 held, 1 leftover`. */
export function countLeases({ leases, truncated }: LiveLeases): string {
  const count = (state: LiveLease['state']): number =>
    leases.filter((lease) => lease.state === state).length
  const parts = (['held', 'leftover', 'unknown'] as const).flatMap((state) =>
    count(state) === 0 ? [] : [`${count(state)} ${state}`],
  )
  const all = `${leases.length} ${leases.length === 1 ? 'lease' : 'leases'}`
  const more = truncated ? '; there are or may be more: use --limit or --match' : ''
  return `${all}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}${more}`
}
