/** How many jobs of each queue wait, run and end, as BullMQ's own keys say. */
import { added } from '../../added.ts'
import { messageOf } from '../../message-of.ts'
import { luaText, defineScript } from '../../lua.ts'
import { ASLEEP } from '../../line/line-runner.ts'
import type { Places, QueuePlace } from './places.ts'
import { systemClock } from '../../clock.ts'

export interface QueueCounts {
  readonly queue: string
  /** Jobs that a free worker would start, and jobs that sleep in a line. */
  readonly waiting: number
  /** Jobs with a delay or a backoff. */
  readonly delayed: number
  readonly active: number
  /** As far as they are kept. */
  readonly failed: number
  /** As far as they are kept. */
  readonly done: number
  /** Why there may be more: what a node that is away said. */
  readonly missing?: string
}

const countsScript = defineScript('counts', luaText('tools/operator/lua/counts'))
const NONE = { waiting: 0, delayed: 0, active: 0, failed: 0, done: 0 }
const KEYS = ['wait', 'paused', 'prioritized', 'delayed', 'active', 'failed', 'completed'] as const

/** @throws Error where the server does not answer at all. */
export async function countJobs(places: Places): Promise<readonly QueueCounts[]> {
  const names = await places.shownNames()
  const rows = (await Promise.all(names.map((queue) => countsOf(places, queue)))).flat()
  const [first] = rows
  const isAway = places.missingNames === undefined && rows.every(({ missing }) => missing)
  if (first?.missing !== undefined && isAway) throw new Error(first.missing)
  return summed(rows)
}

/** Of each shard. */
async function countsOf(places: Places, queue: string): Promise<readonly QueueCounts[]> {
  const missing = (error: unknown): QueueCounts => {
    return { queue, ...NONE, missing: messageOf(error) }
  }
  const count = async ({ base }: QueuePlace): Promise<QueueCounts> => {
    const keys = KEYS.map((key) => base + key)
    const reply = await places.server.run(countsScript, keys, [ASLEEP])
    const [waiting, delayed, active, failed, done] = reply as Five
    return { queue, waiting, delayed, active, failed, done }
  }
  return places.of(queue).then(
    (shards) => Promise.all(shards.map((place) => count(place).catch(missing))),
    (error: unknown) => [missing(error)],
  )
}

type Five = [number, number, number, number, number]

/** One row for each queue: the numbers of its shards are added. */
function summed<Row extends { readonly queue: string }>(rows: readonly Row[]): readonly Row[] {
  const queues = [...new Set(rows.map(({ queue }) => queue))]
  return queues.map((queue) => added(rows.filter((row) => row.queue === queue)))
}

/** Jobs of one queue that ended, a second. */
export interface FinishedRates {
  readonly queue: string
  readonly completed: number
  readonly failed: number
}

const finishedScript = defineScript('finished', luaText('tools/operator/lua/finished'))

/** A rate is that of so much time. */
const WINDOW_MS = 10_000
/** A stream that was not looked at for longer is counted from now on. */
const GAP_MS = 15_000
/** Events that one script call looks at. */
const PAGE = 250
/** Of one look: more than BullMQ keeps, which is about 10,000 events. */
const MAX_PAGES = 60

/** What a stream of events told, until a look at it. */
interface Look extends Omit<FinishedRates, 'queue'> {
  readonly at: number
  /** How many were ever added, as a text: '' where the server does not say. */
  readonly entries: string
  readonly lastId: string
}

type Events = Omit<Look, 'at'> & { readonly seen: number }

/**
 * How many jobs complete and fail a second. BullMQ tells every end in the stream of its queue's
 * events, so jobs of every worker count, also those that are removed at once. The stream is cut:
 * where events were gone before they were counted, the others stand for them.
 */
export class FinishedCounter {
  readonly #places: Places
  /** Of each stream, oldest first. */
  readonly #looks = new Map<string, readonly Look[]>()

  constructor(places: Places) {
    this.#places = places
  }

  /** Empty at the first look. */
  async look(): Promise<readonly FinishedRates[]> {
    const rates = await this.#places.eachPlace((place) => this.#lookAt(place))
    return summed(rates.flatMap((rate) => rate ?? []))
  }

  async #lookAt({ name: queue, base }: QueuePlace): Promise<FinishedRates | undefined> {
    const known = this.#looks.get(base) ?? []
    const isNew = systemClock.now() - (known.at(-1)?.at ?? -Infinity) > GAP_MS
    const kept = isNew ? [] : known
    const before = kept.at(-1)
    const found = await this.#since(base, before?.lastId ?? '')
    const { seen, entries, lastId } = found
    const isCut = before !== undefined && seen > 0 && entries !== ''
    const factor = isCut ? Math.max(1, (Number(entries) - Number(before.entries)) / seen) : 1
    const completed = (before?.completed ?? 0) + found.completed * factor
    const failed = (before?.failed ?? 0) + found.failed * factor
    const at = systemClock.now()
    // One that is older than the window stays: the rate is that from it on.
    const old = kept.findLastIndex((one) => at - one.at >= WINDOW_MS)
    const last = { at, entries, lastId, completed, failed }
    const looks = [...kept.slice(Math.max(0, old)), last]
    this.#looks.set(base, looks)
    const [first] = looks
    if (before === undefined || first === undefined) return undefined
    const rate = (name: 'completed' | 'failed'): number =>
      (1_000 * (last[name] - first[name])) / (at - first.at)
    return { queue, completed: rate('completed'), failed: rate('failed') }
  }

  /** All pages after an event; none for ''. */
  async #since(base: string, after: string): Promise<Events> {
    let page = await this.#page(base, after)
    const pages = [page]
    for (; page.seen === PAGE; pages.push(page)) {
      page = await this.#page(base, pages.length < MAX_PAGES ? page.lastId : '')
    }
    return added(pages)
  }

  async #page(base: string, after: string): Promise<Events> {
    const reply = await this.#places.server.run(finishedScript, [`${base}events`], [after, PAGE])
    const [entries, lastId, seen, completed, failed] = reply as EventsReply
    return { entries: String(entries), lastId, seen, completed, failed }
  }
}

type EventsReply = readonly [entries: number | '', string, seen: number, number, number]
