/**
 * One real server on which the lock's scripts are called by hand, each test under its own resource
 * and namespace.
 */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import { keyspace, type Keyspace } from '../../../src/redlock/keyspace.ts'
import { enrolScript } from '../../../src/redlock/fleet/admission.ts'
import { bootstrapScript } from '../../sim/simulated-scripts.ts'
import { callOf, readBatch, type Asked, type BatchReply } from '../../../src/redlock/wire/calls.ts'
import { batchScript } from '../../../src/redlock/wire/batch-script.ts'
import type { Script } from '../../../src/lua.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { inFull } from '../../sim/simulated-scripts.ts'

type Reply = readonly [word: string, ...fields: unknown[]]

export const RUN_ID = 'run-1'
export const MAX_LEASE_MS = 30_000
/** So long that small proposals do not count as those of a clock that is far behind. */
export const FENCE_TTL_MS = 100 * 365 * 86_400_000
export const SKEW_MS = 10_000

/** The run id and the longest lease that the caller believes in. */
type Enrolment = readonly [runId: string, maxLeaseMs: number, fleetSize?: number]
const ENROLMENT: Enrolment = [RUN_ID, MAX_LEASE_MS]
export const FLEET_SIZE = 5

interface Caller {
  readonly skewMs?: number
  readonly enrolment?: Enrolment
  readonly fenceTtlMs?: number
}

/** For a whole file. Before each test it is {@link ScriptBench.reset}, or empty. */
export function useScriptBench({ isEnrolled = true } = {}): ScriptBench {
  const bench = new ScriptBench()
  beforeAll(() => bench.start())
  beforeEach(async () => {
    if (isEnrolled) await bench.reset()
    else await bench.redis.flushall()
  })
  afterAll(() => bench.close())
  return bench
}

/** A master that an operator has just declared empty. */
export class ScriptBench {
  readonly #namespace = `t-${randomUUID().slice(0, 8)}`
  readonly keys: Keyspace = keyspace(this.#namespace)
  /** What the server's clock was at the last call. */
  serverMs: number | undefined
  #server: TestServer | undefined
  #redis: Redis | undefined

  get redis(): Redis {
    if (this.#redis === undefined) throw new Error('the server is started in beforeAll')
    return this.#redis
  }

  async start(): Promise<void> {
    this.#server = await startServer()
    this.#redis = new Redis(this.#server.url)
  }

  async close(): Promise<void> {
    this.#redis?.disconnect()
    await this.#server?.close()
  }

  /** Forgets everything, and enrols the server for `RUN_ID` with no wait. */
  async reset(): Promise<void> {
    await this.redis.flushall()
    await this.run(bootstrapScript, [this.keys.master], [RUN_ID, MAX_LEASE_MS, FLEET_SIZE])
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
      waitMs = 0,
      waiter = waitMs > 0 ? `${token}-waits` : '',
      enrolment = [RUN_ID, MAX_LEASE_MS],
      fenceTtlMs = FENCE_TTL_MS,
    }: {
      readonly resources?: readonly string[]
      readonly leaseMs?: number
      readonly proposal?: number
      readonly skewMs?: number
      readonly waitMs?: number
      readonly waiter?: string
      readonly enrolment?: Enrolment
      readonly fenceTtlMs?: number
    } = {},
  ): Promise<Reply> {
    const asked = { verb: 'acquire', resources, token, leaseMs, fence: proposal, waitMs, waiter }
    return this.#call(asked, { skewMs, enrolment, fenceTtlMs })
  }

  confirm(token: string, counter: number, resources = ['r'], runId = RUN_ID): Promise<Reply> {
    const asked = { verb: 'confirm', resources, token, fence: counter }
    return this.#call(asked, { enrolment: [runId, MAX_LEASE_MS] })
  }

  extend(
    token: string,
    counter: number,
    { leaseMs = 10_000, resources = ['r'], runId = RUN_ID } = {},
  ): Promise<Reply> {
    const asked = { verb: 'extend', resources, token, leaseMs, fence: counter }
    return this.#call(asked, { enrolment: [runId, MAX_LEASE_MS] })
  }

  heal(
    token: string,
    counter: number,
    { leaseMs = 10_000, resources = ['r'], runId = RUN_ID } = {},
  ): Promise<Reply> {
    const asked = { verb: 'heal', resources, token, leaseMs, fence: counter }
    return this.#call(asked, { enrolment: [runId, MAX_LEASE_MS] })
  }

  release(
    token: string,
    { tombstoneMs = 0, graceMs = 0, resources = ['r'], waiter = '' } = {},
  ): Promise<Reply> {
    const lives = { leaseMs: tombstoneMs, waitMs: graceMs }
    return this.#call({ verb: 'release', resources, token, waiter, ...lives })
  }

  withdraw(waiter: string, resources = ['r']): Promise<Reply> {
    return this.#call({ verb: 'release', resources, waiter })
  }

  enrol(
    runId: string,
    {
      maxLeaseMs = MAX_LEASE_MS,
      quarantineMs = 30_302,
      durable = false,
      fleetSize = FLEET_SIZE,
      mayBeFirst = true,
      client = 'client-1',
      quarantine = 'q-1',
      fenceTtlMs = FENCE_TTL_MS,
    } = {},
  ): Promise<Reply> {
    const flags = [durable ? 1 : 0, fleetSize, mayBeFirst ? 1 : 0]
    const args = [runId, maxLeaseMs, quarantineMs, ...flags, client, quarantine, fenceTtlMs]
    return this.run(enrolScript, [this.keys.master], args)
  }

  async granted(token: string, terms: Parameters<ScriptBench['acquire']>[1] = {}): Promise<number> {
    const [word, counter] = await this.acquire(token, terms)
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

  /** Who waits, in the order in which they should get it. */
  async places(): Promise<readonly string[]> {
    return (await this.redis.call('ZRANGE', this.keys.waiters('r'), '0', '-1')) as string[]
  }

  ttl(resource = 'r'): Promise<number> {
    return this.redis.pttl(this.keys.lease(resource))
  }

  setCounter(counter: number | string, resource = 'r'): Promise<unknown> {
    return this.redis.set(this.keys.fence(resource), counter, 'PX', FENCE_TTL_MS)
  }

  /** In one batch, one after the other. */
  async together(asked: readonly Asked[]): Promise<readonly unknown[]> {
    return (await this.#send(asked)).replies
  }

  async #call(asked: Asked, caller?: Caller): Promise<Reply> {
    const { serverMs, replies } = await this.#send([asked], caller)
    this.serverMs = serverMs
    if (replies[0] instanceof Error) throw replies[0]
    return inFull(asked, replies[0]) as Reply
  }

  async #send(
    asked: readonly Asked[],
    {
      skewMs = SKEW_MS,
      enrolment: [runId, maxLeaseMs, fleetSize = FLEET_SIZE] = ENROLMENT,
      fenceTtlMs = FENCE_TTL_MS,
    }: Caller = {},
  ): Promise<BatchReply> {
    const terms = { maxLeaseMs, fenceTtlMs, maxClockSkewMs: skewMs }
    const { lua } = batchScript({ namespace: this.#namespace, ...terms, fleetSize })
    const args = [asked.map((one) => callOf(one).entry).join(''), runId]
    return readBatch(await this.redis.eval(lua, 0, ...args), asked.length)
  }
}
