/** What a run of the demo is: its command line, and the sizes and times that follow from it. */
import { parseArgs } from 'node:util'
import { KINDS, type Kind } from '../../scripts/lock-servers/lock-servers.ts'

export const DEMO_HELP = `
Posts 602 real bird strikes into the ledgers of 22 operators: three worker processes, five real lock masters.
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
usage, 130 Ctrl-C.
`

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

/** A command line that cannot be run. The message names the flag and says what to write. */
export class UsageError extends Error {}

/** Throws a {@link UsageError}. */
export function readPlan(argv: readonly string[]): Plan | 'help' {
  const values = parse(argv)
  if (values.help === true) return 'help'
  const locks = readLocks(values.locks)
  return {
    ...(values.fast === true ? SIZES.fast : SIZES.full),
    ...(locks !== undefined && locks !== 'postgres' && SHORTEST_LEASES),
    locks,
    json: values.json === true,
    without: readWithout(values.without),
    seed: readSeed(values.seed),
    workers: 3,
    concurrency: 4,
  }
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      options: {
        help: { type: 'boolean', short: 'h' },
        fast: { type: 'boolean' },
        json: { type: 'boolean' },
        without: { type: 'string' },
        locks: { type: 'string' },
        seed: { type: 'string' },
      },
    }).values
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}. Try --help`)
  }
}

function readLocks(value: string | undefined): Kind | undefined {
  const kind = KINDS.find((one) => one === value)
  if (kind !== undefined || value === undefined) return kind
  throw new UsageError(`Expected --locks to be ${KINDS.join(', ')}; got "${value}"`)
}

function readSeed(value: string | undefined): number {
  if (value === undefined) return Math.floor(Math.random() * 1_000_000)
  if (/^\d+$/.test(value) && Number.isSafeInteger(Number(value))) return Number(value)
  throw new UsageError(`Expected --seed to be a whole number, got "${value}"`)
}

function readWithout(value: string | undefined): Without | undefined {
  if (value === undefined || value === 'lease' || value === 'fencing') return value
  throw new UsageError(`Expected --without lease or --without fencing, got "${value}"`)
}
