/**
 * An operator's connection to one server: it never enrols it, so it also looks into servers that
 * must not vote, and changes nothing unless it is asked to. It connects when it is used, again
 * after it was cut off, and every question has a deadline.
 */
import type { Redis } from 'ioredis'
import { systemClock, withinMs } from '../../clock.ts'
import { luaText, defineScript, type Script } from '../../lua.ts'
import { messageOf } from '../../message-of.ts'
import {
  connectionSettings,
  isWatched,
  masterName,
  type MasterAddress,
} from '../../redlock/wire/connection-settings.ts'
import { isErrorReply } from '../../redlock/wire/master.ts'
import { hearLateErrors, ioredis } from '../../ioredis.ts'
import { TlsCheck } from '../../tls-check.ts'
import {
  identity,
  isLoading,
  LOADING,
  parseInfo,
  readClock,
  setting,
  type ServerFacts,
} from '../../redlock/wire/server-facts.ts'

/** The most keys that a server looks at in one step of a scan. */
const SCAN_COUNT = 1_000

/** How many keys are read in one script call: well under a millisecond of the server. */
const PAGE = 400

const END_LIMIT_MS = 100
const CLOSED = 'the connection was closed'
/** Of a question on a connection that is gone. */
const GIVEN_UP = /enableOfflineQueue|Connection is closed|connection close$/

/** One command, and not the client. */
const DENIES = /^NOPERM|unknown command/

type KeyFacts = readonly [value: string, ttlMs: number]

const valuesScript = defineScript('values', luaText('tools/operator/lua/values'))

export class Probe {
  /** `host:port`. */
  readonly name: string
  readonly #redis: Redis
  readonly #tls: TlsCheck
  readonly #timeoutMs: number
  #connecting: Promise<void> | undefined
  #lastError = CLOSED
  #isClosed = false
  #ending: Promise<unknown> | undefined

  /** @param timeoutMs how long a server may take to connect, and to answer one question. */
  constructor(address: MasterAddress, timeoutMs: number) {
    this.name = masterName(address)
    this.#timeoutMs = timeoutMs
    // Longer than the deadline of a question, which says what was asked and for how long.
    const limits = { connectTimeoutMs: timeoutMs, socketTimeoutMs: Math.max(1_000, 2 * timeoutMs) }
    const settings = {
      ...connectionSettings(limits),
      lazyConnect: true,
      enableReadyCheck: false, // A server that loads its data is to say so.
      retryStrategy: () => null, // The next question connects again.
      disconnectTimeout: 0, // A server that hangs does not end its side.
    }
    const { Redis } = ioredis()
    const { Connector, ...others } = settings
    const own = isWatched(address)
      ? { ...others, sentinelRetryStrategy: () => null }
      : { ...others, ...(Connector && { Connector }) }
    this.#redis =
      typeof address === 'string' ? new Redis(address, own) : new Redis({ ...address, ...own })
    this.#tls = new TlsCheck(this.#redis.options)
    hearLateErrors(this.#redis)
    this.#redis.on('error', (error: Error) => {
      this.#lastError = messageOf(error)
    })
  }

  survey(): Promise<ServerSurvey> {
    return this.#ask((redis) => surveyServer(redis))
  }

  run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    const rest = [keys.length, ...keys, ...args] as const
    return this.#ask((redis) =>
      redis.evalsha(script.sha1, ...rest).catch((error: unknown) => {
        if (!messageOf(error).startsWith('NOSCRIPT')) throw error
        return redis.eval(script.lua, ...rest)
      }),
    )
  }

  command(name: string, ...args: readonly (string | number)[]): Promise<unknown> {
    return this.#ask((redis) => redis.call(name, ...args))
  }

  /**
   * Keys that match a glob pattern, a page at a time, with SCAN: a key may come twice, and one that
   * appears meanwhile may be missed. Ends when the server has looked at `maxScanned` keys, or
   * `onKeys` says `enough`.
   * @returns whether all of the server's keys have been looked at.
   */
  async scan(
    pattern: string,
    maxScanned: number,
    onKeys: (keys: readonly string[]) => unknown,
  ): Promise<boolean> {
    let cursor = '0'
    for (let scanned = 0; scanned < maxScanned; scanned += SCAN_COUNT) {
      const from = cursor
      const [next, keys] = await this.#ask((redis) =>
        redis.scan(from, 'MATCH', pattern, 'COUNT', SCAN_COUNT),
      )
      if (keys.length > 0 && (await onKeys(keys)) === 'enough') return false
      if (next === '0') return true
      cursor = next
    }
    return false
  }

  /** The text of each key, '' for none, and its time to live: -1 for one that never expires. */
  async values(keys: readonly string[]): Promise<readonly KeyFacts[]> {
    const found: KeyFacts[] = []
    for (let start = 0; start < keys.length; start += PAGE) {
      const page = await this.run(valuesScript, keys.slice(start, start + PAGE), [])
      found.push(...(page as KeyFacts[]))
    }
    return found
  }

  /** It answers nothing any more. */
  close(): void {
    this.#isClosed = true
    this.#redis.disconnect()
  }

  /** @throws Error with what the server or the network said, or that the deadline passed. */
  async #ask<Reply>(question: (redis: Redis) => Promise<Reply>): Promise<Reply> {
    if (this.#isClosed) throw new Error(CLOSED)
    await this.#within(this.#connected()).catch(async (error: unknown) => {
      throw new Error(await this.#tls.explain(messageOf(error)))
    })
    return this.#within(question(this.#redis)).catch((error: unknown) => {
      // Another question has given the connection up; ioredis says how it noticed.
      throw GIVEN_UP.test(messageOf(error)) ? new Error(this.#lastError) : error
    })
  }

  async #connected(): Promise<void> {
    if (this.#redis.status === 'ready') return
    this.#connecting ??= this.#connect()
    await this.#connecting
  }

  async #connect(): Promise<void> {
    this.#lastError = CLOSED
    try {
      await this.#redis.connect()
      // The first command hears why a server takes no client. Some servers deny this one.
      await this.#redis.client('SETNAME', 'bullmq-redlock-operator')
    } catch (error) {
      // ioredis itself says only that the connection is closed.
      const said = isErrorReply(error) ? error.message : this.#lastError
      if (!DENIES.test(said)) throw new Error(said, { cause: error })
    } finally {
      this.#connecting = undefined
    }
  }

  async #within<Reply>(reply: Promise<Reply>): Promise<Reply> {
    const answered = reply.then((value) => ({ value }))
    const answer = await withinMs(systemClock, this.#timeoutMs, answered)
    if (answer !== undefined) return answer.value
    this.#lastError = `no reply within ${this.#timeoutMs} ms`
    // What still comes on this connection would answer a question that has been given up.
    this.#ending ??= this.#end()
    await this.#ending
    throw new Error(this.#lastError)
  }

  async #end(): Promise<void> {
    const ended = new Promise((resolve) => this.#redis.once('end', resolve))
    this.#redis.disconnect()
    await withinMs(systemClock, END_LIMIT_MS, ended) // One that looks for its server ends later.
    this.#ending = undefined
  }
}

/**
 * What a server says of itself to an operator: more than a lock needs, and nothing of it is trusted
 * by one.
 */
export interface ServerSurvey extends Omit<ServerFacts, 'durable'> {
  readonly uptimeMs: number
  readonly usedBytes: number
  /** 0 for no limit. */
  readonly maxBytes: number
  readonly persistence: 'aof' | 'rdb' | 'none' | 'unknown'
  /** Undefined where CONFIG is denied. */
  readonly appendfsync: string | undefined
  /** Why the server refuses writes; undefined when it does not. */
  readonly writesRefused: string | undefined
  /** Fewer replicas keep up than its writes need. */
  readonly lacksReplicas: boolean
  /** Of a node, the slots that its cluster serves; undefined where it serves all, or is none. */
  readonly slotsServed: number | undefined
  /** The median of a few round trips. */
  readonly roundTripMs: number
}

const ROUND_TRIPS = 5
const NEEDED_REPLICAS = 'min-replicas-to-write'

/** @throws Error for a server that still loads its data; what ioredis throws. */
async function surveyServer(redis: Redis): Promise<ServerSurvey> {
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
    lacksReplicas: await lacksReplicas(redis, info),
    slotsServed: await slotsServed(redis, info),
    clockOffsetMs: samples[0]?.clockOffsetMs ?? 0,
    roundTripMs: samples[Math.floor(ROUND_TRIPS / 2)]?.roundTripMs ?? 0,
  }
}

/** The number is told where writes need replicas. */
async function lacksReplicas(redis: Redis, info: ReadonlyMap<string, string>): Promise<boolean> {
  const good = info.get('min_slaves_good_slaves')
  return good !== undefined && Number(good) < Number((await setting(redis, NEEDED_REPLICAS)) ?? 1)
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
