import { QueueEvents, type QueueEventsOptions } from 'bullmq'
import { ShardsDifferError } from '../errors.ts'
import { objectOption, refuse } from '../options.ts'
import { checkedShards, prefixesOf, recordOf, SHARD_FIELD } from './placement.ts'

/** BullMQ's, and how many shards the queue has. */
export interface ShardedQueueEventsOptions extends Omit<QueueEventsOptions, 'lastEventId'> {
  /** The same as that of the queue. */
  readonly shards: number
}

/**
 * BullMQ's `QueueEvents` of a sharded queue: it tells what happens in any shard. The second
 * argument of a listener is an id in the stream of one shard.
 * @example
 * ```ts
 * const events = new ShardedQueueEvents('invoices', { connection, shards: 4 })
 * const job = await queue.add('invoice', { customerId: 42 })
 * console.log(await job.waitUntilFinished(events))
 * ```
 */
export class ShardedQueueEvents extends QueueEvents {
  readonly #name: string
  readonly #others: readonly QueueEvents[]

  /** @throws TypeError for a bad option, among them `lastEventId`: it is of one shard. */
  constructor(name: string, options: ShardedQueueEventsOptions) {
    objectOption(options, 'an object with `connection` and `shards`')
    if ('lastEventId' in options) refuse('lastEventId', 'absent: it is of one shard', true)
    const { shards, prefix = 'bull', autorun = true, ...others } = options
    const [own, ...more] = prefixesOf(prefix, checkedShards(shards))
    const optionsOf = (each: string): QueueEventsOptions => ({
      ...{ ...others, prefix: each, autorun: false },
    })
    super(name, optionsOf(own ?? ''))
    this.#name = name
    this.#others = more.map((each) => new QueueEvents(name, optionsOf(each)))
    for (const other of this.#others) other.emit = this.emit.bind(this)
    if (autorun) {
      this.run().catch((error: unknown) => {
        this.emit('error', error as Error)
      })
    }
  }

  /**
   * Begins to listen. Called by the constructor unless `autorun` is false.
   * @throws ShardsDifferError where others work with another number of shards.
   */
  override async run(): Promise<void> {
    const all = [this, ...this.#others]
    for (const [shard, { backend }] of all.entries()) {
      const recorded = await backend.getQueueMetaField(SHARD_FIELD)
      const mine = recordOf(shard, all.length)
      if (recorded && recorded !== mine) throw new ShardsDifferError(this.#name, mine, recorded)
    }
    if (this.closing) return
    await Promise.all([super.run(), ...this.#others.map((each) => each.run())])
  }

  override async waitUntilReady(): Promise<void> {
    await Promise.all([super.waitUntilReady(), ...this.#others.map((one) => one.waitUntilReady())])
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), ...this.#others.map((each) => each.close())])
  }
}
