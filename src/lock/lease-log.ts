/**
 * The record of leases in the log: granted, extended, and how each ended. `bullmq-redlock verify`
 * judges it. Each line has the clocks of its process, and a number that shows whether lines are
 * missing. All its lines have one level, so they are all heard, or none is.
 */
import { randomUUID } from 'node:crypto'
import type { Listener, ToldLease } from '../channel.ts'
import { machineId, machineOffsetMs, type Clock } from '../clock.ts'
import type { Log } from '../log.ts'

export interface LeaseLogOptions {
  readonly log: Log
  readonly clock: Clock
  readonly namespace: string
  readonly owner: string
}

/** For one lock. */
export function leaseLog({ log, clock, namespace, owner }: LeaseLogOptions): Listener {
  /** Names the lock in the log. */
  const lock = randomUUID()
  const numbers = new WeakMap<ToldLease, number>()
  let leases = 0
  let seq = 0

  const about = (lease: ToldLease): object => {
    const number = numbers.get(lease) ?? ++leases
    numbers.set(lease, number)
    return {
      ...{ resource: lease.resource, fencingToken: lease.fencingToken, lock, lease: number },
      seq: ++seq,
      monotonicMs: rounded(clock.now() + machineOffsetMs()),
      wallMs: rounded(clock.wallNow()),
    }
  }
  // Read after the clocks of the line, so that the end of trust is never later than it was.
  const trust = (lease: ToldLease): object => ({ trustedForMs: rounded(lease.remainingMs()) })

  return {
    hears: () => log.hears('lease:granted'),
    on: {
      'lease:granted': ({ lease, slots }) => {
        const { resources } = lease
        log.write('lease:granted', {
          ...about(lease),
          ...{ namespace, owner, slots, machine: machineId() },
          ...(resources.length > 1 && { resources }),
          ...trust(lease),
        })
      },
      'lease:extended': ({ lease, outcome }) => {
        if (outcome !== 'extended') return
        log.write('lease:extended', { ...about(lease), ...trust(lease) })
      },
      'lease:ended': ({ lease, how, reason }) => {
        log.write(`lease:${how}`, { ...about(lease), ...(how === 'lost' && { reason }) })
      },
    },
  }
}

/** To the microsecond. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
