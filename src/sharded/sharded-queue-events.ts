import { QueueEvents, type QueueEventsOptions } from 'bullmq'
import { idleClock, withinMs } from '../clock.ts'
import { hasClosedOrIsSilent } from '../line/queue-connection.ts'
import { connectsAnew } from '../line/reconnecting.ts'
import { objectOption, refuse } from '../options.ts'
import { whenReady } from '../worker/worker-start.ts'
import { prefixesOf } from './placement.ts'
import { found, later, Shards } from './shards.ts'

/** A node that takes longer to take the name of a listener goes without. */
const NAME_MS = 1_000

/** BullMQ's, and how many shards the queue has. */
export interface ShardedQueueEventsOptions extends Omit<QueueEventsOptions, 'lastEventId'> {
  /** The same as that of the queue. */
  readonly shards: number
}

/**
 * BullMQ's `QueueEvents` of a sharded queue, such as for `job.waitUntilFinished(events)`. The
 * second argument of a listener is an id in the stream of one shard. `run` throws a
 * ShardsDifferError where others work with another number of shards.
 * @example
 * ```ts
 * const events = new ShardedQueueEvents('invoices', { connection, shards: 4 })
 * ```
 */
export class ShardedQueueEvents extends QueueEvents {
  readonly #parts: Shards<QueueEvents>
  readonly #ended = new AbortController()

  /** @throws TypeError for a bad option, among them `lastEventId`: it is of one shard. */
  constructor(name: string, options: ShardedQueueEventsOptions) {
    objectOption(options, 'an object with `connection` and `shards`')
    const { lastEventId } = options as QueueEventsOptions
    if (lastEventId !== undefined) refuse('lastEventId', 'absent: it is of one shard', lastEventId)
    const { shards, prefix, autorun = true, ...others } = options
    const [own = others, ...more] = prefixesOf(prefix, shards).map((each) => {
      return { ...others, prefix: each, autorun: false }
    })
    super(name, own)
    const all = more.map((each) => new QueueEvents(name, each))
    for (const each of all) each.emit = this.emit.bind(this)
    this.#parts = new Shards<QueueEvents>([this, ...all])
    for (const each of this.#parts.all) {
      const backend = each.getBackend()
      // rule: listener-outlives-a-refusal
      connectsAnew(backend.connection, options.connection)
      const setName = backend.setName.bind(backend)
      // Any node of a cluster is asked, and BullMQ's listener ends where that one refuses.
      // rule: listener-goes-on-without-a-name
      backend.setName = async (own) => {
        await withinMs(idleClock, NAME_MS, setName(own)).catch(this.#tell)
      }
    }
    this.#parts.lend(this, 'waitUntilReady', found)
    const end = (closing: readonly Promise<void>[]): unknown => {
      this.#ended.abort()
      const backends = this.#parts.all.map((each) => each.getBackend())
      return later(closing.map((each, nr) => hasClosedOrIsSilent(each, backends[nr] as never)))
    }
    this.#parts.lend(this, 'close disconnect', end, true)
    if (autorun) this.run().catch((error: unknown): unknown => this.closing ?? this.#tell(error))
  }

  /** As BullMQ's. It begins when the server of the first shard answers. */
  override async run(): Promise<void> {
    // rule: listener-waits-for-the-first-shard
    await whenReady(() => this.#parts.check(), this.#ended.signal, this.#tell)
    if (this.closing !== undefined) return
    await Promise.all(this.#parts.all.map((part) => (part === this ? super.run() : part.run())))
  }

  readonly #tell = (error: unknown): boolean => this.emit('error', error as Error)
}
