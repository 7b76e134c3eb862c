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
import { surveyServer, type ServerSurvey } from './server-survey.ts'

/** The most keys that a server looks at in one step of a scan. */
const SCAN_COUNT = 1_000

/** How many keys are read in one script call: well under a millisecond of the server. */
const PAGE = 400

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

  /** @param timeoutMs how long a server may take to connect, and to answer one question. */
  constructor(address: MasterAddress, timeoutMs: number) {
    this.name = masterName(address)
    this.#timeoutMs = timeoutMs
    const limits = { connectTimeoutMs: timeoutMs, socketTimeoutMs: Math.max(1_000, timeoutMs) }
    const settings = {
      ...connectionSettings(limits),
      lazyConnect: true,
      enableReadyCheck: false, // A server that loads its data is to say so.
      retryStrategy: () => null, // The next question connects again.
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
    this.#redis.disconnect()
    throw new Error(this.#lastError)
  }
}
