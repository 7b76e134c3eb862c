/** One real server on which the lock's scripts are called by hand, each test under its own resource and namespace. */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { keyspace, type Keyspace } from '../../src/lock/keyspace.ts'
import {
  acquireScript,
  bootstrapScript,
  confirmScript,
  enrolScript,
  extendScript,
  healScript,
  releaseScript,
} from '../../src/lock/scripts.ts'
import type { Script } from '../../src/redis/script.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'

type Reply = readonly [word: string, ...fields: unknown[]]

export const RUN_ID = 'run-1'
export const MAX_LEASE_MS = 30_000
export const FENCE_TTL_MS = 86_400_000
export const SKEW_MS = 10_000

/** A master that an operator has just declared empty. */
export class ScriptBench {
  readonly redis: Redis
  readonly keys: Keyspace = keyspace(`t-${randomUUID().slice(0, 8)}`)
  readonly #server: TestServer

  static async start(): Promise<ScriptBench> {
    return new ScriptBench(await startServer())
  }

  private constructor(server: TestServer) {
    this.#server = server
    this.redis = new Redis(server.url)
  }

  async close(): Promise<void> {
    this.redis.disconnect()
    await this.#server.close()
  }

  /** Forgets everything, and enrols the server for `RUN_ID` with no wait. */
  async reset(): Promise<void> {
    await this.redis.flushall()
    await this.run(bootstrapScript, [this.keys.master], [RUN_ID, MAX_LEASE_MS])
  }

  async run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<Reply> {
    return (await this.redis.eval(script.lua, keys.length, ...keys, ...args)) as Reply
  }

  /** Microseconds on the server's clock. */
  async nowUs(): Promise<number> {
    const [seconds, micros] = await this.redis.time()
    return Number(seconds) * 1_000_000 + Number(micros)
  }

  acquire(
    token: string,
    {
      resources = ['r'],
      leaseMs = 10_000,
      proposal = 0,
      skewMs = SKEW_MS,
      from = { token: '', fencingToken: 0 },
      waitMs = 0,
      enrolment = [RUN_ID, MAX_LEASE_MS],
    }: {
      readonly resources?: readonly string[]
      readonly leaseMs?: number
      readonly proposal?: number
      readonly skewMs?: number
      readonly from?: { readonly token: string; readonly fencingToken: number }
      readonly waitMs?: number
      readonly enrolment?: readonly (string | number)[]
    } = {},
  ): Promise<Reply> {
    const terms = [token, leaseMs, proposal, FENCE_TTL_MS, skewMs, from.token, from.fencingToken]
    const args = [...enrolment, ...terms, waitMs]
    return this.run(acquireScript, this.#named(token, resources), args)
  }

  confirm(token: string, fencingToken: number, resources = ['r'], runId = RUN_ID): Promise<Reply> {
    const args = [runId, MAX_LEASE_MS, token, fencingToken, FENCE_TTL_MS]
    return this.run(confirmScript, this.#named(token, resources), args)
  }

  extend(
    token: string,
    fencingToken: number,
    { leaseMs = 10_000, resources = ['r'], runId = RUN_ID } = {},
  ): Promise<Reply> {
    const args = [runId, MAX_LEASE_MS, token, leaseMs, fencingToken, FENCE_TTL_MS]
    return this.run(extendScript, this.#named(token, resources), args)
  }

  heal(
    token: string,
    fencingToken: number,
    { leaseMs = 10_000, resources = ['r'], runId = RUN_ID } = {},
  ): Promise<Reply> {
    const args = [runId, MAX_LEASE_MS, token, leaseMs, fencingToken, FENCE_TTL_MS]
    return this.run(healScript, this.#named(token, resources), args)
  }

  release(token: string, { tombstoneMs = 0, resources = ['r'] } = {}): Promise<Reply> {
    const named = resources.flatMap((name) => [this.keys.lease(name), this.keys.waiters(name)])
    const args = [token, tombstoneMs, this.keys.releases, ...resources]
    return this.run(releaseScript, [this.keys.tombstone(token), ...named], args)
  }

  enrol(
    runId: string,
    { maxLeaseMs = MAX_LEASE_MS, quarantineMs = 30_302, durable = false } = {},
  ): Promise<Reply> {
    const args = [runId, maxLeaseMs, quarantineMs, durable ? 1 : 0]
    return this.run(enrolScript, [this.keys.master], args)
  }

  async granted(token: string, terms: Parameters<ScriptBench['acquire']>[1] = {}): Promise<number> {
    const [word, , counter] = await this.acquire(token, terms)
    if (word !== 'granted' || typeof counter !== 'number') throw new Error(`not granted: ${word}`)
    return counter
  }

  holder(resource = 'r'): Promise<string | null> {
    return this.redis.get(this.keys.lease(resource))
  }

  /** As it is stored: a number could hide digits that were lost. */
  counter(resource = 'r'): Promise<string | null> {
    return this.redis.get(this.keys.fence(resource))
  }

  ttl(resource = 'r'): Promise<number> {
    return this.redis.pttl(this.keys.lease(resource))
  }

  setCounter(counter: number | string, resource = 'r'): Promise<unknown> {
    return this.redis.set(this.keys.fence(resource), counter, 'PX', FENCE_TTL_MS)
  }

  #named(token: string, resources: readonly string[]): readonly string[] {
    const { keys } = this
    const named = resources.flatMap((name) => [
      keys.lease(name),
      keys.fence(name),
      keys.waiters(name),
    ])
    return [keys.master, keys.tombstone(token), ...named]
  }
}
