/** What is set for a resource while jobs run: `pause`, `resume`, `limit`, `limits`. */
import { hostname, userInfo } from 'node:os'
import { Option } from 'commander'
import { counted } from '../../../counted.ts'
import { systemClock } from '../../../clock.ts'
import type {
  LimitOptions,
  LimitSetting,
  LineLimits,
  ResourceLimits,
} from '../../../line/limits.ts'
import type { Cli } from '../cli.ts'
import { numberOption, type CommandSpec } from '../command.ts'
import { EXIT, UsageError, type ExitCode } from '../exit-code.ts'
import { MAX_SLOTS } from '../../../slots.ts'
import { printable } from '../../operator/words.ts'
import { wholeNumber } from '../settings.ts'
import { table } from '../output.ts'

/** At most 31 years, as milliseconds. */
const POSITIVE = [1, 1e12] as const

interface SaidFlags {
  readonly forMs?: number
  readonly reason?: string
}

interface LimitFlags extends SaidFlags {
  readonly slots?: number
  readonly rate?: string
  readonly burst?: number
  readonly reset?: 'slots' | 'rate'
}

const SAID = [
  numberOption('--for-ms <n>', 'ends by itself after this time', POSITIVE),
  new Option('--reason <text>', 'shown by why, limits and the dashboard'),
]

export const pause: CommandSpec = {
  usage: 'pause <queue> <resource>',
  summary: 'start no job of a resource',
  description:
    'Starts no job of a resource in a queue until you resume it; running jobs finish. The resource need not have jobs. ' +
    'Jobs of other resources and queues are not affected.',
  examples: [
    'pause invoices customer:42 --reason migration',
    'pause invoices customer:42 --for-ms 3600000',
  ],
  options: SAID,
  run: (cli, queue: string, resource: string, flags: SaidFlags) =>
    change(cli, queue, resource, (limits) => limits.set(resource, 'paused', true, said(flags))),
}

export const resume: CommandSpec = {
  usage: 'resume <queue> <resource>',
  summary: 'end a pause',
  description: 'Ends a pause, or the rest that a job set with lease.rateLimit.',
  examples: ['resume invoices customer:42'],
  run: (cli, queue: string, resource: string) =>
    change(cli, queue, resource, (limits) => limits.end(resource, 'asleep', 'paused')),
}

export const limit: CommandSpec = {
  usage: 'limit <queue> <resource>',
  summary: 'set how many jobs of a resource run, or start in a time',
  description:
    'Sets the slots or the rate of a resource at once for all workers, in place of their options; ' +
    'or resets them to the options. Without one of these flags it shows the limits.',
  examples: [
    'limit invoices customer:42 --slots 8 --for-ms 3600000',
    'limit invoices api:eu --rate 100/1000 --burst 10',
    'limit invoices api:eu --reset rate',
  ],
  options: [
    numberOption('--slots <n>', 'how many jobs of it run at once', [1, MAX_SLOTS]),
    new Option('--rate <limit/ms>', 'how many of its jobs may start in how many milliseconds'),
    numberOption('--burst <n>', 'how many of them may start at once; default: 1', POSITIVE),
    new Option('--reset <slots|rate>', 'return to the options').choices(['slots', 'rate']),
    ...SAID,
  ],
  run(cli, queue: string, resource: string, flags: LimitFlags) {
    const { slots, rate: given, burst, reset } = flags
    if (burst !== undefined && given === undefined) throw new UsageError('--burst needs --rate')
    const isSet = slots !== undefined || given !== undefined
    if (!isSet && (flags.forMs ?? flags.reason) !== undefined) {
      throw new UsageError('--for-ms and --reason need --slots or --rate')
    }
    if (reset !== undefined && (reset === 'slots' ? slots : given) !== undefined) {
      throw new UsageError(`--reset ${reset} and --${reset} exclude each other`)
    }
    const rate = given === undefined ? undefined : { ...rateIn(given), ...(burst && { burst }) }
    return change(cli, queue, resource, async (limits) => {
      if (slots !== undefined) await limits.set(resource, 'slots', slots, said(flags))
      if (rate !== undefined) await limits.set(resource, 'rate', rate, said(flags))
      // Last: where a value above is refused, nothing has changed.
      if (reset !== undefined) await limits.end(resource, reset)
    })
  },
}

export const limits: CommandSpec = {
  usage: 'limits <queue>',
  summary: 'every resource of a queue that is paused or limited',
  description:
    'Lists every resource of a queue that is paused or asleep, or whose slots or rate are set.',
  examples: ['limits invoices', 'limits invoices --json'],
  async run(cli, queue: string) {
    const view = await cli.requiredQueue(queue)
    const all = [...(await view.limits(queue))].sort(([a], [b]) => (a < b ? -1 : 1))
    const result = all.map(([resource, set]) => ({ resource, ...set }))
    cli.out.result({ limits: result }, () => {
      if (all.length === 0) return 'no resource is paused or limited'
      const rows = all.map(([resource, set]) => [printable(resource), printable(describe(set))])
      return table(['RESOURCE', 'SET'], rows)
    })
    return EXIT.done
  },
}

function said({ forMs, reason }: SaidFlags): LimitOptions {
  return {
    by: `${userInfo().username}@${hostname()}`,
    ...(forMs !== undefined && { until: systemClock.wallNow() + forMs }),
    ...(reason !== undefined && { reason }),
  }
}

/** @throws UsageError. */
function rateIn(text: string): { readonly limit: number; readonly perMs: number } {
  const [, most, perMs] = /^(\d+)\/(\d+)$/.exec(text) ?? []
  if (most === undefined || perMs === undefined) {
    throw new UsageError('--rate takes a limit and milliseconds: 100/1000')
  }
  const number = (value: string): number => wholeNumber({ value, source: '--rate' }, ...POSITIVE)
  return { limit: number(most), perMs: number(perMs) }
}

async function change(
  cli: Cli,
  queue: string,
  resource: string,
  made: (limits: LineLimits) => Promise<void>,
): Promise<ExitCode> {
  const limits = await (await cli.requiredQueue(queue)).limitsOf(queue, resource)
  await made(limits)
  const set = (await limits.get(resource)).get(resource) ?? {}
  cli.out.result({ queue, resource, ...set }, () => printable(`${resource}: ${describe(set)}`))
  return EXIT.done
}

/** In one line. */
function describe({ paused, asleepUntil, slots, rate }: ResourceLimits): string {
  const parts = [
    paused && `paused${origin(paused)}`,
    asleepUntil && `asleep until ${asleepUntil.toISOString()}`,
    slots && `${counted(slots.slots, 'slot')}${origin(slots)}`,
    rate &&
      `${counted(rate.limit, 'start')} in ${rate.perMs} ms, burst ${rate.burst}${origin(rate)}`,
  ].filter((part) => part !== undefined)
  return parts.length === 0 ? 'no limits are set' : parts.join('; ')
}

function origin({ by, since, until, reason }: LimitSetting): string {
  const end = until === undefined ? '' : ` until ${until.toISOString()}`
  const because = reason === undefined ? '' : `: ${reason}`
  return `${end} (by ${by ?? 'unknown'} at ${since.toISOString()}${because})`
}
