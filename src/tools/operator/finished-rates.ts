/**
 * How many jobs complete and fail a second. BullMQ tells every end in the stream of its queue's
 * events, so jobs of every worker count, also those that are removed at once. The stream is cut:
 * where events were gone before they were counted, the others stand for them.
 */
import { systemClock } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import { luaText } from '../../lua.ts'
import { defineScript } from '../../lua.ts'
import type { QueuePlace } from './places.ts'
import { MAX_QUEUES, type QueueView } from './queue-view.ts'

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

type FinishedReply = readonly [
  added: number | '',
  lastId: string,
  seen: number,
  completed: number,
  failed: number,
]

/** As the script returns them. */
interface Events {
  readonly added: number | ''
  readonly lastId: string
  readonly seen: number
  readonly completed: number
  readonly failed: number
}

interface Count {
  readonly at: number
  readonly completed: number
  readonly failed: number
}

interface Stream {
  added: number
  lastId: string
  /** All that ended until then, oldest first. */
  counts: readonly Count[]
}

export class FinishedCounter {
  readonly #queue: Pick<QueueView, 'server' | 'places' | 'names'>
  readonly #streams = new Map<string, Stream>()

  constructor(queue: Pick<QueueView, 'server' | 'places' | 'names'>) {
    this.#queue = queue
  }

  /** Empty at the first look. */
  async look(): Promise<readonly FinishedRates[]> {
    const names = (await this.#queue.names()).slice(0, MAX_QUEUES)
    const places = await this.#queue.places.ofAll(names)
    const rates = await Promise.all(places.map((place) => this.#lookAt(place)))
    const sums = new Map<string, FinishedRates>()
    for (const rate of rates.filter((each) => each !== undefined)) {
      const { completed, failed } = sums.get(rate.queue) ?? { completed: 0, failed: 0 }
      const { queue } = rate
      sums.set(queue, {
        queue,
        completed: completed + rate.completed,
        failed: failed + rate.failed,
      })
    }
    return [...sums.values()]
  }

  async #lookAt({ queue, base }: QueuePlace): Promise<FinishedRates | undefined> {
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
    const from = Math.max(
      0,
      kept.findLastIndex((one) => at - one.at >= WINDOW_MS),
    )
    Object.assign(stream, { added: Number(added), lastId, counts: [...kept.slice(from), count] })
    const [first] = stream.counts
    if (first === undefined || first === count) return undefined
    const seconds = (at - first.at) / 1_000
    return {
      queue,
      completed: (count.completed - first.completed) / seconds,
      failed: (count.failed - first.failed) / seconds,
    }
  }

  /** All pages after an event. */
  async #since(base: string, after: string): Promise<Events> {
    let all: Events = { added: '', lastId: after, seen: 0, completed: 0, failed: 0 }
    for (let pages = 0; pages < MAX_PAGES; pages++) {
      const page = await this.#page(base, all.lastId)
      all = {
        ...page,
        seen: all.seen + page.seen,
        completed: all.completed + page.completed,
        failed: all.failed + page.failed,
      }
      if (page.seen < PAGE) return all
    }
    const { lastId, added } = await this.#page(base, '')
    return { ...all, lastId, added }
  }

  async #page(base: string, after: string): Promise<Events> {
    const { server } = this.#queue
    const reply = await server.run(finishedScript, [`${base}events`], [after, PAGE])
    const [added, lastId, seen, completed, failed] = reply as FinishedReply
    return { added, lastId, seen, completed, failed }
  }
}
