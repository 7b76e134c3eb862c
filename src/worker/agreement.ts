/**
 * Whatever works on a queue must have the same namespace, order and slots. Else jobs of one resource run at once, or sleep in lines
 * that nobody keeps. Nobody refuses to start for it: in a deploy that changes one of them both are there for a while. Each says what
 * it has, in the queue's Redis, and reports others that differ.
 */
import type { Clock } from '../clock.ts'
import { SettingsDifferError } from '../errors.ts'
import { pairs, type QueueConnection } from '../redis/queue-connection.ts'
import { parkedMs } from './requeue.ts'
import type { Ticket } from './ticket.ts'

/** What has to be the same, and who has it. */
export interface Terms {
  readonly by: 'LockedQueue' | 'LockedWorker'
  readonly namespace: string
  readonly order: 'strict' | 'relaxed'
  readonly slots: number
}

const COMPARED = ['namespace', 'order', 'slots'] as const
/** How often each says what it has, at most. */
export const SAY_EVERY_MS = 60_000
/** So long may a job still sleep that was put to sleep by whoever said it last. */
const HEEDED_MS = parkedMs(1)

/** Where they are said. Not under the namespace, which may be what differs. */
export function termsKey({ prefix, queue }: Pick<Ticket, 'prefix' | 'queue'>): string {
  return `redlock:terms:${prefix}:${queue}`
}

export class Agreement {
  readonly #redis: QueueConnection
  readonly #queue: string
  readonly #key: string
  readonly #mine: Terms
  readonly #clock: Clock
  #saidAt = -Infinity

  constructor(
    redis: QueueConnection,
    at: Pick<Ticket, 'prefix' | 'queue'>,
    { by, namespace, order, slots }: Terms,
    clock: Clock,
  ) {
    this.#redis = redis
    this.#queue = at.queue
    this.#key = termsKey(at)
    this.#mine = { by, namespace, order, slots }
    this.#clock = clock
  }

  /** Says what this one has, and finds others that have something else; does nothing where it did so a moment ago. */
  async exchange(): Promise<readonly SettingsDifferError[]> {
    const now = this.#clock.now()
    if (now - this.#saidAt < SAY_EVERY_MS) return []
    this.#saidAt = now
    const wallNow = this.#clock.wallNow()
    const [, found] = await Promise.all([
      this.#redis.command('ZREMRANGEBYSCORE', this.#key, '-inf', wallNow - HEEDED_MS),
      this.#redis.command('ZRANGE', this.#key, 0, -1, 'WITHSCORES'),
      this.#redis.command('ZADD', this.#key, wallNow, JSON.stringify(this.#mine)),
      this.#redis.command('PEXPIRE', this.#key, HEEDED_MS),
    ]).catch((error: unknown) => {
      this.#saidAt = -Infinity
      throw error
    })
    return pairs(found).flatMap(([said, at]) => {
      const theirs = JSON.parse(said) as Terms
      const differences = COMPARED.flatMap((name) => {
        const [here, there] = [this.#mine[name], theirs[name]]
        return here === there ? [] : [{ name, here, there }]
      })
      if (differences.length === 0) return []
      const both = [this.#mine.by, theirs.by] as const
      return new SettingsDifferError(this.#queue, both, differences, new Date(Number(at)))
    })
  }
}
