/**
 * A connection of our own to the queue's Redis, for data that is ours.
 */
import { Redis, type Cluster, type RedisOptions } from 'ioredis'
import { refuse } from '../options.ts'
import { OneWrite } from './one-write.ts'
import type { Script } from './script.ts'

export interface QueueConnection {
  /** EVALSHA, and EVAL where the server does not know the script. Calls run in the order in which they are made. */
  run(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
  command(name: string, ...args: (string | number)[]): Promise<unknown>
  close(): void
}

/**
 * `connection` is what BullMQ takes: ioredis options, `{ url }`, or an ioredis client, which is duplicated. A `worker` waits for a
 * server that is away; a producer fails as its own options say.
 */
export function openQueueConnection(
  connection: unknown,
  role: 'worker' | 'producer' = 'worker',
): QueueConnection {
  const redis = open(connection, role)
  redis.on('error', () => undefined) // BullMQ's own connections to the same server report it.
  const oneWrite = new OneWrite(redis)
  const loaded = new Set<string>()
  redis.on('close', () => {
    loaded.clear()
  })
  return {
    async run(script, keys, args) {
      oneWrite.untilEndOfTurn()
      if (!loaded.has(script.sha1)) {
        loaded.add(script.sha1)
        // Ahead of the call on the same connection. Calls that were sent after another would overtake it, if the server came
        // to know the script between its NOSCRIPT and its second try.
        redis.script('LOAD', script.lua).catch(() => undefined)
      }
      try {
        return await redis.evalsha(script.sha1, keys.length, ...keys, ...args)
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
        return redis.eval(script.lua, keys.length, ...keys, ...args)
      }
    },
    command(name, ...args) {
      oneWrite.untilEndOfTurn()
      return redis.call(name, ...args)
    },
    close: () => {
      redis.disconnect()
    },
  }
}

function open(connection: unknown, role: 'worker' | 'producer'): Redis | Cluster {
  // RESP2 whatever the options say: replies are read as flat arrays.
  const settings = {
    ...(role === 'worker' && { maxRetriesPerRequest: null }),
    connectionName: 'bullmq-redlock-lines',
    protocol: 2 as const,
  }
  if (typeof connection !== 'object' || connection === null) {
    return refuse('connection', 'ioredis options or an ioredis client', connection)
  }
  if ('duplicate' in connection && typeof connection.duplicate === 'function') {
    const client = connection as Redis | Cluster
    if (client instanceof Redis) return client.duplicate(settings)
    return client.duplicate([], { redisOptions: settings })
  }
  const { url, ...options } = connection as RedisOptions & { readonly url?: string }
  const merged = { ...options, ...settings, replyMapping: 'legacy' as const }
  return url === undefined ? new Redis(merged) : new Redis(url, merged)
}

/** A flat reply as pairs. */
export function pairs(reply: unknown): readonly (readonly [string, string])[] {
  const flat = reply as readonly string[]
  return flat.flatMap((first, index) =>
    index % 2 === 0 ? [[first, flat[index + 1] ?? ''] as const] : [],
  )
}
