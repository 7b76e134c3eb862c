import type { Redis } from 'ioredis'
import type { Clock } from '../../clock.ts'

/** What a server says of itself when a connection to it becomes ready. */
export interface ServerFacts {
  /**
   * Who this server is and whose data it has: random per server process (`run_id`), and anew when
   * it stops being a replica (`master_replid`). A new value means that its memory may not be what
   * it was.
   */
  readonly runId: string
  readonly version: string
  readonly role: string
  readonly maxmemoryPolicy: string
  /**
   * Every acknowledged write is on disk before its reply (`appendonly yes`, `appendfsync always`),
   * and the data is this server's own: it has not been a replica, which would have replaced it.
   */
  readonly durable: boolean
  /** The server's clock minus ours, in milliseconds, to within half a round trip. */
  readonly clockOffsetMs: number
  /** The shortest of a few: while the program starts, its busy event loop makes others long. */
  readonly roundTripMs: number
}

/** The fields of an INFO reply. */
export function parseInfo(text: string): ReadonlyMap<string, string> {
  const fields = text.matchAll(/^([^:\r\n]+):(.*)/gm)
  return new Map([...fields].map(([, name = '', value = '']) => [name, value]))
}

/** A server that loads answers INFO, and little else. */
export function isLoading(info: ReadonlyMap<string, string>): boolean {
  return info.get('loading') === '1'
}

export const LOADING = 'LOADING it reads its data from disk'

/**
 * Of CONFIG. Managed services and ACLs may deny it: undefined. Without proof a master counts as not
 * durable, and serves its full delayed restart.
 */
export async function setting(redis: Redis, name: string): Promise<string | undefined> {
  const reply: unknown = await redis.config('GET', name).catch(() => undefined)
  return Array.isArray(reply) && typeof reply[1] === 'string' ? reply[1] : undefined
}

const ROUND_TRIPS = 3

type ClockReading = Pick<ServerFacts, 'roundTripMs' | 'clockOffsetMs'>

export async function readServerFacts(
  redis: Redis,
  clock: Pick<Clock, 'now' | 'wallNow'>,
): Promise<ServerFacts> {
  const info = parseInfo(await redis.info())
  const ownData = /^0*$/.test(info.get('master_replid2') ?? '')
  // `appendfsync always` holds during a rewrite of the file only without the other setting.
  // rule: durable-means-every-write-waits
  const durable =
    ownData &&
    info.get('aof_enabled') === '1' &&
    (await setting(redis, 'appendfsync')) === 'always' &&
    (await setting(redis, 'no-appendfsync-on-rewrite')) === 'no'
  const [best = { roundTripMs: 0, clockOffsetMs: 0 }] = await readClock(redis, clock, ROUND_TRIPS)
  return {
    ...{ runId: identity(info), durable, ...best },
    version: info.get('redis_version') ?? '0',
    role: info.get('role') ?? 'unknown',
    maxmemoryPolicy: info.get('maxmemory_policy') ?? 'unknown',
  }
}

/** The shortest round trip, which tells the offset best, comes first. */
export async function readClock(
  redis: Redis,
  clock: Pick<Clock, 'now' | 'wallNow'>,
  times: number,
): Promise<readonly ClockReading[]> {
  const samples: ClockReading[] = []
  while (samples.length < times) {
    const startedAt = clock.now()
    const wallBefore = clock.wallNow()
    const [seconds, micros] = await redis.time()
    const roundTripMs = clock.now() - startedAt
    const serverMs = Number(seconds) * 1_000 + Number(micros) / 1_000
    samples.push({ roundTripMs, clockOffsetMs: serverMs - (wallBefore + roundTripMs / 2) })
  }
  return samples.sort((a, b) => a.roundTripMs - b.roundTripMs)
}

/** See {@link ServerFacts.runId}; empty when the server does not tell. */
export function identity(info: ReadonlyMap<string, string>): string {
  const runId = info.get('run_id') ?? ''
  return runId === '' ? '' : `${runId}:${info.get('master_replid') ?? ''}`
}
