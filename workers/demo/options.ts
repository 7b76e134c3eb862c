/** What a run of the demo is: its command line, and the sizes and times that follow from it. */
import { KINDS, type Kind } from '../../scripts/lock-servers/lock-servers.ts'
import { flag, integer, oneOf, readOptions } from '../../scripts/read-options.ts'

export const DEMO_HELP = `Posts 602 real bird strikes into the ledgers of 22 operators: three worker processes, five real lock masters.
Meanwhile a worker and a master are killed and another worker is frozen for longer than its lease.
Ends with 0 only if the ledger is right and each of these faults was seen to have happened.

  npm run demo -- [options]

  --fast              150 strikes and shorter leases: some 10 seconds
  --locks NAME        etcd, zookeeper or postgres instead of the lock masters: three members, or one PostgreSQL
  --without lease     the jobs run without a lease: see what goes wrong (ends with 1)
  --without fencing   the ledger does not look at fencing tokens: see what goes wrong (ends with 1)
  --seed N            which worker and which master fail. Default: a random number, which is printed
  --json              one JSON object at the end, instead of the progress and the table
  -h, --help

It needs redis-server or Docker, and installs redis-server with the system's package manager if there
is neither. --locks needs the server that it names. Everything it starts is gone when it ends. Exit codes: 0, 1 not as it should be, 2 wrong
usage, 130 Ctrl-C.`

/** A safeguard that the demo leaves out, to show what it is for. */
export type Without = 'lease' | 'fencing'

export interface Plan {
  readonly json: boolean
  readonly seed: number
  /** The lock service, where it is not five masters. */
  readonly locks: Kind | undefined
  readonly without: Without | undefined
  /** How many strikes of the file, from its start. */
  readonly jobs: number
  readonly workers: number
  readonly concurrency: number
  readonly leaseMs: number
  readonly maxLeaseMs: number
  /** How long a job computes between its read and its write. */
  readonly workMs: number
  /** After this the run counts as stuck. */
  readonly limitMs: number
}

const SIZES = {
  full: { jobs: Infinity, leaseMs: 2_000, maxLeaseMs: 3_000, workMs: 60, limitMs: 120_000 },
  // Long enough that a lease does not lapse on a busy machine, and a quarantine of one `maxLeaseMs`
  // is seen there.
  fast: { jobs: 150, leaseMs: 1_000, maxLeaseMs: 2_000, workMs: 15, limitMs: 180_000 },
} as const

/** etcd grants no shorter lease by default. */
const SHORTEST_LEASES = { leaseMs: 2_000, maxLeaseMs: 3_000, limitMs: 180_000 }

/** Of this process; what cannot be run ends it. */
export function readPlan(): Plan {
  const { fast, locks, ...given } = readOptions(DEMO_HELP, {
    fast: flag,
    json: flag,
    without: oneOf(['lease', 'fencing']),
    locks: oneOf(KINDS),
    seed: integer(Math.floor(Math.random() * 1_000_000), 0),
  })
  return {
    ...(fast ? SIZES.fast : SIZES.full),
    ...(locks !== undefined && locks !== 'postgres' && SHORTEST_LEASES),
    ...given,
    locks,
    workers: 3,
    concurrency: 4,
  }
}
