/** How the connections of a queue go on after its server was away, where BullMQ's would not. */
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { RedisQueueBackend } from 'bullmq'
import type { RedisOptions } from 'ioredis'
import pRetry from 'p-retry'
import { idleClock, mustAnswer, systemClock } from '../clock.ts'
import type { Sockets } from '../ioredis.ts'
import { NO_LOGIN, PASSING, says, UNANSWERED } from './refusals.ts'

export type Connection = RedisQueueBackend['connection']

/** A client of ioredis, as far as its types hide it. */
export interface UnreadyClient extends Sockets, Pick<EventEmitter, 'once' | 'off'> {
  readonly stream?: EventEmitter &
    Partial<Pick<Socket, 'bytesRead' | 'remoteAddress' | 'remotePort'>>
  /** A cluster has no `host`. */
  readonly options?: Pick<RedisOptions, 'host' | 'port' | 'tls' | 'sentinels'> & {
    readonly enableTLSForSentinelMode?: boolean
    /** Of a cluster. */
    readonly redisOptions?: Pick<RedisOptions, 'tls'>
    maxRetriesPerRequest?: number | null
    reconnectOnError?: unknown
    retryStrategy?: ((times: number) => number) | undefined
  }
  status?: string
  readonly isCluster?: boolean
  /** Of an ioredis `Cluster`: the nodes that have each slot, by `host:port`. */
  readonly slots?: readonly (readonly string[] | undefined)[]
  /** Of an ioredis `Cluster`: it was told to disconnect. */
  readonly manuallyClosing?: boolean
  /** Of ioredis, with `failoverDetector`. */
  readonly connector?: { readonly failoverDetector?: { cleanup(): void } | null }
  disconnect(): void
  /** Of ioredis. */
  flushQueue?(error: Error): void
}

/** A replica refuses many calls at once, and ioredis would end the same connection for each. */
const LEAVE_ONCE_MS = 50
/** BullMQ's longest wait before it connects anew is 20 s. Jobs would wait as long for workers. */
const MAX_RECONNECT_MS = 2_000

/** There before it is connected. */
export function unreadyClientOf(connection: Connection | undefined): UnreadyClient | undefined {
  return (connection as { readonly _client?: UnreadyClient } | undefined)?._client
}

/** A node of a cluster that is silent for so long is one of several. */
const ASK_MS = 1_000
const SILENT = `Command timed out: a node has not answered for ${ASK_MS} ms`

/** @param given what the queue or worker was given, if anything. */
export function connectsAnew(connection: Connection, given: object = {}): void {
  leaveReplicas(connection)
  askUntilAnswered(connection)
  reconnectSoon(connection, given)
}

/**
 * BullMQ asks each new connection for its server's version. Where that was refused once, or the
 * connection broke meanwhile, every later call would fail with it.
 */
function askUntilAnswered(connection: Connection): void {
  const asks = connection as unknown as { getRedisVersionAndType(): Promise<unknown> }
  const ask = asks.getRedisVersionAndType.bind(asks)
  // Of a cluster any node is asked, also one that refuses the login that the others take.
  const isCluster = (): boolean => unreadyClientOf(connection)?.isCluster === true
  const askSoon = (): Promise<unknown> =>
    // rule: silent-node-is-one-of-several
    isCluster() ? mustAnswer(idleClock, ASK_MS, ask(), SILENT) : ask()
  // rule: version-is-asked-until-answered
  asks.getRedisVersionAndType = () =>
    pRetry(askSoon, {
      ...{ minTimeout: 100, maxTimeout: 1_000, retries: Infinity, unref: true },
      shouldRetry: ({ error }) =>
        // rule: node-that-refuses-the-login-is-one-of-several
        says(error, PASSING, UNANSWERED, ...(isCluster() ? [NO_LOGIN] : [])),
    })
}

/**
 * After a failover the former master may keep its connections, as a replica that refuses every
 * write. Its name leads to the new master, for a client that connects anew.
 */
function leaveReplicas(connection: Connection): void {
  const options = unreadyClientOf(connection)?.options
  if (options === undefined) return
  let leftAt = -Infinity
  options.reconnectOnError ??= ({ message }: Error) => {
    const now = systemClock.now()
    // rule: replica-is-left
    const leaves = message.startsWith('READONLY') && now - leftAt > LEAVE_ONCE_MS
    if (leaves) leftAt = now
    return leaves
  }
}

/** @param given what the queue or worker was given. Its own client or waits stay as they are. */
function reconnectSoon(connection: Connection, given: object): void {
  const options = unreadyClientOf(connection)?.options
  const usual = options?.retryStrategy
  if (options === undefined || usual === undefined) return
  if ('duplicate' in given || 'retryStrategy' in given) return
  // rule: returned-server-is-soon-found
  options.retryStrategy = (times) => Math.min(MAX_RECONNECT_MS, usual(times))
  // A command waits as long for its server as with BullMQ, in more retries.
  const { maxRetriesPerRequest: most } = options
  if (typeof most !== 'number') return
  const waitsMs = Array.from({ length: most }, (_, retries) => usual(retries + 1))
  const patienceMs = waitsMs.reduce((sum, waitMs) => sum + waitMs, 0)
  // rule: command-is-given-up-no-sooner
  options.maxRetriesPerRequest = Math.max(most, Math.ceil(patienceMs / MAX_RECONNECT_MS))
}
