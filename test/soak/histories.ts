/**
 * Many short histories of a lock service besides Redis, with faults, each checked: no two trusted
 * holders, tokens that rise, and soon after everything was released nothing is taken. They run in
 * rounds, several at once on the same servers. A seed repeats what they draw.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from 'pg'
import { DEFAULT_TIMING, post, startEtcd } from '../../scripts/lock-servers/etcd-server.ts'
import type { LockCluster, LockMember } from '../../scripts/lock-servers/lock-cluster.ts'
import type { Kind } from '../../scripts/lock-servers/lock-servers.ts'
import {
  noPgbouncer,
  startPgbouncer,
  startPostgres,
} from '../../scripts/lock-servers/postgres-server.ts'
import { startZooKeeper, TICK_MS } from '../../scripts/lock-servers/zookeeper-server.ts'
import { systemClock, type Clock } from '../../src/clock.ts'
import { silentLogger, type Lease } from '../../src/index.ts'
import type { LockClient } from '../../src/services/lock-client.ts'
import { EtcdLocks } from '../../src/services/etcd/index.ts'
import { PostgresLocks } from '../../src/services/postgres/index.ts'
import { ZooKeeperLocks } from '../../src/services/zookeeper/index.ts'
import { compileShim } from '../faults/shimmed-clock.ts'
import { SeededRandom } from '../sim/seeded-random.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import { servicesReady } from './services-ready.ts'

export interface Histories {
  readonly kind: Kind
  readonly count: number
  readonly seed: number
  readonly signal: AbortSignal
  readonly say: (line: string) => void
}

export interface HistoriesReport {
  readonly histories: number
  readonly grants: number
  readonly extensions: number
  readonly transactions: number
  readonly refusals: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  readonly violations: readonly string[]
}

const AT_ONCE = 20
const CLIENTS = 9
const ACTORS = 3
const ROUND_MS = 1_000
/** For a machine that other work keeps busy, and a service that has just got its leader back. */
const GRACE_MS = 6_000
const LEASE_MS = { postgres: 800, etcd: 1_000, zookeeper: 3 * TICK_MS } as const
const MAX_STEP_MS = 2_000
const NAMESPACE = 'histories'

export async function runHistories(options: Histories): Promise<HistoriesReport> {
  const { count, seed, signal, say } = options
  await using world = await World.open(options)
  const tally = new Tally()
  const uncaught = (error: unknown): void => {
    tally.violations.push(
      `uncaught: ${error instanceof Error ? (error.stack ?? '') : String(error)}`,
    )
  }
  process.on('uncaughtException', uncaught)
  process.on('unhandledRejection', uncaught)
  try {
    for (let first = 0; first < count && !signal.aborted; first += AT_ONCE) {
      const before = tally.violations.length
      await world.round(tally, new SeededRandom(seed + first), Math.min(AT_ONCE, count - first))
      const found = tally.violations.slice(before)
      for (const violation of found) say(`--seed ${seed + first}: ${violation}`)
      say(`${tally.histories} histories, ${tally.grants} leases`)
    }
  } finally {
    process.off('uncaughtException', uncaught)
    process.off('unhandledRejection', uncaught)
  }
  return tally.report()
}

class Tally {
  readonly violations: string[] = []
  readonly refusals = new Map<string, number>()
  readonly faults = new Map<string, number>()
  histories = 0
  grants = 0
  extensions = 0
  transactions = 0

  add(to: Map<string, number>, what: string): void {
    to.set(what, (to.get(what) ?? 0) + 1)
  }

  report(): HistoriesReport {
    const { histories, grants, extensions, transactions, violations } = this
    const [refusals, faults] = [this.refusals, this.faults].map((map) => Object.fromEntries(map))
    return {
      ...{ histories, grants, extensions, transactions, violations },
      ...{ refusals: refusals ?? {}, faults: faults ?? {} },
    }
  }
}

interface Client {
  readonly locks: LockClient
  readonly clock: SteppedClock
}

/** The monotonic clock is that of all; the other one is stepped there and back. */
interface SteppedClock extends Clock {
  aheadMs: number
}

function steppedClock(): SteppedClock {
  const clock = { ...systemClock, aheadMs: 0, wallNow: () => Date.now() + clock.aheadMs }
  return clock
}

type Closer = () => Promise<unknown> | undefined

/** What a world is made of. */
interface Parts {
  readonly cluster: LockCluster
  readonly proxies: readonly FaultProxy[]
  readonly open: (clock: Clock, index: number) => LockClient
  readonly stepServer?: (ms: number) => void
  readonly store?: Pool
  readonly closers: readonly Closer[]
}

class World implements AsyncDisposable {
  readonly kind: Kind
  readonly #parts: Parts
  readonly #clients: Client[] = []

  static async open({ kind, say }: Histories): Promise<World> {
    const proxies = new Map<number, FaultProxy>()
    const closers: Closer[] = []
    const told = async (port: number): Promise<number> => {
      const proxy = proxies.get(port) ?? (await startProxy(port))
      proxies.set(port, proxy)
      return proxy.port
    }
    const leaseMs = LEASE_MS[kind]
    const times = { leaseMs, requestTimeoutMs: leaseMs }
    const shared = { ...times, namespace: NAMESPACE, logger: silentLogger }
    const world = (parts: Omit<Parts, 'proxies' | 'closers'>): World => {
      closers.unshift(() => parts.cluster.close())
      closers.push(() => Promise.all([...proxies.values()].map((proxy) => proxy.close())))
      return new World(kind, { ...parts, proxies: [...proxies.values()], closers })
    }
    if (kind === 'etcd') {
      // Peers are left alone: a stopped leader does to them what a cut does.
      const cluster = await startEtcd(3, { ...DEFAULT_TIMING, heartbeatMs: 20, electionMs: 200 })
      const ports = await Promise.all(cluster.members.map(({ port }) => told(port)))
      const endpoints = ports.map((port) => `http://127.0.0.1:${port}`)
      return world({ cluster, open: (clock) => new EtcdLocks({ ...shared, endpoints, clock }) })
    }
    if (kind === 'zookeeper') {
      const cluster = await startZooKeeper(3)
      const ports = await Promise.all(cluster.members.map(({ port }) => told(port)))
      const servers = ports.map((port) => `127.0.0.1:${port}`).join()
      const options = { ...shared, servers, tickMs: TICK_MS }
      return world({ cluster, open: (clock) => new ZooKeeperLocks({ ...options, clock }) })
    }
    const answer = await compileShim()
    const shim = answer.status === 'ready' ? answer.shim : undefined
    if (answer.status === 'absent') say(`The clock of the server is left alone: ${answer.reason}`)
    const env = shim?.environment('histories')
    const cluster = await startPostgres(['max_connections=300'], undefined, env)
    const port = await told(cluster.port)
    const address = { connectionString: undefined, host: '127.0.0.1', user: 'postgres' }
    const direct = cluster.pool({ ...address, database: 'postgres', port, max: 40 })
    const bouncer = noPgbouncer ? undefined : await startPgbouncer(cluster)
    const bounced = bouncer?.pool({ max: 40 }) ?? direct
    const store = cluster.pool({ max: 4 })
    await store.query('CREATE TABLE writes (seq bigserial, resource text, token bigint)')
    closers.push(
      ...[...new Set([direct, bounced, store])].map((pool) => () => pool.end()),
      () => bouncer?.close(),
      () => Promise.resolve(shim?.remove()),
    )
    const clock = shim?.clock('histories')
    const stepServer = (ms: number): void => clock?.step(ms)
    const open = (clock: Clock, index: number): LockClient => {
      const listen = index % 3 === 0 ? { listen: () => cluster.client() } : {}
      return new PostgresLocks({ ...shared, ...listen, clock, pool: index % 2 ? bounced : direct })
    }
    return world({ cluster, open, stepServer, store })
  }

  private constructor(kind: Kind, parts: Parts) {
    this.kind = kind
    this.#parts = parts
  }

  /** Histories at once, the faults that they meet, and then what must hold in quiet. */
  async round(tally: Tally, random: SeededRandom, size: number): Promise<void> {
    await this.#renewClients(random)
    const histories = Array.from(
      { length: size },
      () => new History(this, tally, this.#clients, random.fork()),
    )
    const over = new AbortController()
    const faults = this.#faults(tally, random.fork(), over.signal)
    await Promise.all(histories.map((history) => history.run()))
    over.abort()
    await faults
    await Promise.all(this.#parts.proxies.map((proxy) => proxy.pass()))
    for (const { clock } of this.#clients) clock.aheadMs = 0
    const observer = this.#parts.open(steppedClock(), 0)
    const startedAt = performance.now()
    const limitMs = this.#freeWithinMs + GRACE_MS
    await Promise.all(histories.map((history) => history.judge(observer, startedAt, limitMs)))
    await observer.close()
    await this.#judgeWrites(tally)
    tally.histories += size
  }

  /** Of its transactions: rises from write to write. */
  async #judgeWrites(tally: Tally): Promise<void> {
    const { store } = this.#parts
    if (store === undefined) return
    const { rows } = await store.query<{ resource: string }>(`
      SELECT resource, seq, token, before FROM (
        SELECT *, lag(token) OVER (PARTITION BY resource ORDER BY seq) AS before FROM writes
      ) AS ordered WHERE token < before`)
    tally.violations.push(
      ...rows.map((row) => `a write with a smaller token: ${JSON.stringify(row)}`),
    )
    await store.query('TRUNCATE writes')
  }

  /** Leases of etcd may last twice as long when its leader changes. */
  get #freeWithinMs(): number {
    const leaseMs = LEASE_MS[this.kind]
    return this.kind === 'postgres' ? leaseMs + MAX_STEP_MS : 2 * leaseMs
  }

  async #renewClients(random: SeededRandom): Promise<void> {
    const leaving = this.#clients.splice(0, this.#clients.length === CLIENTS ? 3 : 0)
    await Promise.all(leaving.map(({ locks }) => locks.close()))
    while (this.#clients.length < CLIENTS) {
      const clock = steppedClock()
      const locks = this.#parts.open(clock, random.integer(0, 5))
      await servicesReady(locks)
      this.#clients.push({ locks, clock })
    }
  }

  /** What happens to servers, and beside it what happens to networks and clocks. */
  async #faults(tally: Tally, random: SeededRandom, signal: AbortSignal): Promise<void> {
    const lane = async (
      draws: SeededRandom,
      choose: (draws: SeededRandom, ms: number) => Promise<readonly Fault[]>,
    ): Promise<void> => {
      while (!signal.aborted) {
        await delay(draws.between(0, ROUND_MS / 3))
        const ms = draws.between(0.1, 1.5) * LEASE_MS[this.kind]
        const [name, strike] = draws.pick(await choose(draws, ms))
        tally.add(tally.faults, name)
        await strike()
      }
    }
    await Promise.all([
      lane(random.fork(), (draws, ms) => this.#serverFaults(draws, ms)),
      lane(random.fork(), (draws, ms) => Promise.resolve(this.#otherFaults(draws, ms))),
    ])
  }

  async #serverFaults(random: SeededRandom, ms: number): Promise<readonly Fault[]> {
    const { members } = this.#parts.cluster
    const leader = await this.#parts.cluster.leader()
    const member = random.chance(0.6) ? leader : random.pick(members)
    return [
      ...repeated(3, ['stop', () => frozen([member], ms)] as const),
      ...repeated(2, ['stop all', () => frozen(members, ms)] as const),
      ...(random.chance(0.5) ? ([['kill', () => killed(member, ms)]] as const) : []),
      ...(random.chance(0.2) ? ([['kill all', () => killedAll(members, ms)]] as const) : []),
    ]
  }

  #otherFaults(random: SeededRandom, ms: number): readonly Fault[] {
    const proxy = random.pick(this.#parts.proxies)
    const { clock } = random.pick(this.#clients)
    const ended = async (): Promise<void> => {
      await delay(ms)
      await proxy.pass()
    }
    return [
      ['cut off', () => proxy.drop().then(ended)],
      ['refuse', () => proxy.refuse().then(ended)],
      ['reset', () => reset(proxy)],
      ['late replies', () => late(proxy, ms)],
      ...repeated(2, ['clock of a client', () => stepped(clock, random, ms)] as const),
      ...(this.kind === 'etcd' ? ([['compact', () => this.#compact()]] as const) : []),
      // Only back: a step forward ends leases early, as docs/choosing.md says.
      ...(this.kind === 'postgres'
        ? ([['clock of the server', () => this.#stepBack(random)]] as const)
        : []),
    ]
  }

  #stepBack(random: SeededRandom): Promise<void> {
    this.#parts.stepServer?.(-random.between(10, MAX_STEP_MS / 3))
    return Promise.resolve()
  }

  async #compact(): Promise<void> {
    const url = `http://127.0.0.1:${this.#parts.cluster.members[0]?.port ?? 0}`
    try {
      const { header } = (await (await post(url, '/v3/kv/range', { key: 'AA==' })).json()) as {
        header: { revision: string }
      }
      await post(url, '/v3/kv/compaction', { revision: header.revision })
    } catch {
      // Another fault is in its way.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map(({ locks }) => locks.close()))
    for (const close of this.#parts.closers) await close()
  }
}

type Fault = readonly [name: string, strike: () => Promise<unknown>]

function repeated(times: number, fault: Fault): readonly Fault[] {
  return Array.from({ length: times }, () => fault)
}

async function frozen(members: readonly LockMember[], ms: number): Promise<void> {
  for (const { process } of members) process.freeze()
  await delay(ms)
  for (const { process } of members) process.thaw()
}

async function killed({ process }: LockMember, ms: number): Promise<void> {
  await process.kill()
  await delay(ms)
  await process.restart()
}

async function killedAll(members: readonly LockMember[], ms: number): Promise<void> {
  await Promise.all(members.map(({ process }) => process.kill()))
  await delay(ms)
  for (const { process } of members) process.launch()
  await Promise.all(members.map(({ process }) => process.ready()))
}

function reset(proxy: FaultProxy): Promise<void> {
  proxy.reset()
  return Promise.resolve()
}

async function late(proxy: FaultProxy, ms: number): Promise<void> {
  const hold = proxy.holdReplies()
  await delay(ms)
  hold.release()
}

async function stepped(clock: SteppedClock, random: SeededRandom, ms: number): Promise<void> {
  clock.aheadMs = random.between(-1, 1) * random.pick([100, 1_000, 3_600_000])
  await delay(ms)
  clock.aheadMs = 0
}

let names = 0

/** Some clients, two resources of their own, and what became of them. */
class History {
  readonly #world: World
  readonly #tally: Tally
  readonly #clients: readonly Client[]
  readonly #random: SeededRandom
  readonly #resources: readonly string[]
  readonly #trusted = new Map<string, Set<Lease>>()
  readonly #tokens = new Map<string, number>()

  constructor(world: World, tally: Tally, clients: readonly Client[], random: SeededRandom) {
    this.#world = world
    this.#tally = tally
    this.#clients = random.shuffle(clients).slice(0, ACTORS)
    this.#random = random
    const name = `h${names++}`
    this.#resources = [`${name}a`, `${name}b`]
  }

  async run(): Promise<void> {
    const actors = this.#clients.map(({ locks }) => this.#act(locks, this.#random.fork()))
    await Promise.all(actors)
  }

  /** Everything was released, or none extends it. */
  async judge(observer: LockClient, startedAt: number, limitMs: number): Promise<void> {
    try {
      const waitMs = Math.max(0, Math.ceil(startedAt + limitMs - performance.now()))
      const lease = await observer.acquire(this.#resources, { waitMs })
      this.#granted(lease)
      await lease.release()
    } catch (error) {
      this.#violated(`${limitMs} ms after the end: ${String(error)}`)
    }
  }

  async #act(locks: LockClient, random: SeededRandom): Promise<void> {
    const until = performance.now() + ROUND_MS
    while (performance.now() < until) {
      await delay(random.between(0, 100))
      const names = random.chance(0.3) ? this.#resources : random.pick(this.#resources)
      const isTransaction = locks instanceof PostgresLocks && random.chance(0.2)
      try {
        if (isTransaction) await this.#transaction(locks, names)
        else await this.#hold(locks, names, random)
      } catch (error) {
        this.#refused(error)
      }
    }
  }

  async #hold(
    locks: LockClient,
    names: string | readonly string[],
    random: SeededRandom,
  ): Promise<void> {
    const autoExtend = random.chance(0.3)
    const lease = await this.#acquire(locks, names, random, autoExtend)
    if (lease === undefined) return
    this.#granted(lease)
    try {
      for (let steps = random.integer(0, 3); steps > 0; steps--) {
        await delay(random.between(0, LEASE_MS[this.#world.kind] / 3))
        if (locks instanceof PostgresLocks && random.chance(0.3)) {
          await this.#transaction(locks, lease)
        } else if ((await lease.extend()).status === 'extended') {
          this.#tally.extensions++
          this.#alone(lease)
        }
      }
    } finally {
      // The others are forgotten.
      if (autoExtend || random.chance(0.8)) await lease.release()
    }
  }

  async #acquire(
    locks: LockClient,
    names: string | readonly string[],
    random: SeededRandom,
    autoExtend: boolean,
  ): Promise<Lease | undefined> {
    if (random.chance(0.4)) {
      const outcome = await locks.tryAcquire(names, { autoExtend })
      if (outcome.status === 'granted') return outcome.lease
      this.#tally.add(this.#tally.refusals, outcome.status)
      return undefined
    }
    const abort = new AbortController()
    const timer = setTimeout(
      () => {
        abort.abort(new Error('given up'))
      },
      random.between(50, ROUND_MS),
    )
    try {
      const waitMs = Math.round(random.between(0, ROUND_MS))
      const signal = random.chance(0.3) ? { signal: abort.signal } : {}
      return await locks.acquire(names, { waitMs, autoExtend, ...signal })
    } finally {
      clearTimeout(timer)
    }
  }

  async #transaction(
    locks: PostgresLocks,
    lock: Lease | string | readonly string[],
  ): Promise<void> {
    const resources = typeof lock === 'object' && 'token' in lock ? lock.resources : [lock].flat()
    await locks.transaction(lock, async ({ client, fencingToken }) => {
      const text = 'INSERT INTO writes (resource, token) SELECT unnest($1::text[]), $2'
      await client.query({ text, values: [resources, fencingToken] })
      await delay(this.#random.between(0, 20))
    })
    this.#tally.transactions++
  }

  #granted(lease: Lease): void {
    this.#tally.grants++
    for (const resource of lease.resources) {
      const last = this.#tokens.get(resource) ?? 0
      if (lease.fencingToken <= last) {
        this.#violated(`token ${lease.fencingToken} of ${resource} follows ${last}`)
      }
      this.#tokens.set(resource, Math.max(last, lease.fencingToken))
      const trusted = this.#trusted.get(resource) ?? new Set()
      this.#trusted.set(resource, trusted.add(lease))
    }
    this.#alone(lease)
  }

  #alone(lease: Lease): void {
    for (const resource of lease.resources) {
      for (const other of this.#trusted.get(resource) ?? []) {
        if (other === lease || other.remainingMs() === 0 || lease.remainingMs() === 0) continue
        this.#violated(`two trusted holders of ${resource}`)
      }
    }
  }

  #refused(error: unknown): void {
    const { code, name } = error as { code?: string; name?: string }
    const isBug = [TypeError, RangeError, ReferenceError].some((bug) => error instanceof bug)
    if (isBug) this.#violated(String((error as Error).stack))
    this.#tally.add(this.#tally.refusals, code ?? name ?? 'unknown')
  }

  #violated(what: string): void {
    this.#tally.violations.push(what)
  }
}
