/** What is set for a resource while jobs run: `pause`, `resume`, `limit`, `limits`. */
import { hostname, userInfo } from 'node:os'
import type { Command } from 'commander'
import { counted } from '../../../counted.ts'
import { systemClock } from '../../../clock.ts'
import type { QueueView } from '../../operator/queue-view.ts'
import type { LimitOptions, LimitSetting, ResourceLimits } from '../../../line/limits.ts'
import { running, type Cli, type SharedFlags } from '../cli.ts'
import { EXIT, UsageError, type ExitCode } from '../exit-code.ts'
import { command } from '../options.ts'
import { printable } from '../printable.ts'
import { numberFlag } from '../settings.ts'
import { table } from '../table.ts'

/** 31 years, as milliseconds. */
const MOST = 1e12

interface LimitsFlags extends SharedFlags {
  readonly forMs?: string
  readonly reason?: string
}

interface LimitFlags extends LimitsFlags {
  readonly slots?: string
  readonly rate?: string
  readonly burst?: string
  readonly reset?: string
}

export function pauseCommand(): Command {
  const made = command('pause <queue> <resource>', {
    summary: 'start no job of a resource',
    description:
      'Starts no job of a resource in a queue until you resume it; running jobs finish. The resource need not have jobs. ' +
      'Jobs of other resources and queues are not affected.',
    servers: 'queue',
    examples: [
      'pause invoices customer:42 --reason migration',
      'pause invoices customer:42 --for-ms 3600000',
    ],
  })
  return limitOptions(made).action(running(pause))
}

export function resumeCommand(): Command {
  return command('resume <queue> <resource>', {
    summary: 'end a pause',
    description: 'Ends a pause, or the rest that a job set with lease.rateLimit.',
    servers: 'queue',
    examples: ['resume invoices customer:42'],
  }).action(running(resume))
}

export function limitCommand(): Command {
  const made = command('limit <queue> <resource>', {
    summary: 'set how many jobs of a resource run, or start in a time',
    description:
      'Sets the slots or the rate of a resource at once for all workers, in place of their options; ' +
      'or resets them to the options. Without one of these flags it shows the limits.',
    servers: 'queue',
    examples: [
      'limit invoices customer:42 --slots 8 --for-ms 3600000',
      'limit invoices api:eu --rate 100/1000 --burst 10',
      'limit invoices api:eu --reset rate',
    ],
  })
    .option('--slots <n>', 'how many jobs of it run at once')
    .option('--rate <limit/ms>', 'how many of its jobs may start in how many milliseconds')
    .option('--burst <n>', 'how many of them may start at once; default: 1')
    .option('--reset <slots|rate>', 'return to the options')
  return limitOptions(made).action(running(limit))
}

export function limitsCommand(): Command {
  return command('limits <queue>', {
    summary: 'every resource of a queue that is paused or limited',
    description:
      'Lists every resource of a queue that is paused or asleep, or whose slots or rate are set.',
    servers: 'queue',
    examples: ['limits invoices', 'limits invoices --json'],
  }).action(running(limits))
}

function limitOptions(made: Command): Command {
  return made
    .option('--for-ms <n>', 'ends by itself after this time')
    .option('--reason <text>', 'shown by why, limits and the dashboard')
}

function said({ forMs, reason }: LimitsFlags): LimitOptions {
  const ms = forMs === undefined ? undefined : positive('--for-ms', forMs)
  return {
    by: `${userInfo().username}@${hostname()}`,
    ...(ms !== undefined && { until: systemClock.wallNow() + ms }),
    ...(reason !== undefined && { reason }),
  }
}

function positive(flag: string, value: string): number {
  return numberFlag(flag, value, 1, MOST)
}

function pause(cli: Cli, queue: string, resource: string, flags: LimitsFlags): Promise<ExitCode> {
  return change(cli, queue, resource, (limits) => limits.pause(resource, said(flags)))
}

function resume(cli: Cli, queue: string, resource: string): Promise<ExitCode> {
  return change(cli, queue, resource, (limits) => limits.resume(resource))
}

type Change = Parameters<QueueView['changeLimits']>[2]

async function change(cli: Cli, queue: string, resource: string, made: Change): Promise<ExitCode> {
  const view = await cli.requiredQueue(queue)
  await view.changeLimits(queue, resource, made)
  const set = (await view.limits(queue, resource)).get(resource) ?? {}
  cli.out.result({ queue, resource, ...set }, () => printable(`${resource}: ${describe(set)}`))
  return EXIT.done
}

async function limit(
  cli: Cli,
  queue: string,
  resource: string,
  flags: LimitFlags,
): Promise<ExitCode> {
  const { slots, rate, burst, reset } = flags
  if (reset !== undefined && reset !== 'slots' && reset !== 'rate') {
    throw new UsageError('--reset takes slots or rate')
  }
  if (burst !== undefined && rate === undefined) throw new UsageError('--burst needs --rate')
  const isSet = slots !== undefined || rate !== undefined
  if (!isSet && (flags.forMs ?? flags.reason) !== undefined) {
    throw new UsageError('--for-ms and --reason need --slots or --rate')
  }
  const count = slots === undefined ? undefined : positive('--slots', slots)
  const [, most, perMs] = /^(\d+)\/(\d+)$/.exec(rate ?? '1/1') ?? []
  if (most === undefined) throw new UsageError('--rate takes a limit and milliseconds: 100/1000')
  const checked = {
    limit: positive('--rate', most),
    perMs: positive('--rate', perMs ?? ''),
    ...(burst !== undefined && { burst: positive('--burst', burst) }),
  }
  return change(cli, queue, resource, async (limits) => {
    if (reset === 'slots') await limits.resetSlots(resource)
    if (reset === 'rate') await limits.resetRate(resource)
    if (count !== undefined) await limits.setSlots(resource, count, said(flags))
    if (rate !== undefined) await limits.setRate(resource, checked, said(flags))
  })
}

async function limits(cli: Cli, queue: string): Promise<ExitCode> {
  const view = await cli.requiredQueue(queue)
  const all = [...(await view.limits(queue))].sort(([a], [b]) => (a < b ? -1 : 1))
  const result = all.map(([resource, set]) => ({ resource, ...set }))
  cli.out.result({ limits: result }, () => {
    if (all.length === 0) return 'no resource is paused or limited'
    const rows = all.map(([resource, set]) => [printable(resource), printable(describe(set))])
    return table(['RESOURCE', 'SET'], rows)
  })
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
