/**
 * Servers that fail: lock masters behind proxies, and a queue's Redis with a replica. One fault
 * comes after the other.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { LockCluster } from '../../scripts/lock-servers/lock-cluster.ts'
import { LOCK_SERVERS, type Kind } from '../../scripts/lock-servers/lock-servers.ts'
import type { ServiceProcess } from '../../scripts/lock-servers/service-process.ts'
import { startFleet, startServer, type Fleet, type TestServer } from '../../src/testing/index.ts'
import { ProxiedMasters } from '../support/proxied-masters.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import type { MasterFault, QueueFault } from './plan.ts'
import { machineMs } from './seen.ts'
import { MASTERS, Servers } from './servers.ts'
import { ask, tell } from '../support/ask.ts'

const DURABLE = { appendonly: 'yes', appendfsync: 'always' }
const REPLICATED = { ...DURABLE, 'repl-diskless-sync-delay': '0' }
const HOST = '127.0.0.1'
const SYNC_LIMIT_MS = 5_000
const VOTES_LIMIT_MS = 5_000
const POLL_MS = 5

/** Writes between these times were acknowledged, and are gone. */
export interface Lost {
  readonly from: number
  readonly to: number
}

export class Frail implements AsyncDisposable {
  readonly servers: Servers
  readonly #locks: LockCluster | undefined
  readonly #fleet: Fleet
  readonly #proxies: ProxiedMasters
  readonly #queueProxy: FaultProxy
  #primary: TestServer
  #replica: TestServer
  #faults: Promise<unknown> = Promise.resolve()

  /** @param kind of the lock service, in place of Redis masters. */
  static async open(kind?: Kind): Promise<Frail> {
    const [locks, fleet, primary, replica] = await Promise.all([
      kind && LOCK_SERVERS[kind].start(1),
      startFleet({ masters: MASTERS, queue: false, config: DURABLE }),
      startServer({ name: 'primary', config: REPLICATED }),
      startServer({ name: 'replica', config: REPLICATED }),
    ])
    const [proxies, queueProxy] = await Promise.all([
      ProxiedMasters.start(fleet.masters),
      startProxy(primary.port),
    ])
    await follow(replica, primary)
    const queue = { host: HOST, port: queueProxy.port }
    const servers = await Servers.open(fleet.masters, queue, proxies.urls, locks?.address)
    return new Frail(servers, locks, fleet, proxies, queueProxy, primary, replica)
  }

  private constructor(
    servers: Servers,
    locks: LockCluster | undefined,
    fleet: Fleet,
    proxies: ProxiedMasters,
    queueProxy: FaultProxy,
    primary: TestServer,
    replica: TestServer,
  ) {
    this.servers = servers
    this.#locks = locks
    this.#fleet = fleet
    this.#proxies = proxies
    this.#queueProxy = queueProxy
    this.#primary = primary
    this.#replica = replica
  }

  restartQueue(): Promise<void> {
    return this.#next(async () => {
      await this.#primary.kill()
      await this.#primary.restart()
    })
  }

  failover(lostMs: number): Promise<Lost> {
    return this.#next(async () => {
      const [old, next] = [this.#primary, this.#replica]
      await inSync(old, next)
      const from = machineMs()
      await synced(old)
      await ask(next.url, (redis) => redis.replicaof('NO', 'ONE'))
      await delay(lostMs)
      await this.#queueProxy.refuse()
      this.#queueProxy.redirect(next.port)
      await this.#queueProxy.pass()
      const to = machineMs()
      await follow(old, next)
      this.#primary = next
      this.#replica = old
      return { from, to }
    })
  }

  faultQueue(how: QueueFault, forMs: number): Promise<void> {
    return this.#next(async () => {
      const [queue, proxy] = [this.#primary, this.#queueProxy]
      const { begin, end } = {
        freeze: { begin: () => queue.freeze(), end: () => queue.thaw() },
        drop: { begin: () => proxy.drop(), end: () => proxy.pass() },
        refuse: { begin: () => proxy.refuse(), end: () => proxy.pass() },
        pause: { begin: () => tell(queue, 'CLIENT', 'PAUSE', forMs), end: () => undefined },
        replicas: setsFor(queue, 'min-replicas-to-write', '9'),
        full: setsFor(queue, 'maxmemory', '1'),
      }[how]
      await begin()
      await delay(forMs)
      await end()
    })
  }

  faultMasters(how: MasterFault, first: number, count: number, forMs: number): Promise<void> {
    return this.#next(async () => {
      const [member] = this.#locks?.members ?? []
      if (member !== undefined) return faultService(member.process, how, forMs)
      const indexes = Array.from({ length: count }, (_, index) => (first + index) % MASTERS)
      await Promise.all(indexes.map((index) => this.#faultMaster(how, index, forMs)))
      return undefined
    })
  }

  async #faultMaster(how: MasterFault, index: number, forMs: number): Promise<void> {
    const master = this.#fleet.masters[index]
    if (master === undefined) return
    if (how === 'freeze') {
      await master.freeze()
      await delay(forMs)
      await master.thaw()
    } else if (how === 'cut') {
      await this.#proxies.proxy(index).drop()
      await delay(forMs)
      await this.#proxies.proxy(index).pass()
    } else {
      await master.kill()
      await delay(forMs)
      await master.restart({ keepData: how === 'kill' })
    }
  }

  /** Resolves when all faults are over, and all masters vote. */
  async right(): Promise<void> {
    await this.#faults
    const until = machineMs() + VOTES_LIMIT_MS
    const vote = (): boolean =>
      this.servers.locks.every((each) =>
        each.status().masters.every(({ state }) => state === 'voting'),
      )
    while (!vote() && machineMs() < until) await delay(POLL_MS)
  }

  #next<Result>(fault: () => Promise<Result>): Promise<Result> {
    const result = this.#faults.then(fault)
    this.#faults = result.catch(() => undefined)
    return result
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#faults
    await this.servers[Symbol.asyncDispose]()
    await this.#proxies[Symbol.asyncDispose]()
    await this.#queueProxy.close()
    const servers = [this.#fleet, this.#primary, this.#replica, this.#locks]
    await Promise.all(servers.map(async (each) => each?.close()))
  }
}

async function faultService(
  service: ServiceProcess,
  how: MasterFault,
  forMs: number,
): Promise<void> {
  const stands = how === 'freeze' || how === 'cut'
  if (stands) service.freeze()
  else await service.kill()
  await delay(forMs)
  if (stands) service.thaw()
  else await service.restart()
}

/** A setting of a server, and back to none. */
function setsFor(server: TestServer, name: string, value: string) {
  const set = (to: string) => (): Promise<unknown> => tell(server, 'CONFIG', 'SET', name, to)
  return { begin: set(value), end: set('0') }
}

async function follow(replica: TestServer, primary: TestServer): Promise<void> {
  await ask(replica.url, (redis) => redis.replicaof(HOST, primary.port))
  await inSync(primary, replica)
}

async function inSync(primary: TestServer, replica: TestServer): Promise<void> {
  const until = machineMs() + SYNC_LIMIT_MS
  const isLinked = async (): Promise<boolean> =>
    (await ask(replica.url, (redis) => redis.info('replication'))).includes('master_link_status:up')
  while (!(await isLinked())) {
    if (machineMs() > until) throw new Error('The replica does not follow')
    await delay(POLL_MS)
  }
  await synced(primary)
}

/** Until all that was written before is on the replica. */
async function synced(primary: TestServer): Promise<void> {
  const copies = await ask(primary.url, async (redis) => {
    await redis.set('combination:synced', machineMs())
    return redis.wait(1, SYNC_LIMIT_MS)
  })
  if (copies < 1) throw new Error('The replica lags')
}
