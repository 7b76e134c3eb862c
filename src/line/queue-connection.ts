/** The connections by which BullMQ reaches the queue's Redis, with what its types hide of them. */
// Through the namespace: a BullMQ without these names is refused later, with what to do.
import * as bullmq from 'bullmq'
import type { RedisOptions } from 'ioredis'
import type { QueueBaseOptions, RedisQueueBackend, WorkerOptions } from 'bullmq'
import { systemClock, withinMs } from '../clock.ts'
import { hearLateErrors } from '../ioredis.ts'
import { messageOf, withoutStop } from '../message-of.ts'
import { greetingOf, tlsMismatch } from '../tls-check.ts'
import { ASLEEP_DELAY_MS, VIRTUAL_TIME, type Client } from './line-runner.ts'
import {
  connectsAnew,
  unreadyClientOf,
  type Connection,
  type UnreadyClient,
} from './reconnecting.ts'
import { hideLogin } from '../redact.ts'
import { slotOf } from '../slot-of.ts'
import { unlessTold } from '../unless-told.ts'

/** How long the server of a queue may be silent while the queue closes. */
const SILENCE_LIMIT_MS = 5_000
export const DISCONNECT_LIMIT_MS = 500
const ENDED =
  'its client was closed, or its `retryStrategy` gave up: connect it again, or make a new worker'
/** What a server says that refuses all, and not who has not logged in. */
const REFUSES = /^-((?!NOAUTH).*)/

const Backend: typeof RedisQueueBackend =
  (bullmq as Partial<typeof bullmq>).RedisQueueBackend ?? (Object as never)

/** Takes the place of a backend that BullMQ has made, with its connections. */
export abstract class ConnectedBackend extends Backend {
  /** Of the queue or worker. */
  readonly options: QueueBaseOptions & Partial<WorkerOptions>
  /** Its server does not answer, although a connection may be open. */
  isSilent = false
  /** What its connections told last, since one of them was ready. */
  lastError: string | undefined
  #needsBlocking = true

  protected constructor(inner: RedisQueueBackend, name: string) {
    const { connection, blockingConnection, keys } = inner
    const { queue, ownsConnection } = inner as unknown as {
      readonly queue: { readonly opts: QueueBaseOptions }
      readonly ownsConnection: boolean
    }
    // BullMQ needs none for the usual address, though its types ask for one.
    const given = (queue.opts as Partial<QueueBaseOptions>).connection ?? {}
    for (const each of [connection, blockingConnection]) {
      if (each === undefined) continue
      // This backend forwards what they emit; the inner one must not do it as well.
      for (const event of ['error', 'ready', 'close']) each.removeAllListeners(event)
      const client = unreadyClientOf(each)
      // A client that the user has given outlives this queue, and would keep what listens to it.
      const isGiven = each === connection && 'duplicate' in given
      if (client !== undefined && !isGiven) hearLateErrors(client)
      connectsAnew(each, given)
    }
    const toKey = (type: string): string => inner.toKey(type)
    super(connection, name, keys, toKey, queue.opts, blockingConnection, ownsConnection)
    this.options = queue.opts
    this.on('error', (error: Error) => {
      hideLogin(error) // Before the listeners of the queue, or of its user.
      this.lastError = withoutStop(messageOf(error))
    })
    this.on('ready', () => (this.lastError = undefined))
  }

  override async reconnectBlocking(): Promise<void> {
    const isOver = (): boolean => !this.#needsBlocking
    // BullMQ connects it after a pause, also where the worker has closed meanwhile.
    // rule: closed-worker-connects-no-more
    if (isOver()) return
    const client = unreadyClientOf(this.blockingConnection)
    // An ioredis `Cluster` that has ended says `close` once more when its last node has closed.
    // BullMQ connects a client that has ended, and would wait for this one without end.
    // rule: closed-cluster-is-connected-again
    if (client?.status === 'close' && client.manuallyClosing === true) client.status = 'end'
    const connected = super.reconnectBlocking()
    // The `connect` of a `Cluster` whose first check fails never settles, though it tries again.
    // rule: cluster-is-back-when-it-is-ready
    try {
      await (client === undefined ? connected : unlessTold(connected, client, 'ready'))
    } finally {
      // BullMQ waits for its end before it connects: its worker may have closed meanwhile.
      // rule: client-of-a-closed-worker-ends
      if (isOver() && client !== undefined) endClient(client)
    }
  }

  override async disconnectBlocking(wait?: boolean): Promise<void> {
    try {
      await this.blockingConnection?.client
      const client = unreadyClientOf(this.blockingConnection)
      // ioredis that is told to disconnect between two tries does not try again, and tells no end.
      // rule: client-between-two-tries-goes-on
      if (client?.status !== 'reconnecting') await super.disconnectBlocking(wait)
      else client.flushQueue?.(new Error('Connection is closed.')) // BullMQ does not report this one.
    } catch {
      // It was not connected.
    }
  }

  /** Its worker closes, and needs no more the client that waits for jobs. */
  endBlocking(): void {
    this.#needsBlocking = false
    const client = unreadyClientOf(this.blockingConnection)
    if (client?.status === 'reconnecting') endClient(client)
  }

  override async close(force?: boolean): Promise<void> {
    await super.close(force)
    for (const each of [this.connection, this.blockingConnection]) {
      const client = unreadyClientOf(each)
      // A client that has quit keeps ioredis' connections to Sentinels, and so its process.
      // rule: closed-queue-leaves-its-sentinels
      if (client?.status === 'end') client.connector?.failoverDetector?.cleanup()
    }
  }

  /** Its server answers again. A connection that has stayed open has told nothing. */
  endSilence(): void {
    this.isSilent = false
    this.emit('ready')
  }

  override async getQueueMeta(): ReturnType<RedisQueueBackend['getQueueMeta']> {
    const { [VIRTUAL_TIME]: _, ...meta } = await super.getQueueMeta()
    return meta
  }

  override async isJobInState(state: string, jobId: string): Promise<boolean> {
    const found = await this.getState(jobId)
    return found === 'waiting' ? state === 'waiting' || state === 'wait' : found === state
  }

  override async getJobData(jobId: string): ReturnType<RedisQueueBackend['getJobData']> {
    const job = await super.getJobData(jobId)
    return job?.delay === ASLEEP_DELAY_MS ? { ...job, delay: 0 } : job
  }

  /** The resources in whose lines the job was put; undefined for a job that has no place yet. */
  async recordedResources(jobId: string): Promise<readonly string[] | undefined> {
    const lines = await (await this.connection.client).hget(this.toKey(jobId), 'redlock:lines')
    return lines ? (JSON.parse(lines) as string[]) : undefined
  }

  /** Whether a worker put it among the delayed jobs, because it had no lease for it. */
  async wasGivenBack(jobId: string): Promise<boolean> {
    return (await (await this.connection.client).hget(this.toKey(jobId), 'redlock:back')) === '1'
  }

  /** When the delay of a job ends; undefined for one that has none. */
  async dueAt(jobId: string): Promise<Date | undefined> {
    const score = await (await this.connection.client).zscore(this.toKey('delayed'), jobId)
    return score ? new Date(Number(score) / 4096) : undefined
  }
}

/** Also one that waits for its next try: ioredis would tell no end of it. */
function endClient(client: UnreadyClient): void {
  // rule: client-ends-between-two-tries
  if (client.status === 'reconnecting') client.status = 'wait'
  client.disconnect()
}

/** How to reach its server; undefined for one that Sentinels or a cluster do not name yet. */
function serverOf({ connection, keys }: RedisQueueBackend): RedisOptions | undefined {
  const { options, stream, slots } = unreadyClientOf(connection) ?? {}
  const [, node, at] = /^(.*):(\d+)$/.exec(slots?.[slotOf(keys['meta'] ?? '')]?.[0] ?? '') ?? []
  if (node) return { ...options?.redisOptions, host: node, port: Number(at) }
  // Its own host is a default, and its certificate may be for Sentinels only.
  if (options?.sentinels) {
    const { remoteAddress: host, remotePort: port } = stream ?? {}
    const { tls, enableTLSForSentinelMode } = options
    return host && port
      ? { host, port, ...(tls && enableTLSForSentinelMode && { tls }) }
      : undefined
  }
  return options?.host === undefined ? undefined : (options as RedisOptions)
}

/** `host:port` of the queue's Redis, where its client tells it. */
export async function addressOf(backend: RedisQueueBackend): Promise<string> {
  await backend.connection.client
  const { host = '', port = '' } = serverOf(backend) ?? {}
  return `${host}:${port}`
}

/** Why its server does not answer: what it says to a new client, or what the connections told. */
export async function whySilent(backend: ConnectedBackend): Promise<string> {
  if (hasEnded(backend)) return ENDED
  const server = serverOf(backend)
  // Both at once: neither hears anything of a server that hangs.
  const mismatch = server && tlsMismatch(server)
  const problem = (await refusalOf(backend)) ?? (await mismatch)
  return problem ?? backend.lastError ?? 'it is frozen, overloaded or cut off'
}

/** What its server says that refuses every new client; undefined where it does not. */
export async function refusalOf(backend: RedisQueueBackend): Promise<string | undefined> {
  const server = serverOf(backend)
  return REFUSES.exec((server && (await greetingOf(server))) ?? '')?.[1]
}

/** It connects no more by itself. */
export function hasEnded({ connection }: RedisQueueBackend): boolean {
  return unreadyClientOf(connection)?.status === 'end'
}

/** BullMQ waits for a connection before it closes it; this ends its own clients at once. */
export function disconnectNow(backend: RedisQueueBackend): void {
  for (const client of ownClients(backend)) endClient(client)
}

/**
 * Whether BullMQ has closed within the time: it waits without end for a server that is away. Then
 * its clients end, and what waits with them.
 */
export async function hasClosed(
  closing: Promise<unknown>,
  backend: RedisQueueBackend,
  limitMs: number,
): Promise<boolean> {
  const closed = closing.then(() => true)
  // rule: close-waits-for-no-silent-server
  if (await withinMs(systemClock, limitMs, closed)) return true
  disconnectNow(backend)
  // It may reject with what the clients ended with.
  await withinMs(systemClock, DISCONNECT_LIMIT_MS, closed).catch(() => undefined)
  return false
}

/** As {@link hasClosed}, and a server that still sends replies has time for all of them. */
export async function hasClosedOrIsSilent(
  closing: Promise<unknown>,
  backend: RedisQueueBackend,
): Promise<void> {
  const closed = closing.then(() => true)
  // rule: close-waits-while-the-server-answers
  for (let received = -1; receivedBy(backend) > received;) {
    received = receivedBy(backend)
    if (await withinMs(systemClock, SILENCE_LIMIT_MS, closed)) return
  }
  await hasClosed(closing, backend, 0)
}

/** In bytes; 0 where the clients do not tell. */
function receivedBy(backend: RedisQueueBackend): number {
  return ownClients(backend).reduce((sum, { stream }) => sum + (stream?.bytesRead ?? 0), 0)
}

function ownClients(backend: RedisQueueBackend): readonly UnreadyClient[] {
  return [backend.connection, backend.blockingConnection].flatMap((each) => {
    const { extraOptions } = (each ?? {}) as { readonly extraOptions?: { shared?: boolean } }
    // rule: given-client-is-left-to-its-owner
    return extraOptions?.shared === true ? [] : (unreadyClientOf(each) ?? [])
  })
}

/** Whether all of its connections are ready: the one that waits for jobs may be so long before. */
export function isConnected(
  backend: Partial<RedisQueueBackend> & { readonly isSilent?: boolean },
): boolean {
  // rule: silent-server-is-not-back
  if (backend.isSilent === true) return false
  const clients = [backend.connection, backend.blockingConnection].map(unreadyClientOf)
  return clients.every((client) => client === undefined || client.status === 'ready')
}

/** BullMQ sends nothing before `prepare` was called. */
export function prepareClient(connection: Connection, prepare: (client: Client) => void): void {
  const waiting = connection as unknown as { initializing: Promise<Client> }
  waiting.initializing = waiting.initializing.then((client) => {
    prepare(client)
    return client
  })
  waiting.initializing.catch(() => undefined) // BullMQ reports a connection that fails.
}
