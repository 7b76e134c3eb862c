/** One connection with this package's settings. */
import { Redis } from 'ioredis'
import { connectionSettings } from '../../../src/redlock/wire/connection-settings.ts'
import { until } from '../../fixtures.ts'

/** Short, so that a silent socket is noticed within a test. */
export const LIMITS = { connectTimeoutMs: 2_000, socketTimeoutMs: 400 }

export interface Connection extends AsyncDisposable {
  readonly redis: Redis
}

/** Connects to a server or proxy on this machine and waits until it is ready. */
export async function connection(port: number): Promise<Connection> {
  const opened = opening(port)
  await event(opened.redis, 'ready')
  return opened
}

export function opening(port: number): Connection {
  const redis = new Redis({
    host: '127.0.0.1',
    port,
    ...connectionSettings(LIMITS),
    replyMapping: 'legacy',
  })
  redis.on('error', () => undefined) // Rejected commands tell of it.
  return {
    redis,
    async [Symbol.asyncDispose](): Promise<void> {
      if (redis.status === 'end') return
      const ended = event(redis, 'end')
      redis.disconnect()
      await ended
    },
  }
}

/** Whether a promise has settled by now. */
export function follow(promise: Promise<unknown>): () => 'pending' | 'resolved' | 'rejected' {
  let fate: ReturnType<ReturnType<typeof follow>> = 'pending'
  promise.then(
    () => (fate = 'resolved'),
    () => (fate = 'rejected'),
  )
  return () => fate
}

/** Waits for the connection to be ready again, and for one round trip on it. */
export async function readyAgain(redis: Redis): Promise<void> {
  await until('the connection is ready again', () => redis.status === 'ready')
  await redis.ping()
}

/** `once` of node:events would reject with the connection's errors, which are expected here. */
export function event(
  redis: Redis,
  name: 'ready' | 'close' | 'reconnecting' | 'end',
): Promise<void> {
  return new Promise((resolve) => {
    redis.once(name, () => {
      resolve()
    })
  })
}
