import { Redis } from 'ioredis'
import type { TestServer } from '../../src/testing/index.ts'

/** Asks over one connection that answers or fails, and never tries again. */
export async function ask<T>(url: string, question: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    enableReadyCheck: false,
  })
  // The rejected command says it too.
  redis.on('error', () => undefined)
  try {
    await redis.connect()
    return await question(redis)
  } finally {
    // Where there is nothing to disconnect, ioredis would leave a timer of two seconds.
    if (redis.status !== 'end') redis.disconnect()
  }
}

export function ping(url: string): Promise<string> {
  return ask(url, (redis) => redis.ping())
}

/** One command that ioredis need not know. */
export function tell(
  { url }: Pick<TestServer, 'url'>,
  command: string,
  ...args: readonly (string | number)[]
): Promise<unknown> {
  return ask(url, (redis) => redis.call(command, ...args))
}
