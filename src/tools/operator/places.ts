/**
 * Where the keys of the queues of a prefix are. A sharded queue is one queue in several places: its
 * first shard, whose prefix follows from the name, records how many there are.
 */
import { getOrInsert } from '../../get-or-insert.ts'
import { prefixesOf, shardOf, SHARDS_FIELD } from '../../sharded/placement.ts'
import type { QueueServer } from './queue-server.ts'

export interface QueuePlace {
  readonly queue: string
  /** BullMQ's prefix of this queue, or of this shard. */
  readonly prefix: string
  /** What its keys begin with. */
  readonly base: string
}

export class Places {
  readonly #server: QueueServer
  readonly #prefix: string
  readonly #known = new Map<string, Promise<readonly QueuePlace[]>>()

  constructor(server: QueueServer, prefix: string) {
    this.#server = server
    this.#prefix = prefix
  }

  /** BullMQ's prefixes whose queues are those of this one. */
  get prefixes(): readonly string[] {
    return [this.#prefix, this.#firstShard].filter((each) => each !== undefined)
  }

  /** One for each shard, or only one. */
  of(queue: string): Promise<readonly QueuePlace[]> {
    return getOrInsert(this.#known, queue, () => {
      const found = this.#find(queue)
      // A server that does not answer now may do so the next time.
      found.catch(() => this.#known.delete(queue))
      return found
    })
  }

  /** Where a job is, or would be. */
  async ofJob(queue: string, jobId: string): Promise<QueuePlace> {
    const places = await this.of(queue)
    const [own] = places as [QueuePlace]
    if (places.length === 1) return own
    const asked = places.map(({ base }) => this.#server.command('EXISTS', base + jobId))
    const found = await Promise.all(asked)
    return places[found.indexOf(1)] ?? own
  }

  /** Where the line of a resource is. */
  async ofResource(queue: string, resource: string): Promise<QueuePlace> {
    const places = await this.of(queue)
    return places[shardOf([resource], places.length)] as QueuePlace
  }

  async ofAll(queues: readonly string[]): Promise<readonly QueuePlace[]> {
    return (await Promise.all(queues.map((queue) => this.of(queue)))).flat()
  }

  /** Queues may have been added, or removed. */
  forget(): void {
    this.#known.clear()
  }

  get #firstShard(): string | undefined {
    return /^(?:[^{}]+|\{[^{}]+\})$/.test(this.#prefix) ? prefixesOf(this.#prefix, 1)[0] : undefined
  }

  async #find(queue: string): Promise<readonly QueuePlace[]> {
    const first = this.#firstShard
    const key = `${first ?? ''}:${queue}:meta`
    // Who may read no shard has no sharded queue.
    const asked = first && this.#server.command('HGET', key, SHARDS_FIELD).catch(nothingIfDenied)
    const shards = Number((await asked) ?? 0)
    const prefixes = shards > 0 ? prefixesOf(this.#prefix, shards) : [this.#prefix]
    return prefixes.map((prefix) => ({ queue, prefix, base: `${prefix}:${queue}:` }))
  }
}

function nothingIfDenied(error: unknown): null {
  if (error instanceof Error && error.message.startsWith('NOPERM')) return null
  throw error
}
