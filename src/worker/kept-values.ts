/**
 * Values that outlive a worker, in the queue's Redis under our own keys: results that twins share, and checkpoints. Written
 * fenced: a store remembers the largest fencing token it has seen and refuses a holder with a smaller one.
 */
import { LeaseLostError, ValueTooLargeError } from '../errors.ts'
import type { QueueConnection } from '../redis/queue-connection.ts'
import { defineScript } from '../redis/script.ts'

/**
 * KEYS  1 store
 * ARGV  1 fencing token · 2 ttlMs · then field, value pairs to write
 * Returns  kept, all fields and values | stale, the token that was seen
 * Keeps: whoever reads claims with its token first, so that an older holder cannot write behind its back.
 */
const claimScript = defineScript(
  'claim',
  `
local seen = redis.call('HGET', KEYS[1], 'fencingToken')
if seen and tonumber(seen) > tonumber(ARGV[1]) then return {'stale', seen} end
redis.call('HSET', KEYS[1], 'fencingToken', ARGV[1])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'kept', redis.call('HGETALL', KEYS[1])}
`,
)

/** Who writes: the lease's resource and fencing token. */
export interface Writer {
  readonly resource: string
  readonly fencingToken: number
}

const FIELD_PREFIX = 'value:'

export class KeptValues {
  readonly #redis: QueueConnection
  readonly #namespace: string
  readonly #maxBytes: number

  constructor(redis: QueueConnection, namespace: string, maxBytes: number) {
    this.#redis = redis
    this.#namespace = namespace
    this.#maxBytes = maxBytes
  }

  /** Without a lease: what is there, written by whoever held it. */
  async peek(store: string, name: string): Promise<{ readonly value: unknown } | undefined> {
    const text = await this.#redis.command('HGET', this.#key(store), FIELD_PREFIX + name)
    return typeof text === 'string' ? { value: JSON.parse(text) as unknown } : undefined
  }

  /** Everything that is kept. @throws LeaseLostError when a later holder has been here. */
  claim(store: string, writer: Writer, ttlMs: number): Promise<ReadonlyMap<string, unknown>> {
    return this.#claim(store, writer, ttlMs, [])
  }

  /** @throws LeaseLostError when a later holder has been here; ValueTooLargeError. */
  async keep(
    store: string,
    writer: Writer,
    ttlMs: number,
    name: string,
    value: unknown,
  ): Promise<void> {
    // JSON has no undefined: a step that returns nothing comes back with null.
    const text = JSON.stringify(value ?? null)
    const bytes = Buffer.byteLength(text)
    if (bytes > this.#maxBytes) throw new ValueTooLargeError(name, bytes, this.#maxBytes)
    await this.#claim(store, writer, ttlMs, [FIELD_PREFIX + name, text])
  }

  async drop(store: string): Promise<void> {
    await this.#redis.command('DEL', this.#key(store))
  }

  async #claim(
    store: string,
    { resource, fencingToken }: Writer,
    ttlMs: number,
    fields: readonly string[],
  ): Promise<ReadonlyMap<string, unknown>> {
    const args = [fencingToken, Math.ceil(ttlMs), ...fields]
    const reply = await this.#redis.run(claimScript, [this.#key(store)], args)
    const [word, rest] = reply as [string, string | string[]]
    if (word !== 'kept' || !Array.isArray(rest)) {
      const reason = `a later holder (fencing token ${String(rest)}) has written since`
      throw new LeaseLostError(resource, fencingToken, reason)
    }
    const values = new Map<string, unknown>()
    for (let index = 0; index + 1 < rest.length; index += 2) {
      const field = rest[index] ?? ''
      if (!field.startsWith(FIELD_PREFIX)) continue
      values.set(field.slice(FIELD_PREFIX.length), JSON.parse(rest[index + 1] ?? 'null'))
    }
    return values
  }

  #key(store: string): string {
    return `${this.#namespace}:{${store}}:values`
  }
}
