import { QueueEvents, type QueueEventsOptions } from 'bullmq'
import { ShardsDifferError } from '../errors.ts'
import { objectOption, refuse } from '../options.ts'
import { prefixesOf, SHARDS_FIELD } from './placement.ts'

/** BullMQ's, and how many shards the queue has. */
export interface ShardedQueueEventsOptions extends Omit<QueueEventsOptions, 'lastEventId'> {
  /** The same as that of the queue. */
  readonly shards: number
}

/**
 * BullMQ's `QueueEvents` of a sharded queue, such as for `job.waitUntilFinished(events)`. The
 * second argument of a listener is an id in the stream of one shard.
 */
export class ShardedQueueEvents extends QueueEvents {
  readonly #shards: number

  /** @throws TypeError for a bad option, among them `lastEventId`: it is of one shard. */
  constructor(name: string, options: ShardedQueueEventsOptions) {
    objectOption(options, 'an object with `connection` and `shards`')
    if ('lastEventId' in options) refuse('lastEventId', 'absent: it is of one shard', true)
    const { shards, prefix = 'bull', autorun = true, ...others } = options
    const [own, ...more] = prefixesOf(prefix, shards).map((each) => ({ ...others, prefix: each }))
    super(name, { ...own, autorun: false } as QueueEventsOptions)
    this.#shards = shards
    const all = more.map((each) => new QueueEvents(name, { ...each, autorun: false }))
    for (const each of all) each.emit = this.emit.bind(this)
    for (const method of ['run', 'waitUntilReady', 'close'] as const) {
      const mine = this[method].bind(this)
      this[method] = async () => {
        await Promise.all([mine(), ...all.map((each) => each[method]())])
      }
    }
    if (autorun) this.run().catch((error: unknown) => this.emit('error', error as Error))
  }

  /** @throws ShardsDifferError where others work with another number of shards. */
  override async run(): Promise<void> {
    const recorded = Number((await this.backend.getQueueMetaField(SHARDS_FIELD)) ?? this.#shards)
    if (recorded !== this.#shards) throw new ShardsDifferError(this.name, this.#shards, recorded)
    if (!this.closing) await super.run()
  }
}
