/** How many jobs of each queue wait, run, failed and are done, as BullMQ's own keys say. */
import { getOrInsert } from '../../get-or-insert.ts'
import { luaText } from '../../lua.ts'
import { defineScript } from '../../lua.ts'
import { ASLEEP } from '../../line/asleep.ts'
import type { QueuePlace } from './places.ts'
import { MAX_QUEUES, type QueueView } from './queue-view.ts'

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
}

const countsScript = defineScript('counts', luaText('tools/operator/lua/counts'))

const KEYS = ['wait', 'prioritized', 'paused', 'delayed', 'active', 'failed', 'completed'] as const

export class QueueCounter {
  readonly #queue: Pick<QueueView, 'server' | 'places' | 'names'>

  constructor(queue: Pick<QueueView, 'server' | 'places' | 'names'>) {
    this.#queue = queue
  }

  async count(): Promise<readonly QueueCounts[]> {
    const { server, places } = this.#queue
    const names = (await this.#queue.names()).slice(0, MAX_QUEUES)
    // Keys of one prefix are on one node of a cluster, where it is in braces.
    const byPrefix = new Map<string, QueuePlace[]>()
    for (const place of await places.ofAll(names)) {
      getOrInsert(byPrefix, place.prefix, () => []).push(place)
    }
    const counts = new Map(names.map((name) => [name, [0, 0, 0, 0, 0]]))
    await Promise.all(
      [...byPrefix.values()].map(async (own) => {
        const keys = own.flatMap(({ base }) => KEYS.map((key) => base + key))
        const reply = (await server.run(countsScript, keys, [ASLEEP])) as readonly number[]
        for (const [index, jobs] of reply.entries()) {
          const sums = counts.get(own[Math.floor(index / 5)]?.queue ?? '')
          if (sums !== undefined) sums[index % 5] = (sums[index % 5] ?? 0) + jobs
        }
      }),
    )
    return [...counts].map(
      ([queue, [waiting = 0, delayed = 0, active = 0, failed = 0, done = 0]]) => {
        return { queue, waiting, delayed, active, failed, done }
      },
    )
  }
}
