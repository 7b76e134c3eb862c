import type { Redis } from 'ioredis'

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
  /**
   * The shortest of a few: an event loop that is busy while the program starts makes others long.
   */
  readonly roundTripMs: number
}

/** The fields of an INFO reply. */
export function parseInfo(text: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>()
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1))
  }
  return fields
}

/**
 * `appendfsync always` holds during a rewrite of the file only with `no-appendfsync-on-rewrite no`.
 * Both are only in CONFIG, which managed services and ACLs may deny: then it counts as not
 * "always".
 */
async function fsyncsAlways(redis: Redis): Promise<boolean> {
  try {
    // rule: durable-means-every-write-waits
    return (
      (await configOf(redis, 'appendfsync')) === 'always' &&
      (await configOf(redis, 'no-appendfsync-on-rewrite')) === 'no'
    )
  } catch {
    return false // Denied: without proof the master serves its full delayed restart.
  }
}

async function configOf(redis: Redis, name: string): Promise<unknown> {
  const reply: unknown = await redis.config('GET', name)
  return Array.isArray(reply) ? reply[1] : undefined
}

const ROUND_TRIPS = 3

export interface FactsClock {
  now(): number
  wallNow(): number
}

export async function readServerFacts(redis: Redis, clock: FactsClock): Promise<ServerFacts> {
  const info = parseInfo(await redis.info())
  const ownData = /^0*$/.test(info.get('master_replid2') ?? '')
  const durable = ownData && info.get('aof_enabled') === '1' && (await fsyncsAlways(redis))
  const { clockOffsetMs, roundTripsMs } = await readClock(redis, clock, ROUND_TRIPS)
  return {
    runId: identity(info),
    version: info.get('redis_version') ?? '0',
    role: info.get('role') ?? 'unknown',
    maxmemoryPolicy: info.get('maxmemory_policy') ?? 'unknown',
    durable,
    clockOffsetMs,
    roundTripMs: roundTripsMs[0] ?? 0,
  }
}

/** The round trip that was shortest tells the offset best; `roundTripsMs` begins with it. */
export async function readClock(
  redis: Redis,
  clock: FactsClock,
  times: number,
): Promise<{ readonly clockOffsetMs: number; readonly roundTripsMs: readonly number[] }> {
  const samples: { readonly roundTripMs: number; readonly clockOffsetMs: number }[] = []
  for (let sample = 0; sample < times; sample++) {
    const startedAt = clock.now()
    const wallBefore = clock.wallNow()
    const [seconds, micros] = await redis.time()
    const roundTripMs = clock.now() - startedAt
    const serverMs = Number(seconds) * 1_000 + Number(micros) / 1_000
    samples.push({ roundTripMs, clockOffsetMs: serverMs - (wallBefore + roundTripMs / 2) })
  }
  samples.sort((a, b) => a.roundTripMs - b.roundTripMs)
  const roundTripsMs = samples.map(({ roundTripMs }) => roundTripMs)
  return { clockOffsetMs: samples[0]?.clockOffsetMs ?? 0, roundTripsMs }
}

/** See {@link ServerFacts.runId}; empty when the server does not tell. */
export function identity(info: ReadonlyMap<string, string>): string {
  const runId = info.get('run_id') ?? ''
  return runId === '' ? '' : `${runId}:${info.get('master_replid') ?? ''}`
}
