/**
 * How many jobs complete and fail a second. BullMQ tells every end in the stream of its queue's
 * events, so jobs of every worker count, also those that are removed at once. The stream is cut:
 * where events were gone before they were counted, the others stand for them.
 */
import { systemClock } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import { luaText, defineScript } from '../../lua.ts'
import type { Places, QueuePlace } from './places.ts'
import { summed } from './queue-counts.ts'

/** Jobs of one queue that ended, a second. */
export interface FinishedRates extends Ended {
  readonly queue: string
}

interface Ended {
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

/** As the script returns them. */
interface Events extends Ended {
  readonly added: number | ''
  readonly lastId: string
  readonly seen: number
}

interface Stream {
  added: number
  lastId: string
  /** All that ended until then, oldest first. */
  counts: readonly (Ended & { readonly at: number })[]
}

export class FinishedCounter {
  readonly #places: Places
  readonly #streams = new Map<string, Stream>()

  constructor(places: Places) {
    this.#places = places
  }

  /** Empty at the first look. */
  async look(): Promise<readonly FinishedRates[]> {
    const rates = await this.#places.eachPlace((place) => this.#lookAt(place))
    return summed(rates.flatMap((rate) => rate ?? []))
  }

  async #lookAt({ queueName: queue, base }: QueuePlace): Promise<FinishedRates | undefined> {
    const stream = getOrInsert(this.#streams, base, () => ({ added: 0, lastId: '', counts: [] }))
    const before = stream.counts.at(-1)
    const isNew = before === undefined || systemClock.now() - before.at > GAP_MS
    const { seen, completed, failed, added, lastId } = isNew
      ? await this.#page(base, '')
      : await this.#since(base, stream.lastId)
    const at = systemClock.now()
    // A server before Redis 7 does not say how many events there were.
    const factor = seen === 0 || added === '' ? 1 : Math.max(1, (added - stream.added) / seen)
    const total = isNew ? { completed: 0, failed: 0 } : before
    const count = {
      at,
      completed: total.completed + completed * factor,
      failed: total.failed + failed * factor,
    }
    const kept = isNew ? [] : stream.counts
    // One that is older than the window stays: the rate is that from it on.
    const old = kept.findLastIndex((one) => at - one.at >= WINDOW_MS)
    const counts = [...kept.slice(Math.max(0, old)), count]
    Object.assign(stream, { added: Number(added), lastId, counts })
    const [first = count] = counts
    if (first === count) return undefined
    const rate = (now: number, then: number): number => (1_000 * (now - then)) / (at - first.at)
    return {
      queue,
      completed: rate(count.completed, first.completed),
      failed: rate(count.failed, first.failed),
    }
  }

  /** All pages after an event. */
  async #since(base: string, after: string): Promise<Events> {
    const sum = { seen: 0, completed: 0, failed: 0 }
    let lastId = after
    for (let pages = 0; pages < MAX_PAGES; pages++) {
      const page = await this.#page(base, lastId)
      lastId = page.lastId
      for (const name of ['seen', 'completed', 'failed'] as const) sum[name] += page[name]
      if (page.seen < PAGE) return { ...page, ...sum }
    }
    return { ...(await this.#page(base, '')), ...sum }
  }

  async #page(base: string, after: string): Promise<Events> {
    const reply = await this.#places.server.run(finishedScript, [`${base}events`], [after, PAGE])
    const [added, lastId, seen, completed, failed] = reply as [number | '', string, ...number[]]
    return { added, lastId, seen: seen ?? 0, completed: completed ?? 0, failed: failed ?? 0 }
  }
}
