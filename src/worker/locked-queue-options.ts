/** The options of a `LockedQueue`: BullMQ's, and how its jobs stand in their lines. */
import type { QueueOptions } from 'bullmq'
import type { LineSettings } from '../line/line-settings.ts'
import type { JobRate } from '../line/limits.ts'
import { checkResourceOption } from '../line/placement.ts'
import { choiceOption, integerOption, objectOption, refuse } from '../options.ts'
import { MAX_SLOTS, type Slots } from '../slots.ts'
import { bullmqOptions } from './bullmq-options.ts'

/** BullMQ's queue options, and the lines of its jobs. */
/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface LockedQueueOptions<Data = any> extends QueueOptions {
  /** Names what a job touches from its data; the same as the `resource` of the workers. */
  readonly resource: (data: Data) => string | readonly string[]
  /**
   * How many jobs of a resource run at once: the `slots` of the workers, or a function of the data.
   * It returns a number, or a map by the names of the job's resources. With a function the workers
   * need no `slots`: a job keeps what it was added with, and the first job of a line says how many
   * run. A job of several resources takes one slot of each. @defaultValue 1
   */
  readonly slots?: number | ((data: Data) => Slots)
  /**
   * The order of the jobs of one resource. `added`: that of adding, whatever their priority.
   * `priority`: as BullMQ orders waiting jobs, by `priority` and `lifo`. A job that was started
   * keeps its place in either. @defaultValue 'added'
   */
  readonly within?: 'added' | 'priority'
  /**
   * How many unfinished jobs a line has at most: running, waiting and asleep ones, and those that
   * will be tried again. Jobs with a delay, and jobs of flows, are counted and not refused.
   * @defaultValue any number
   */
  readonly maxLength?: number
  /**
   * What happens to an add to a full line. `refuse`: it throws a LineFullError. `drop-oldest`,
   * `drop-newest`: the oldest or the newest sleeping job of the line is removed for it. Where none
   * sleeps, it is refused. @defaultValue 'refuse'
   */
  readonly whenFull?: 'refuse' | 'drop-oldest' | 'drop-newest'
  /**
   * The `maxWaitMs` of the workers: a job that waits behind others for this long is looked at
   * within about a second, and fails then. A job whose turn comes before that look runs.
   * @defaultValue no limit
   */
  readonly maxWaitMs?: number
  /**
   * How many jobs of a resource may start in a time, and what this one counts: for a third party
   * that allows 100 calls a second, `() => ({ limit: 100, perMs: 1_000, burst: 10 })`. A job keeps
   * the rate that it was added with. @defaultValue no rate
   */
  readonly rate?: (data: Data) => JobRate | undefined
  /**
   * Whose job it is. Tenants take turns, and the lines of one tenant take turns among themselves.
   * So a tenant with many resources gets no more work done than one with few, while all are busy. A
   * job keeps the tenant that it was added with. @defaultValue each resource is a tenant
   */
  readonly tenant?: (data: Data) => string
  /**
   * The share of a job's tenant while all are busy: with 2, it gets twice the work done of one with
   * 1. From 0.01 to 1,000. Without `tenant` it is the share of the resource. @defaultValue 1
   */
  readonly weight?: (data: Data) => number
}

const DROPS = { refuse: undefined, 'drop-oldest': 'oldest', 'drop-newest': 'newest' } as const

/** False: BullMQ's. */
const KNOWN: Readonly<Record<keyof LockedQueueOptions | keyof QueueOptions, boolean>> = {
  ...{ resource: true, slots: true, within: true, maxWaitMs: true, rate: true, tenant: true },
  ...{ weight: true, maxLength: true, whenFull: true },
  ...{ connection: false, prefix: false, defaultJobOptions: false, streams: false },
  ...{ telemetry: false, blockingConnection: false, skipMetasUpdate: false, settings: false },
  ...{ skipVersionCheck: false, skipWaitingForReady: false },
}

/** The options, checked: how the queue keeps its lines; and of them BullMQ's. */
export function queueOptions<Data>(options: LockedQueueOptions<Data>): {
  readonly lines: LineSettings
  readonly bullmq: QueueOptions
} {
  objectOption(options, 'an object with `connection` and `resource`')
  if ('redlock' in options) refuse('redlock', 'absent: a LockedQueue takes no locks', true)
  const bullmq: QueueOptions = bullmqOptions(options, KNOWN)
  const { slots = 1, within = 'added' } = options
  const { maxWaitMs, rate, tenant, weight, maxLength, whenFull = 'refuse' } = options
  const base = typeof slots === 'function' ? 1 : integerOption('slots', slots, 1, MAX_SLOTS)
  choiceOption('within', within, ['added', 'priority'])
  for (const [option, value] of Object.entries({ maxWaitMs, maxLength })) {
    if (value !== undefined) integerOption(option, value, 1, Number.MAX_SAFE_INTEGER)
  }
  choiceOption('whenFull', whenFull, Object.keys(DROPS))
  if (whenFull !== 'refuse' && maxLength === undefined) {
    refuse('maxLength', 'a number, because `whenFull` is set', maxLength)
  }
  // The first of a line is then the most urgent one, and not the oldest.
  if (whenFull !== 'refuse' && within === 'priority') {
    refuse('whenFull', "'refuse' with `within: 'priority'`", whenFull)
  }
  checkResourceOption(options.resource)
  for (const [option, value] of Object.entries({ rate, tenant, weight })) {
    if (value === undefined || typeof value === 'function') continue
    const example =
      option === 'rate' ? '() => ({ limit: 10, perMs: 1_000 })' : '({ customer }) => customer'
    refuse(option, `a function of the data, such as ${example}`, value)
  }
  return {
    lines: { slots: base, within, maxWaitMs, maxLength, drops: DROPS[whenFull] },
    bullmq,
  }
}
