/**
 * What a server says of itself to an operator: more than a lock needs, and nothing of it is trusted
 * by one.
 */
import type { Redis } from 'ioredis'
import { systemClock } from '../../clock.ts'
import {
  identity,
  isLoading,
  LOADING,
  parseInfo,
  readClock,
  setting,
} from '../../redlock/wire/server-facts.ts'

export interface ServerSurvey {
  /** As in {@link ServerFacts.runId}. */
  readonly runId: string
  readonly version: string
  readonly role: string
  readonly uptimeMs: number
  readonly maxmemoryPolicy: string
  readonly usedBytes: number
  /** 0 for no limit. */
  readonly maxBytes: number
  readonly persistence: 'aof' | 'rdb' | 'none' | 'unknown'
  /** Undefined where CONFIG is denied. */
  readonly appendfsync: string | undefined
  /** Why the server refuses writes; undefined when it does not. */
  readonly writesRefused: string | undefined
  /** Of a node, the slots that its cluster serves; undefined where it serves all, or is none. */
  readonly slotsServed: number | undefined
  /** The server's clock minus ours, to within half of the shortest round trip. */
  readonly clockOffsetMs: number
  /** The median of a few round trips. */
  readonly roundTripMs: number
}

const ROUND_TRIPS = 5

/** @throws Error for a server that still loads its data; what ioredis throws. */
export async function surveyServer(redis: Redis): Promise<ServerSurvey> {
  const info = parseInfo(await redis.info())
  if (isLoading(info)) throw new Error(LOADING)
  const [appendfsync, save] = [await setting(redis, 'appendfsync'), await setting(redis, 'save')]
  const samples = await readClock(redis, systemClock, ROUND_TRIPS)
  const number = (field: string): number => Number(info.get(field) ?? 0)
  return {
    runId: identity(info),
    version: info.get('valkey_version') ?? info.get('redis_version') ?? 'unknown',
    role: info.get('role') ?? 'unknown',
    // A server whose clock was set back counts below nothing.
    uptimeMs: Math.max(0, number('uptime_in_seconds') * 1_000),
    maxmemoryPolicy: info.get('maxmemory_policy') ?? 'unknown',
    usedBytes: number('used_memory'),
    maxBytes: number('maxmemory'),
    persistence: persistenceOf(info, save),
    appendfsync,
    writesRefused: writesRefused(info),
    slotsServed: await slotsServed(redis, info),
    clockOffsetMs: samples[0]?.clockOffsetMs ?? 0,
    roundTripMs: samples[Math.floor(ROUND_TRIPS / 2)]?.roundTripMs ?? 0,
  }
}

const ALL_SLOTS = 16_384

async function slotsServed(
  redis: Redis,
  info: ReadonlyMap<string, string>,
): Promise<number | undefined> {
  if (info.get('cluster_enabled') !== '1') return undefined
  const cluster = parseInfo(await redis.cluster('INFO').catch(() => ''))
  const served = Number(cluster.get('cluster_slots_ok') ?? ALL_SLOTS)
  // Unless it is told otherwise, a cluster that lacks one slot serves none.
  if (cluster.get('cluster_state') === 'fail') return 0
  return served < ALL_SLOTS ? served : undefined
}

function persistenceOf(
  info: ReadonlyMap<string, string>,
  save: string | undefined,
): ServerSurvey['persistence'] {
  if (info.get('aof_enabled') === '1') return 'aof'
  if (save === undefined) return 'unknown'
  return save === '' ? 'none' : 'rdb'
}

function writesRefused(info: ReadonlyMap<string, string>): string | undefined {
  const failed = (field: string): boolean => (info.get(field) ?? 'ok') !== 'ok'
  if (failed('aof_last_write_status')) return 'its last write to the append-only file failed'
  if (failed('rdb_last_bgsave_status')) return 'its last snapshot failed'
  return undefined
}
