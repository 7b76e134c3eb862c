/**
 * One connection with this package's settings, or with some of them set back to what ioredis does
 * by itself.
 */
import { Redis, type RedisOptions } from 'ioredis'
import { connectionSettings } from '../../../src/redlock/wire/connection-settings.ts'
import { until } from '../../fixtures.ts'

/** Short, so that a silent socket is noticed within a test. */
export const LIMITS = { connectTimeoutMs: 2_000, socketTimeoutMs: 400 }

/** Settings other than ours; `undefined` takes one away. */
export type Overrides = {
  readonly [
    Name in
      | 'enableOfflineQueue'
      | 'autoResendUnfulfilledCommands'
      | 'maxRetriesPerRequest'
      | 'commandTimeout'
      | 'socketTimeout'
  ]?: RedisOptions[Name] | undefined
}

/** What ioredis does about commands when nobody tells it otherwise (5.x and 6.x alike). */
export const IOREDIS_DEFAULTS: Overrides = {
  enableOfflineQueue: true,
  autoResendUnfulfilledCommands: true,
  maxRetriesPerRequest: 20,
  commandTimeout: undefined,
  socketTimeout: undefined,
}

export interface Connection extends AsyncDisposable {
  readonly redis: Redis
}

/** Connects to a server or proxy on this machine and waits until it is ready. */
export async function connection(port: number, set: Overrides = {}): Promise<Connection> {
  const opened = opening(port, set)
  await event(opened.redis, 'ready')
  return opened
}

export function opening(port: number, set: Overrides = {}): Connection {
  const redis = new Redis({
    host: '127.0.0.1',
    port,
    ...connectionSettings(LIMITS),
    ...(set as RedisOptions),
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

/**
 * Whether a promise has settled by the time that everything before it in the connection is done.
 */
export interface Fate {
  state: 'pending' | 'resolved' | 'rejected'
}

export function follow(promise: Promise<unknown>): Fate {
  const fate: Fate = { state: 'pending' }
  promise.then(
    () => {
      fate.state = 'resolved'
    },
    () => {
      fate.state = 'rejected'
    },
  )
  return fate
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
