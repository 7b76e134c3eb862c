/**
 * Where the keys of the queues of a prefix are. A sharded queue is one queue in several places: its
 * first shard, whose prefix follows from the name, records how many there are.
 */
import { systemClock } from '../../clock.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import { ownScript } from '../../line/bullmq/composed-script.ts'
import { jsonText } from '../../line/line-backend.ts'
import { absentKeyIn, type LineRunner } from '../../line/line-runner.ts'
import { asRefused, mayChange } from '../../line/rights.ts'
import { messageOf } from '../../message-of.ts'
import { defineScript, type Script } from '../../lua.ts'
import {
  shardWith,
  prefixesOf,
  shardNamed,
  shardOf,
  SHARDS_FIELD,
} from '../../sharded/placement.ts'
import { standstillOf, type Standstill } from '../../worker/standstill.ts'
import { globEscape } from './glob.ts'
import { known, type QueueServer } from './queue-server.ts'

/** A queue, or a shard of one. Its lines are read and written by the one connection of all. */
export interface QueuePlace extends LineRunner {
  /** BullMQ's prefix of this queue, or of this shard. */
  readonly prefix: string
}

/** How often new queues are looked for. */
const FIND_EVERY_MS = 60_000
/** The same, while a node is away. */
const FIND_AGAIN_MS = 2_000
/** The most keys that are looked at to find them. */
const MAX_SCANNED = 1_000_000
/** Whose lines and counts are shown. */
const MAX_QUEUES = 50
/** BullMQ's keys of a queue: one that was used has at least one of them. */
const QUEUE_KEYS = [
  ...['meta', 'id', 'wait', 'paused', 'active', 'prioritized', 'delayed', 'waiting-children'],
  ...['completed', 'failed', 'repeat'],
]

export class Places {
  readonly server: QueueServer
  readonly #prefix: string
  /** That of the first shard of a sharded queue; undefined where there can be none. */
  readonly #firstShard: string | undefined
  readonly #known = new Map<string, Promise<readonly QueuePlace[]>>()
  readonly #scripts = new Map<string, Script>()
  #names: readonly string[] = []
  #missing: Error | undefined
  #findAt = -Infinity

  constructor(server: QueueServer, prefix: string) {
    this.server = server
    this.#prefix = prefix
    const canHaveShards = /^(?:[^{}]+|\{[^{}]+\})$/.test(prefix)
    this.#firstShard = canHaveShards ? prefixesOf(prefix, 1)[0] : undefined
  }

  /** What is wrong with a queue's name; undefined if the server has that queue. */
  async missing(queue: string): Promise<string | undefined> {
    const [place] = await this.of(queue)
    const keys = QUEUE_KEYS.map((key) => `${place?.base ?? ''}${key}`)
    const found = await this.server.command('EXISTS', ...keys).catch((error: unknown) => {
      throw asRefused(error, `${this.#prefix}:${queue}`)
    })
    if (Number(found) > 0) return undefined
    return `There is no queue \`${queue}\` with the prefix \`${this.#prefix}\`. Check the name and --prefix.`
  }

  /** The queues of this prefix. A sharded queue is one. */
  async names(): Promise<readonly string[]> {
    if (systemClock.now() < this.#findAt) return this.#names
    const names = new Set<string>()
    const ofOthers = new Set<string>()
    // Every queue, and every shard of one, has a key with its settings.
    const befores = [this.#prefix, this.#firstShard ?? this.#prefix].map((each) => `${each}:`)
    const after = ':meta'
    const pattern = `*${globEscape(this.#prefix.replace(/[{}]/g, ''))}*${after}`
    this.#missing = await this.server.scan(pattern, MAX_SCANNED, (keys) => {
      for (const key of keys) {
        const before = befores.find((each) => key.startsWith(each))
        if (before !== undefined) names.add(key.slice(before.length, -after.length))
        else if (this.#isOfShard(key)) ofOthers.add(key.slice(key.indexOf('}:') + 2, -after.length))
      }
    })
    // The first shard, which says what there is, may be away.
    if (this.#missing !== undefined) for (const name of ofOthers) names.add(name)
    this.#known.clear()
    // BullMQ allows no colon: such a key is of a resource or a job.
    this.#names = [...names].filter((name) => !name.includes(':')).sort()
    // A server with no queue yet is asked again at once.
    if (this.#names.length > 0) {
      const pauseMs = this.#missing === undefined ? FIND_EVERY_MS : FIND_AGAIN_MS
      this.#findAt = systemClock.now() + pauseMs
    }
    return this.#names
  }

  #isOfShard(key: string): boolean {
    const before = this.#firstShard?.replace(/\d+-\d+\}$/, '')
    return (
      before !== undefined && key.startsWith(before) && /^\d+-\d+\}:/.test(key.slice(before.length))
    )
  }

  /** Why there may be more; undefined where all are known. */
  get missingNames(): string | undefined {
    return this.#missing && `not all queues are known: ${this.#missing.message}`
  }

  async shownNames(): Promise<readonly string[]> {
    return (await this.names()).slice(0, MAX_QUEUES)
  }

  /** Asks each of the queues that are shown. @throws Error where no answer comes. */
  async each<Answer>(question: (queue: string) => Promise<Answer>): Promise<readonly Answer[]> {
    return known((await this.shownNames()).map(question))
  }

  /** Asks where they are: each shard by itself. @throws Error where no answer comes. */
  async eachPlace<Answer>(
    question: (place: QueuePlace) => Promise<Answer>,
  ): Promise<readonly Answer[]> {
    const places = await this.each((queue) => this.of(queue))
    return known(places.flat().map(question))
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

  /**
   * Where a job is, or would be.
   * @param resource that the job touches: of several jobs with this id, that one is meant.
   * @throws ShardError where several are meant.
   */
  async ofJob(queue: string, jobId: string, resource?: string): Promise<QueuePlace> {
    const places = await this.of(queue)
    const [own] = places as [QueuePlace]
    const named = shardNamed(jobId, places)
    if (named !== undefined) return named
    const asked = places.map(({ base }) => this.server.command('EXISTS', base + jobId))
    const found = await Promise.allSettled(asked)
    const has = (answer?: (typeof found)[number]): boolean =>
      answer?.status === 'fulfilled' && answer.value === 1
    const holders = places.filter((_, nr) => has(found[nr]))
    const away = found.find((answer) => answer.status === 'rejected')
    if (holders.length === 0 && away !== undefined) throw away.reason
    if (holders.length > 1 && resource !== undefined) return this.ofResource(queue, resource)
    return shardWith(jobId, queue, holders) ?? own
  }

  /** Whether the job is there. Its id may be the name of another key of its queue. */
  async hasJob({ base }: QueuePlace, jobId: string): Promise<boolean> {
    const asked = this.server.command('HEXISTS', base + jobId, 'timestamp')
    const found = await asked.catch((error: unknown) => {
      if (!messageOf(error).startsWith('WRONGTYPE')) throw error
      return 0
    })
    return found === 1
  }

  /** Where the line of a resource is. */
  async ofResource(queue: string, resource: string): Promise<QueuePlace> {
    const places = await this.of(queue)
    return places[shardOf([resource], places.length)] as QueuePlace
  }

  /** What keeps every job of a queue from starting; undefined for nothing. */
  async standstill({ name: queue, prefix, base }: QueuePlace): Promise<Standstill | undefined> {
    const [isPaused, clients, isCluster] = await Promise.all([
      this.server.command('HEXISTS', `${base}meta`, 'paused'),
      // Who may not ask does not know: then one may be there.
      this.server.command('CLIENT', 'LIST').catch(() => undefined),
      this.server.isCluster(),
    ])
    // As BullMQ names the connections of its workers.
    const name = `${prefix}:${Buffer.from(queue).toString('base64')}`
    const ofWorkers = [` name=${name} `, ` name=${name}:w:`]
    const isThere =
      typeof clients !== 'string' || ofWorkers.some((field) => clients.includes(field))
    // A node of a cluster does not see the workers of the others.
    return standstillOf(queue, isPaused === 1, isThere || isCluster)
  }

  async #find(queue: string): Promise<readonly QueuePlace[]> {
    const first = this.#firstShard
    const key = `${first ?? ''}:${queue}:meta`
    // Who may read no shard has no sharded queue.
    const asked = first && this.server.command('HGET', key, SHARDS_FIELD).catch(nothingIfDenied)
    const shards = Number((await asked) ?? 0)
    const prefixes = shards > 0 ? prefixesOf(this.#prefix, shards) : [this.#prefix]
    return prefixes.map((prefix) => this.#at(prefix, queue))
  }

  #at(prefix: string, name: string): QueuePlace {
    const base = `${prefix}:${name}:`
    return {
      ...{ name, prefix, base },
      run: (path, args) => {
        const script = getOrInsert(this.#scripts, path, () =>
          defineScript(path, ownScript(path).lua),
        )
        const keys = [`${base}meta`, absentKeyIn(base)]
        const text = jsonText({ base, slots: 1, asks: mayChange(path), ...args })
        return this.server.run(script, keys, [text]).catch((error: unknown) => {
          throw asRefused(error, `${prefix}:${name}`)
        })
      },
    }
  }
}

function nothingIfDenied(error: unknown): null {
  if (error instanceof Error && error.message.startsWith('NOPERM')) return null
  throw error
}
