/**
 * A lock service besides Redis. At random its leader, at times another member, is killed, stopped
 * and cut off from its clients and its peers.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { LockCluster, LockMember } from '../../scripts/lock-servers/lock-cluster.ts'
import { LOCK_SERVERS, type Kind } from '../../scripts/lock-servers/lock-servers.ts'
import { silentLogger } from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { isStopped } from '../faults/client-processes.ts'
import { BLACK_HOLE, REFUSED } from '../faults/cuts.ts'
import { openService } from '../faults/open-service.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import type { Fault, Strike } from './fault.ts'
import { cutOf } from './network-faults.ts'
import { processFaults } from './process-faults.ts'
import type { Report } from './report.ts'
import { servicesReady } from './services-ready.ts'
import { CLIENTS, soakNamespace, Work, WORKERS } from './work.ts'
import type { World } from './world.ts'

/** What etcd grants at least, with the timing that it has by default. */
const LEASE_MS = 2_000
const MAX_LEASE_MS = 4_000
/** The members may need several rounds until one of them leads. */
const ELECTION_LIMIT_MS = 60_000
/** How often the leader is struck, compared with another member. */
const WEIGHTS = { leader: 4, member: 1 } as const
/** Some faults are over before a lease is, some outlast it. */
const FAULT_MS = { min: 120, max: 1_800 }

type Role = keyof typeof WEIGHTS
type Hurt = (strike: Strike<ClusterWorld>, member: LockMember) => Promise<number>

export class ClusterWorld implements World {
  readonly work: Work
  readonly faults: readonly Fault<ClusterWorld>[]
  readonly jobFaults: readonly [] = []
  readonly sizes = { cluster: 1, client: CLIENTS, worker: WORKERS }
  readonly lanes = 2
  readonly slowness = 3
  readonly jobs = { batch: 5, maxOpen: 100 }
  readonly drainLimitMs = 120_000
  readonly #cluster: LockCluster
  readonly #queue: TestServer
  readonly #proxies: ReadonlyMap<number, FaultProxy>
  /** The members that have led. */
  readonly #leaders = new Set<string>()

  static async open(seed: number, kind: Kind): Promise<ClusterWorld> {
    const proxies = new Map<number, FaultProxy>()
    const told = async (port: number): Promise<number> => {
      const proxy = proxies.get(port) ?? (await startProxy(port))
      proxies.set(port, proxy)
      return proxy.port
    }
    const [cluster, queue] = await Promise.all([
      LOCK_SERVERS[kind].start(3, told),
      startServer({ name: 'queue' }),
    ])
    const shared = {
      ...{ masters: [], locks: cluster.address, namespace: soakNamespace() },
      ...{ leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS },
    }
    const founder = await openService({ ...shared, logger: silentLogger })
    await servicesReady(founder)
    await founder.close()
    const work = await Work.begin({
      ...{ ...shared, seed, queue, masterTimeoutMs: LEASE_MS / 4 },
      ...{ holdMs: LEASE_MS / 4, workMs: 300 },
    })
    return new ClusterWorld(work, cluster, queue, proxies)
  }

  private constructor(
    work: Work,
    cluster: LockCluster,
    queue: TestServer,
    proxies: ReadonlyMap<number, FaultProxy>,
  ) {
    this.work = work
    this.#cluster = cluster
    this.#queue = queue
    this.#proxies = proxies
    const hasPeers = cluster.members.some(({ peerPorts }) => peerPorts.length > 0)
    this.faults = [
      ...processFaults,
      ...this.#faultsOf('leader', hasPeers),
      ...(cluster.members.length > 1 ? this.#faultsOf('member', hasPeers) : []),
    ]
  }

  #faultsOf(role: Role, hasPeers: boolean): readonly Fault<ClusterWorld>[] {
    const fault = (what: string, hurt: Hurt): Fault<ClusterWorld> => ({
      ...{ kind: `${role}:${what}`, target: 'cluster', weight: WEIGHTS[role] },
      strike: async (strike) => hurt(strike, await this.#member(role, strike)),
    })
    const cut =
      (portsOf: (member: LockMember) => readonly number[]): Hurt =>
      (strike, member) => {
        const proxies = portsOf(member).flatMap((port) => this.#proxies.get(port) ?? [])
        return cutOf(strike, strike.random.chance(0.7) ? BLACK_HOLE : REFUSED, proxies, FAULT_MS)
      }
    return [
      fault('kill', kill),
      fault('stop', stop),
      fault(
        'cut-off',
        cut(({ port, peerPorts }) => [port, ...peerPorts]),
      ),
      ...(hasPeers
        ? [
            fault(
              'cut-from-clients',
              cut(({ port }) => [port]),
            ),
          ]
        : []),
      // A follower of ZooKeeper calls its leader, so nothing comes in that could be cut.
      ...(hasPeers && role === 'leader'
        ? [
            fault(
              'cut-from-peers',
              cut(({ peerPorts }) => peerPorts),
            ),
          ]
        : []),
    ]
  }

  async #member(role: Role, { random }: Strike<ClusterWorld>): Promise<LockMember> {
    const leader = await this.#cluster.leader()
    this.#leaders.add(leader.name)
    const others = this.#cluster.members.filter((member) => member !== leader)
    return role === 'leader' ? leader : random.pick(others)
  }

  tend(): Promise<void> {
    return Promise.resolve()
  }

  undone(): Promise<number> {
    return Promise.resolve(0)
  }

  heal(): Promise<void> {
    for (const { process } of this.#cluster.members) process.thaw()
    return Promise.resolve()
  }

  async anomalies(): Promise<readonly string[]> {
    const elected = this.#cluster.leader().then(() => [])
    const nobody = [`no member leads ${ELECTION_LIMIT_MS} ms after the last fault`]
    const unled = await Promise.race([elected, delay(ELECTION_LIMIT_MS, nobody, { ref: false })])
    const found = await this.work.anomalies([], [])
    // What the service itself may have done, as in ZOOKEEPER-4837.
    if (found.length > 0) console.error((await this.#cluster.sessions?.())?.join('\n') ?? '')
    return [...unled, ...found]
  }

  facts(): Partial<Report> {
    return { leaders: this.#leaders.size }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.work[Symbol.asyncDispose]()
    await this.#cluster.close()
    await Promise.all([...this.#proxies.values()].map((proxy) => proxy.close()))
    await this.#queue.close()
  }
}

const kill: Hurt = async (strike, { process }) => {
  const before = process.pid
  await process.kill()
  await strike.rest(FAULT_MS.min, FAULT_MS.max)
  await process.restart()
  return process.pid === before ? 0 : 1
}

const stop: Hurt = async (strike, { process }) => {
  process.freeze()
  await strike.rest(FAULT_MS.min, FAULT_MS.max)
  const stopped = isStopped(process.pid)
  process.thaw()
  return stopped ? 1 : 0
}
