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

/** Why a server must not vote. */
export interface Unfit {
  /** Stable, for machines. */
  readonly code: 'no-run-id' | 'old-version' | 'replica' | 'evicts'
  readonly problem: string
  readonly fix: string
}

/** Redis 7.0 is the first with `PEXPIRE … GT`, which extending relies on. */
const MIN_MAJOR_VERSION = 7
export const BE_A_MASTER = 'list only independent masters; to make it one, run `REPLICAOF NO ONE`'
export const NEVER_EVICT =
  '`CONFIG SET maxmemory-policy noeviction`, and the same in its redis.conf; of a managed server, in its settings'

/** Everything for which such a server must not vote, the worst first. */
export function unfitFor({
  runId,
  version,
  role,
  maxmemoryPolicy,
}: Pick<ServerFacts, 'runId' | 'version' | 'role' | 'maxmemoryPolicy'>): readonly Unfit[] {
  const unfit: Unfit[] = []
  const because = (code: Unfit['code'], problem: string, fix: string): unknown =>
    unfit.push({ code, problem, fix })
  if (runId === '') {
    because('no-run-id', 'does not report its run_id', 'give this user the right to INFO')
  }
  // An unknown version is no number.
  if (!(Number.parseInt(version, 10) >= MIN_MAJOR_VERSION)) {
    because('old-version', `runs version ${version}`, 'upgrade it to Redis 7.0 or newer, or Valkey')
  }
  if (role !== 'master') {
    because('replica', `is a ${role === 'slave' ? 'replica' : role}`, BE_A_MASTER)
  }
  if (maxmemoryPolicy !== 'noeviction') {
    const problem = `may evict leases: maxmemory-policy is ${maxmemoryPolicy}`
    because('evicts', problem, NEVER_EVICT)
  }
  return unfit
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
