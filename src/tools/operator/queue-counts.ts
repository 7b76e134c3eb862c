/** How many jobs of each queue wait, run, failed and are done, as BullMQ's own keys say. */
import { luaText } from '../../lua.ts'
import { defineScript } from '../../redlock/wire/script.ts'
import { ASLEEP } from '../../line/asleep.ts'
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
  readonly #queue: Pick<QueueView, 'server' | 'prefix' | 'names'>

  constructor(queue: Pick<QueueView, 'server' | 'prefix' | 'names'>) {
    this.#queue = queue
  }

  async count(): Promise<readonly QueueCounts[]> {
    const { server, prefix } = this.#queue
    const names = (await this.#queue.names()).slice(0, MAX_QUEUES)
    const keys = names.flatMap((name) => KEYS.map((key) => `${prefix}:${name}:${key}`))
    const reply = (await server.run(countsScript, keys, [ASLEEP])) as readonly number[]
    return names.map((queue, index) => {
      const [waiting = 0, delayed = 0, active = 0, failed = 0, done = 0] = reply.slice(5 * index)
      return { queue, waiting, delayed, active, failed, done }
    })
  }
}
