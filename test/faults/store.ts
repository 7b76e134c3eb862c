/**
 * The store that holders write to: it takes a write only if it has not seen a newer fencing token,
 * and keeps a log. What is written is a read-modify-write that nothing but the lease protects.
 */
import { Redis } from 'ioredis'

export interface StoredEntry {
  readonly entry: string
  /** The last entry that its writer had read; empty when there was none. */
  readonly seen: string
  readonly fencingToken: number
}

const APPEND = `
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'token') or '0') then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'last', ARGV[2])
redis.call('RPUSH', KEYS[2], cjson.encode({ARGV[2], ARGV[3], ARGV[1]}))
return 1
`

export class FencedStore {
  readonly #redis: Redis
  readonly #namespace: string

  constructor(url: string, namespace: string) {
    this.#redis = new Redis(url)
    this.#redis.on('error', () => undefined) // The last ones, when the server goes first.
    this.#namespace = namespace
  }

  async last(resource: string): Promise<string> {
    return (await this.#redis.hget(this.#key('state', resource), 'last')) ?? ''
  }

  /** Whether the store took it. */
  async append(resource: string, { entry, seen, fencingToken }: StoredEntry): Promise<boolean> {
    const keys = [this.#key('state', resource), this.#key('log', resource)]
    const token = String(fencingToken)
    return (await this.#redis.eval(APPEND, keys.length, ...keys, token, entry, seen)) === 1
  }

  async log(resource: string): Promise<readonly StoredEntry[]> {
    const lines = await this.#redis.lrange(this.#key('log', resource), 0, -1)
    return lines.map((line) => {
      const [entry, seen, token] = JSON.parse(line) as [string, string, string]
      return { entry, seen, fencingToken: Number(token) }
    })
  }

  close(): void {
    this.#redis.disconnect()
  }

  #key(what: string, resource: string): string {
    return `${this.#namespace}:${what}:${resource}`
  }
}
