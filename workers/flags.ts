/** What every example worker takes from its command line and environment. */
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { REAL_STRIKES } from './strikes-file.ts'

type OptionsConfig = NonNullable<ParseArgsConfig['options']>
type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>
type Environment = Readonly<Record<string, string | undefined>>

export interface Flags {
  readonly json: boolean
  readonly queueUrl: string
  readonly masters: readonly string[]
  readonly databaseUrl: string | undefined
  readonly queue: string
  readonly input: string
  readonly enqueue: boolean
  readonly work: boolean
  readonly bootstrap: boolean
  readonly untilDrained: boolean
  readonly concurrency: number
  readonly leaseMs: number
  readonly maxLeaseMs: number
  /** The worker's own options. */
  readonly own: Values
}

export interface FlagDefaults {
  readonly queue: string
  readonly options?: OptionsConfig
}

/** A command line that cannot be run. The message names the flag and says what to write. */
export class UsageError extends Error {
  readonly code = 'USAGE'

  constructor(message: string) {
    super(message)
    this.name = 'UsageError'
  }
}

const OPTIONS = {
  help: { type: 'boolean', short: 'h' },
  json: { type: 'boolean' },
  master: { type: 'string', multiple: true },
  queue: { type: 'string' },
  input: { type: 'string' },
  enqueue: { type: 'boolean' },
  'enqueue-only': { type: 'boolean' },
  bootstrap: { type: 'boolean' },
  'until-drained': { type: 'boolean' },
  concurrency: { type: 'string' },
  'lease-ms': { type: 'string' },
  'max-lease-ms': { type: 'string' },
} as const satisfies OptionsConfig

export const FLAGS_HELP = `
  --master URL        a lock master; repeat it for each. Or BULLMQ_REDLOCK_MASTERS, separated by commas
  --queue NAME        the BullMQ queue
  --input FILE        NDJSON with id, customer, date, amount. Default: the bird strikes in workers/data
  --enqueue           add the input's jobs first, then work
  --enqueue-only      add the input's jobs and stop
  --until-drained     stop when no job is left; exit 3 if one failed
  --bootstrap         the lock masters are new and hold no leases: let them vote at once
  --concurrency N     jobs at a time in this process. Default 4
  --lease-ms N        length of a lease. Default 10000, or --max-lease-ms if that is less
  --max-lease-ms N    the longest lease of the whole fleet. Or BULLMQ_REDLOCK_MAX_LEASE_MS. Default 30000
  --json              one JSON object a line
  -h, --help

Environment
  BULLMQ_REDLOCK_QUEUE    BullMQ's Redis. Default redis://127.0.0.1:6379
  BULLMQ_REDLOCK_MASTERS  the lock masters
  DATABASE_URL            PostgreSQL for the results. Default: an embedded one that is gone at the end

Exit codes: 0 done or stopped, 1 cannot go on, 2 wrong usage, 3 drained but with failed jobs or a wrong
result, 130 Ctrl-C.`

/** Throws a {@link UsageError} for what cannot be run. After `--help` nothing else is looked at. */
export function readFlags(
  argv: readonly string[],
  env: Environment,
  defaults: FlagDefaults,
): Flags | 'help' {
  const { help, json, master, queue, input, enqueue, bootstrap, ...own } = parse(argv, defaults)
  if (help === true) return 'help'
  const onlyEnqueue = own['enqueue-only'] === true
  const text = (value: unknown, fallback: string): string =>
    typeof value === 'string' && value !== '' ? value : fallback
  return {
    json: json === true,
    queueUrl: redisUrl(
      'BULLMQ_REDLOCK_QUEUE',
      text(env['BULLMQ_REDLOCK_QUEUE'], 'redis://127.0.0.1:6379'),
    ),
    masters: masterUrls(master, env['BULLMQ_REDLOCK_MASTERS']),
    databaseUrl: env['DATABASE_URL'] === '' ? undefined : env['DATABASE_URL'],
    queue: text(queue, defaults.queue),
    input: text(input, REAL_STRIKES),
    enqueue: enqueue === true || onlyEnqueue,
    work: !onlyEnqueue,
    bootstrap: bootstrap === true,
    untilDrained: own['until-drained'] === true,
    concurrency: wholeNumber(own['concurrency'], { flag: '--concurrency', fallback: 4, min: 1 }),
    ...leaseLengths(own['lease-ms'], own['max-lease-ms'] ?? env['BULLMQ_REDLOCK_MAX_LEASE_MS']),
    own,
  }
}

function leaseLengths(lease: unknown, maxLease: unknown): Pick<Flags, 'leaseMs' | 'maxLeaseMs'> {
  const maxLeaseMs = wholeNumber(maxLease, { flag: '--max-lease-ms', fallback: 30_000, min: 100 })
  const fallback = Math.min(10_000, maxLeaseMs)
  const leaseMs = wholeNumber(lease, { flag: '--lease-ms', fallback, min: 100 })
  if (leaseMs <= maxLeaseMs) return { leaseMs, maxLeaseMs }
  throw new UsageError(`--lease-ms ${leaseMs} is longer than --max-lease-ms ${maxLeaseMs} allows`)
}

export interface NumberFlag {
  readonly flag: string
  readonly fallback: number
  readonly min: number
}

export function wholeNumber(value: unknown, { flag, fallback, min }: NumberFlag): number {
  if (value === undefined) return fallback
  const number = Number(value)
  if (typeof value === 'string' && value !== '' && Number.isSafeInteger(number) && number >= min) {
    return number
  }
  throw new UsageError(
    `Expected ${flag} to be a whole number, at least ${min}; got "${shown(value)}"`,
  )
}

function parse(argv: readonly string[], { options = {} }: FlagDefaults): Values {
  try {
    return parseArgs({ args: [...argv], options: { ...OPTIONS, ...options } }).values
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}. Try --help`)
  }
}

function masterUrls(flag: unknown, fromEnvironment: string | undefined): readonly string[] {
  const urls = Array.isArray(flag) ? flag.map(String) : (fromEnvironment ?? '').split(',')
  const given = urls.map((url) => url.trim()).filter((url) => url !== '')
  if (given.length === 0) {
    throw new UsageError(
      'Expected the lock masters: --master redis://lock-1:6379 for each of them, ' +
        'or BULLMQ_REDLOCK_MASTERS=redis://lock-1:6379,redis://lock-2:6379,…',
    )
  }
  return given.map((url) => redisUrl('--master', url))
}

function redisUrl(flag: string, url: string): string {
  if (/^rediss?:\/\//.test(url) && URL.canParse(url)) return url
  throw new UsageError(`Expected ${flag} to be a redis:// or rediss:// URL, got "${url}"`)
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
