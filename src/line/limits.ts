/**
 * What an operator or a program sets for one resource while jobs run: a pause, a number of slots, a
 * rate. It is kept in the queue's Redis, so every process goes by it at once, and it survives
 * restarts and deploys.
 */
import { hostname } from 'node:os'
import { systemClock } from '../clock.ts'
import { touchedName } from '../names.ts'
import { MAX_SLOTS } from '../slots.ts'
import { integerOption, knownOptions, numberOption, objectOption, refuse } from '../options.ts'
import type { Arguments, LineRunner } from './line-runner.ts'

/** What `pauseResource`, `setSlots` and `setRate` take beside the limit itself. */
export interface LimitOptions {
  /** When it ends by itself. @defaultValue no end */
  readonly until?: Date | number
  /** Shown to people who ask why a job waits. */
  readonly reason?: string
  /** Who sets it. @defaultValue `hostname:pid` */
  readonly by?: string
}

/**
 * How many jobs of a resource may start: `limit` in `perMs` in the long run. It is counted with
 * [GCRA](https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm).
 */
export interface Rate {
  /** How many jobs may start. */
  readonly limit: number
  /** In which time. */
  readonly perMs: number
  /**
   * How many may start at once after a pause. In any time of `t` ms, at most `burst + t × limit /
   * perMs` start. @defaultValue 1
   */
  readonly burst?: number
}

/** The rate of a job's resource, and what this job counts. */
export interface JobRate extends Rate {
  /**
   * How many starts of the rate this job uses.
   * @defaultValue 1
   */
  readonly cost?: number
}

/** Something that was set. */
export interface LimitSetting {
  /** When it was set. */
  readonly since: Date
  /** When it ends by itself; undefined where it has no end. */
  readonly until?: Date
  /** Why it was set. */
  readonly reason?: string
  /** Who set it. */
  readonly by?: string
}

/** What is in force for one resource. Empty where nothing is set. */
export interface ResourceLimits {
  /** None of its jobs starts. */
  readonly paused?: LimitSetting
  /** None of its jobs starts after a `lease.rateLimit()`. */
  readonly asleepUntil?: Date
  /** How many of its jobs run at once. */
  readonly slots?: LimitSetting & { readonly slots: number }
  /** How many of its jobs may start in a time. */
  readonly rate?: LimitSetting & Required<Rate>
}

interface Limits {
  readonly paused: true
  readonly slots: number
  readonly rate: Rate
}
type LimitKind = keyof Limits | 'asleep'

const OPTIONS = { until: true, reason: true, by: true } as const
const RATE = { limit: true, perMs: true, burst: true, cost: true } as const
const MAX_TEXT_LENGTH = 500
/** Resources whose limits are read in one call, about. */
const AT_ONCE = 1_000
/** The last moment that a `Date` can name. */
const LAST_DATE = 8.64e15

/** @throws TypeError for a bad rate. */
export function checkedRate(rate: JobRate, name: string): Required<JobRate> {
  objectOption(rate, 'an object with `limit` and `perMs`', name)
  knownOptions({ ...rate }, RATE)
  const { limit, perMs, burst = 1, cost = 1 } = rate
  const most = Number.MAX_SAFE_INTEGER
  numberOption(`${name}.limit`, limit, Number.MIN_VALUE, most)
  numberOption(`${name}.perMs`, perMs, 1, most)
  numberOption(`${name}.burst`, burst, 1, most)
  numberOption(`${name}.cost`, cost, Number.MIN_VALUE, most)
  return { limit, perMs, burst, cost }
}

/** The limits of resources, in the queue's Redis. */
export class LineLimits {
  readonly #runner: LineRunner

  constructor(runner: LineRunner) {
    this.#runner = runner
  }

  /** @throws TypeError for a bad limit or option, and for what names no resource. */
  async set<Kind extends keyof Limits>(
    resource: string,
    kind: Kind,
    limit: Limits[Kind],
    options: LimitOptions,
  ): Promise<void> {
    let own: object = {}
    if (kind === 'slots') own = { slots: integerOption('slots', limit, 1, MAX_SLOTS) }
    if (kind === 'rate') {
      const { cost, ...rate } = checkedRate(limit as JobRate, 'rate')
      if ('cost' in (limit as JobRate)) {
        refuse('rate.cost', 'absent: the job says its cost', cost)
      }
      own = rate
    }
    objectOption(options, 'an object, such as { reason: "migration" }')
    knownOptions({ ...options }, OPTIONS)
    const { until, reason, by = `${hostname()}:${process.pid}` } = options
    for (const [name, text] of Object.entries({ reason, by })) {
      if (text !== undefined && (typeof text !== 'string' || text.length > MAX_TEXT_LENGTH)) {
        refuse(name, `a string of at most ${MAX_TEXT_LENGTH} characters`, text)
      }
    }
    // As BullMQ reads the time of `moveToDelayed`: the caller has it from this clock.
    const forMs = until === undefined ? undefined : Number(until) - systemClock.wallNow()
    if (forMs !== undefined && !(forMs > 0 && Number(until) <= LAST_DATE)) {
      const expected = 'a time in the future: a Date, or milliseconds since 1970; absent for no end'
      refuse('until', expected, Number(until))
    }
    // The queue's Redis adds when, by its own clock.
    await this.#change(named(resource), [kind], { entry: { reason, by, ...own }, forMs })
  }

  async end(resource: string, ...kinds: readonly LimitKind[]): Promise<void> {
    // rule: limits-change-in-the-order-of-calls
    await this.#change(named(resource), kinds)
  }

  /** @returns for how long the resource sleeps: longer than asked for where it slept already. */
  async sleep(resource: string, forMs: number): Promise<number> {
    return Number(await this.#change(resource, ['asleep'], { entry: {}, forMs }))
  }

  /** What is set for a resource, or for all of which something is set. */
  async get(resource?: string): Promise<ReadonlyMap<string, ResourceLimits>> {
    const all = new Map<string, ResourceLimits>()
    let cursor = '0'
    do {
      const page = { resource, cursor, most: AT_ONCE }
      const reply = await this.#runner.run('line/lua/read-limits', page)
      const [next, found] = reply as readonly [string, readonly string[]]
      for (let index = 0; index + 1 < found.length; index += 2) {
        const limits = limitsFrom(found[index + 1] ?? '{}')
        if (Object.keys(limits).length > 0) all.set(found[index] ?? '', limits)
      }
      cursor = next
    } while (cursor !== '0')
    return all
  }

  /** Ends the limits where there is no `limit`. @returns for how long (ms), or '' for no end. */
  #change(resource: string, kinds: readonly LimitKind[], limit?: Arguments): Promise<unknown> {
    return this.#runner.run('line/lua/change-limit', { resource, kinds, ...limit })
  }
}

function named(resource: string): string {
  if (!touchedName(resource).endsWith('*')) return resource
  return refuse('resource', 'the name of one resource, not a pattern', resource)
}

type Stored = Record<string, unknown> & { readonly since: number; readonly until?: number }

/** @param text what is in force for a resource, as the queue's Redis says. */
export function limitsFrom(text: string): ResourceLimits {
  const all = JSON.parse(text) as Partial<Record<LimitKind, Stored>>
  const found: Record<string, unknown> = {}
  for (const [kind, { since, until, ...rest }] of Object.entries(all)) {
    const end = until === undefined ? {} : { until: new Date(Math.min(until, LAST_DATE)) }
    if (kind === 'asleep') found['asleepUntil'] = end.until
    else found[kind] = { since: new Date(since), ...end, ...rest }
  }
  return found
}
