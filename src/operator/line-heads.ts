/** The first jobs of a line. A line may be long, and whoever only looks must not fetch all that sleep in it. */
import type { Clock } from '../clock.ts'
import type { QueueConnection } from '../redis/queue-connection.ts'
import { Lines, type LineMember, type Queues } from '../worker/lines.ts'
import { decodeTicket } from '../worker/ticket.ts'
import { headsScript } from './look-scripts.ts'

export interface LineHeadsOptions {
  readonly namespace: string
  /** How many of each line at most. */
  readonly heads: number
}

export class LineHeads extends Lines {
  readonly #redis: QueueConnection
  readonly #options: LineHeadsOptions

  constructor(redis: QueueConnection, queues: Queues, options: LineHeadsOptions, clock: Clock) {
    super(redis, queues, { namespace: options.namespace, slots: 1 }, clock)
    this.#redis = redis
    this.#options = options
  }

  override async members(resource: string, limit: number): Promise<readonly LineMember[]> {
    const { namespace, heads } = this.#options
    const keys = [`${namespace}:{${resource}}:line`, `${namespace}:{${resource}}:parked`]
    const reply = await this.#redis.run(headsScript, keys, [Math.min(limit, heads)])
    const found = reply as readonly (string | number)[]
    const members: LineMember[] = []
    for (let index = 0; index < found.length; index += 3) {
      const [name, micros, asleep] = found.slice(index, index + 3)
      const ticket = decodeTicket(String(name))
      const joinedAt = new Date(Number(micros) / 1_000)
      if (ticket !== undefined) members.push({ ticket, joinedAt, parked: asleep === 1 })
    }
    return members
  }
}
