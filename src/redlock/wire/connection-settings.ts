/**
 * The ioredis settings of a connection to a lock master. Every value is explicit because the
 * defaults differ between ioredis 5 and 6, and most of the defaults are unsafe for a lock:
 * a command that its caller gave up must never be sent, or sent again, behind the caller's back.
 */
import type { RedisOptions } from 'ioredis'
import { masterConnector } from './master-connector.ts'

/** How a user names one master: a `redis://` or `rediss://` URL, or ioredis options. */
export type MasterAddress = string | RedisOptions

export interface ConnectionLimits {
  /** How long a TCP connect may take. */
  readonly connectTimeoutMs: number
  /** A socket with unanswered commands that stays silent this long is replaced. */
  readonly socketTimeoutMs: number
}

/** The longest pause between two attempts to connect, before jitter. */
const MAX_RECONNECT_DELAY_MS = 400

export function connectionSettings(
  limits: ConnectionLimits,
): RedisOptions & { readonly replyMapping: 'legacy' } {
  return {
    // A command for a server that is away fails now: queued, it would take a lock for no holder.
    enableOfflineQueue: false,
    // A command in flight when the connection broke is not sent a second time.
    autoResendUnfulfilledCommands: false,
    // Every command in flight is rejected when the connection closes; else it would stay pending.
    maxRetriesPerRequest: 0,
    // One reply per call: in a pipeline, calls of different callers would share one fate.
    enableAutoPipelining: false,
    // "2" would send the failed command again.
    reconnectOnError: null,
    // With a prefix, SCAN would look for leases under other names than the scripts use.
    keyPrefix: '',
    autoResubscribe: false,
    enableReadyCheck: true,
    // A server that has read its data is asked again after this; by default, after ten seconds.
    maxLoadingRetryTime: 1_000,
    keepAlive: 5_000,
    noDelay: true,
    connectTimeout: limits.connectTimeoutMs,
    socketTimeout: limits.socketTimeoutMs,
    // Covers the handshake too: a low value is a reconnect loop. Each call has its own deadline.
    commandTimeout: Math.max(2_000, 2 * limits.socketTimeoutMs),
    retryStrategy: (times) =>
      Math.min(25 * 2 ** Math.min(times, 10), MAX_RECONNECT_DELAY_MS) * (0.75 + Math.random() / 2),
    protocol: 2,
    replyMapping: 'legacy',
    disableClientInfo: true,
    // The name is given later: the handshake hides why a server takes no client.
    connectionName: '',
    // After close() a dead server's socket holds the process this long; by default, two seconds.
    disconnectTimeout: 250,
    lazyConnect: false,
    Connector: masterConnector(),
  }
}

/** What {@link isRedisUrl} takes. */
export const REDIS_URL = 'a redis:// or rediss:// URL without a query'

/** No query: ioredis takes options from it, and prefers them to the safe ones. */
export function isRedisUrl(value: unknown): value is string {
  return (
    typeof value === 'string' && /^rediss?:\/\/[^/?#]+[^?#]*$/.test(value) && URL.canParse(value)
  )
}

/** Of the queue: sentinels say where its server is. */
export function isWatched(address: MasterAddress): boolean {
  return typeof address === 'object' && address.sentinels !== undefined
}

/** `host:port` (or the socket's path) without user name or password, for logs and errors. */
export function masterName(address: MasterAddress): string {
  if (typeof address !== 'string') {
    if (isWatched(address)) return `${address.name ?? ''} (Sentinel)`
    return address.path ?? `${address.host ?? '127.0.0.1'}:${address.port ?? 6379}`
  }
  const url = new URL(address)
  return url.host === '' ? url.pathname : `${url.hostname}:${url.port === '' ? '6379' : url.port}`
}
