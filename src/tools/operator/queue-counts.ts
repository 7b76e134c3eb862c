/** How many jobs of each queue wait, run, failed and are done, as BullMQ's own keys say. */
import { luaText } from '../../lua.ts'
import { systemClock } from '../../clock.ts'
import { defineScript } from '../../redlock/wire/script.ts'
import { ASLEEP } from '../../line/asleep.ts'
import { globEscape } from './glob.ts'
import type { QueueView } from './queue-view.ts'

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

/** How often new queues are looked for. */
const FIND_EVERY_MS = 60_000
/** The most keys that are looked at to find them. */
const MAX_SCANNED = 100_000
const MAX_QUEUES = 50

const countsScript = defineScript('counts', luaText('tools/operator/lua/counts'))

const KEYS = ['wait', 'prioritized', 'paused', 'delayed', 'active', 'failed', 'completed'] as const

export class QueueCounter {
  readonly #queue: Pick<QueueView, 'server' | 'prefix'>
  #names: readonly string[] = []
  #foundAt = -Infinity

  constructor(queue: Pick<QueueView, 'server' | 'prefix'>) {
    this.#queue = queue
  }

  async count(): Promise<readonly QueueCounts[]> {
    if (systemClock.now() - this.#foundAt >= FIND_EVERY_MS) {
      this.#names = await this.#find()
      // A machine with no queue yet is asked again at once.
      if (this.#names.length > 0) this.#foundAt = systemClock.now()
    }
    const { server, prefix } = this.#queue
    const keys = this.#names.flatMap((name) => KEYS.map((key) => `${prefix}:${name}:${key}`))
    const reply = (await server.run(countsScript, keys, [ASLEEP])) as readonly number[]
    return this.#names.map((queue, index) => {
      const [waiting = 0, delayed = 0, active = 0, failed = 0, done = 0] = reply.slice(5 * index)
      return { queue, waiting, delayed, active, failed, done }
    })
  }

  /** Every queue has a key with its settings. */
  async #find(): Promise<readonly string[]> {
    const names = new Set<string>()
    const { server, prefix } = this.#queue
    const [before, after] = [`${prefix}:`, ':meta']
    for await (const page of server.scan(`${globEscape(prefix)}:*:meta`, MAX_SCANNED)) {
      for (const key of page) names.add(key.slice(before.length, -after.length))
    }
    return [...names].sort().slice(0, MAX_QUEUES)
  }
}
