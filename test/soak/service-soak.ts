/**
 * A soak of a lock service besides Redis. At random its leader, at times another member, is killed,
 * stopped and cut off from its clients and its peers, and so are the processes that hold leases.
 * Then it is quiet, and everything that was written is judged.
 */
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { LockCluster, LockMember } from '../../scripts/lock-servers/lock-cluster.ts'
import { LOCK_SERVERS, type Kind } from '../../scripts/lock-servers/lock-servers.ts'
import { silentLogger } from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { storeDisorder } from '../faults/checkers/fenced-store.ts'
import { wedgedResources } from '../faults/checkers/liveness.ts'
import { lostUpdates } from '../faults/checkers/lost-updates.ts'
import { ClientProcesses } from '../faults/client-processes.ts'
import { History } from '../faults/history.ts'
import { STOPS, type WorkerSetup } from '../faults/job-states.ts'
import { leaseAnomalies, LeaseLogs } from '../faults/lease-logs.ts'
import { openService } from '../faults/open-service.ts'
import { FencedStore } from '../faults/store.ts'
import { JobLedger, WorkerProcesses } from '../faults/worker-processes.ts'
import { SeededRandom } from '../sim/seeded-random.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import { servicesReady } from './services-ready.ts'
import type { Tally } from './nemesis.ts'
import type { Report } from './report.ts'

/** What etcd grants at least, with the timing that it has by default. */
const LEASE_MS = 2_000
const MAX_LEASE_MS = 4_000
const CLIENTS = 3
const WORKERS = 2
const RESOURCES = ['r1', 'r2', 'r3', 'r4']
const CUSTOMERS = ['c1', 'c2', 'c3', 'c4', 'c5']
const JOBS_PER_BATCH = 5
const BATCH_MS = 1_500
const MAX_OPEN_JOBS = 100
const DRAIN_LIMIT_MS = 120_000
const PROGRESS_MS = 15_000
/** The members may need several rounds until one of them leads. */
const ELECTION_LIMIT_MS = 60_000
/** Some faults are over before the lease is, some outlast it. */
const FAULT_LEASES = { min: 0.2, max: 3 }
const REST_LEASES = { min: 0.3, max: 2 }
const LEADER_SHARE = 0.8
const MIN_CHANCES = 5

export interface ServiceSoak {
  readonly kind: Kind
  readonly minutes: number
  readonly seed: number
  /** Ends it early. */
  readonly signal: AbortSignal
  say(line: string): void
}

export async function soakService(options: ServiceSoak): Promise<Report> {
  const startedAt = performance.now()
  await using harness = await ServiceHarness.open(options)
  const rage = new Rage(harness, options)
  await rage.untilOver()
  return {
    ...(await harness.judge(rage)),
    seconds: Math.round((performance.now() - startedAt) / 1_000),
  }
}

class ServiceHarness implements AsyncDisposable {
  readonly history = new History()
  readonly options: ServiceSoak
  readonly cluster: LockCluster
  readonly clients: ClientProcesses
  readonly workers: WorkerProcesses
  readonly ledger: JobLedger
  readonly #proxies: ReadonlyMap<number, FaultProxy>
  readonly #servers: readonly TestServer[]
  readonly #setup: WorkerSetup
  readonly #leaseLogs: LeaseLogs

  static async open(options: ServiceSoak): Promise<ServiceHarness> {
    const proxies = new Map<number, FaultProxy>()
    const told = async (port: number): Promise<number> => {
      const proxy = proxies.get(port) ?? (await startProxy(port))
      proxies.set(port, proxy)
      return proxy.port
    }
    const [cluster, queue, store, clients] = await Promise.all([
      LOCK_SERVERS[options.kind].start(3, told),
      startServer({ name: 'queue' }),
      startServer({ name: 'store' }),
      ClientProcesses.start(CLIENTS),
    ])
    const leaseLogs = new LeaseLogs()
    const namespace = `soak-${randomUUID().slice(0, 8)}`
    const setup: WorkerSetup = {
      ...{ queue: namespace, connection: { host: queue.host, port: queue.port }, masters: [] },
      ...{ locks: cluster.address, namespace, storeUrl: store.url },
      ...{ leaseLogs: leaseLogs.directory, leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS },
      ...{ concurrency: 4, workMs: 300 },
    }
    const founder = await openService({ ...setup, logger: silentLogger })
    await servicesReady(founder)
    await founder.close()
    const harness = new ServiceHarness(
      options,
      cluster,
      clients,
      setup,
      [queue, store],
      proxies,
      leaseLogs,
    )
    await clients.begin(
      {
        ...{ urls: [], locks: cluster.address, storeUrl: store.url, namespace },
        ...{ leaseLogs: leaseLogs.directory, resources: RESOURCES, loops: 2 },
        ...{ leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS, holdMs: LEASE_MS / 4 },
        masterTimeoutMs: LEASE_MS / 4,
      },
      options.seed,
      harness.history,
    )
    return harness
  }

  private constructor(
    options: ServiceSoak,
    cluster: LockCluster,
    clients: ClientProcesses,
    setup: WorkerSetup,
    servers: readonly TestServer[],
    proxies: ReadonlyMap<number, FaultProxy>,
    leaseLogs: LeaseLogs,
  ) {
    this.options = options
    this.cluster = cluster
    this.clients = clients
    this.#setup = setup
    this.#servers = servers
    this.#proxies = proxies
    this.#leaseLogs = leaseLogs
    this.ledger = new JobLedger(setup, CUSTOMERS)
    this.workers = new WorkerProcesses(setup, WORKERS)
  }

  proxiesOf(ports: readonly number[]): readonly FaultProxy[] {
    return ports.flatMap((port) => this.#proxies.get(port) ?? [])
  }

  /** No more faults: what was begun must come to its end, and be right. */
  async judge({ tallies, failures, leaders }: Rage): Promise<Omit<Report, 'seconds'>> {
    const { minutes, seed, signal } = this.options
    for (const { process } of this.cluster.members) process.thaw()
    for (const pid of this.workers.pids) process.kill(pid, 'SIGCONT')
    for (const index of this.clients.pids.keys()) this.clients.resume(index)
    const limit = performance.now() + DRAIN_LIMIT_MS
    const open = async (): Promise<number> => this.ledger.added - (await this.ledger.completed())
    while ((await open()) > 0 && performance.now() < limit && !signal.aborted) await delay(100)
    const left = await open()
    if (left > 0) for (const job of await this.ledger.open()) this.options.say(job)
    const anomalies = [...failures, ...(await this.clients.end()), ...(await this.#anomalies())]
    anomalies.push(...(await this.workers.leave()), ...(await this.clients.leave()))
    const verdict = await this.#leaseLogs.verdict()
    anomalies.push(...leaseAnomalies(verdict))
    // In a short run a rare fault may have been chosen only when nothing was in its way.
    const blind = [...tallies]
      .filter(([, { struck, unseen }]) => struck === 0 && unseen >= MIN_CHANCES)
      .map(([kind]) => kind)
    const { history, ledger } = this
    return {
      ...{ seed, minutes, interrupted: signal.aborted, leaders: leaders.size },
      faults: Object.fromEntries([...tallies].sort(([a], [b]) => a.localeCompare(b))),
      struck: [...tallies.values()].reduce((sum, { struck }) => sum + struck, 0),
      ...{ leases: verdict.leases, extensions: verdict.extensions, endings: verdict.endings },
      refusals: Object.fromEntries(history.refusals),
      ...{ writes: history.writes.length, staleWrites: history.staleWrites },
      jobs: { added: ledger.added, open: left },
      ...{ anomalies, blind },
      passed: !signal.aborted && anomalies.length === 0 && left === 0 && blind.length === 0,
    }
  }

  async #anomalies(): Promise<readonly string[]> {
    const { history } = this
    const { storeUrl, namespace } = this.#setup
    const limitMs = 2 * MAX_LEASE_MS + 5_000
    const elected = this.cluster.leader().then(() => [])
    const nobody = [`no member leads ${ELECTION_LIMIT_MS} ms after the last fault`]
    const unled = await Promise.race([elected, delay(ELECTION_LIMIT_MS, nobody, { ref: false })])
    const store = new FencedStore(storeUrl, namespace)
    const written = await Promise.all(
      RESOURCES.map(async (resource) => {
        const log = await store.log(resource)
        const { writes } = history
        return [...storeDisorder(resource, log, writes), ...lostUpdates(resource, log, writes)]
      }),
    )
    store.close()
    return [
      ...unled,
      ...(await wedgedResources({ ...this.#setup, resources: RESOURCES, limitMs })),
      ...history.problems,
      ...history.unsettled.map((what) => `a promise of ${what} never settled`),
      ...written.flat(),
      ...(await this.ledger.anomalies()),
    ]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ledger.close()
    await this.cluster.close()
    await Promise.all([...this.#proxies.values()].map((proxy) => proxy.close()))
    await Promise.all(this.#servers.map((server) => server.close()))
    this.#leaseLogs.remove()
  }
}

/** Returns whether the fault was seen to strike. */
type Strike = () => Promise<boolean>

/** Two lanes of faults, for servers and for processes, and the jobs that they meet. */
class Rage {
  readonly tallies = new Map<string, Tally>()
  readonly failures: string[] = []
  /** The members that have led. */
  readonly leaders = new Set<string>()
  readonly #harness: ServiceHarness
  readonly #random: SeededRandom
  readonly #over = new AbortController()

  constructor(harness: ServiceHarness, { seed }: ServiceSoak) {
    this.#harness = harness
    this.#random = new SeededRandom(seed)
  }

  async untilOver(): Promise<void> {
    const { minutes, signal } = this.#harness.options
    const end = (): void => {
      this.#over.abort()
    }
    const timer = setTimeout(end, minutes * 60_000)
    signal.addEventListener('abort', end)
    if (signal.aborted) end()
    await Promise.all([
      this.#lane(() => this.#serverFault()),
      this.#lane(() => this.#processFault()),
      this.#addJobs(),
      this.#reportProgress(),
    ])
    clearTimeout(timer)
  }

  async #lane(choose: () => Promise<readonly [kind: string, strike: Strike]>): Promise<void> {
    while (!this.#isOver()) {
      await this.#rest(REST_LEASES)
      if (this.#isOver()) return
      const [kind, strike] = await choose()
      const tally = this.tallies.get(kind) ?? { struck: 0, unseen: 0 }
      this.tallies.set(kind, tally)
      try {
        if (await strike()) tally.struck++
        else tally.unseen++
      } catch (error) {
        this.failures.push(`${kind}: ${String(error)}`)
      }
    }
  }

  async #serverFault(): Promise<readonly [string, Strike]> {
    const leader = await this.#harness.cluster.leader()
    this.leaders.add(leader.name)
    const isLeader = this.#random.chance(LEADER_SHARE)
    const member = isLeader ? leader : this.#random.pick(this.#harness.cluster.members)
    const role = member === leader ? 'leader' : 'member'
    const faults: readonly (readonly [string, Strike])[] = [
      [`${role}:kill`, () => this.#kill(member)],
      [`${role}:stop`, () => this.#stop(member)],
      [`${role}:cut-off`, () => this.#cut(member, [member.port, ...member.peerPorts])],
      [`${role}:cut-from-clients`, () => this.#cut(member, [member.port])],
      [`${role}:cut-from-peers`, () => this.#cut(member, member.peerPorts)],
    ]
    if (member.peerPorts.length === 0) return this.#random.pick(faults.slice(0, 3))
    // A follower of ZooKeeper calls its leader, so nothing comes in that could be cut.
    return this.#random.pick(member === leader ? faults : faults.slice(0, 4))
  }

  async #kill({ process }: LockMember): Promise<boolean> {
    const before = process.pid
    await process.kill()
    await this.#rest(FAULT_LEASES)
    await process.restart()
    return process.pid !== before
  }

  async #stop({ process }: LockMember): Promise<boolean> {
    process.freeze()
    await this.#rest(FAULT_LEASES)
    const stat = readFileSync(`/proc/${process.pid}/stat`, 'utf8')
    process.thaw()
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T')
  }

  /** A black hole, or refused connections. */
  async #cut(_member: LockMember, ports: readonly number[]): Promise<boolean> {
    const proxies = this.#harness.proxiesOf(ports)
    const count = (): number =>
      proxies.reduce(
        (sum, { counters }) =>
          sum + counters.requests.lost + counters.replies.lost + counters.resets,
        0,
      )
    const before = count()
    const isBlackHole = this.#random.chance(0.7)
    await Promise.all(proxies.map((proxy) => (isBlackHole ? proxy.drop() : proxy.refuse())))
    await this.#rest(FAULT_LEASES)
    const seen = count() - before
    await Promise.all(proxies.map((proxy) => proxy.pass()))
    return seen > 0
  }

  #processFault(): Promise<readonly [string, Strike]> {
    const { clients, workers } = this.#harness
    const client = this.#random.integer(0, CLIENTS - 1)
    const worker = this.#random.integer(0, WORKERS - 1)
    const stop = this.#random.pick(STOPS)
    const faults: readonly (readonly [string, Strike])[] = [
      ['client:stop', () => this.#stopClient(client)],
      ['client:stop', () => this.#stopClient(client)],
      ['client:kill', () => clients.replace(client).then(() => true)],
      ['worker:stop', () => this.#stopWorker(worker)],
      ['worker:kill', () => workers.killOne(worker / WORKERS).then(() => true)],
      [`worker:${stop}`, async () => (await workers.stopOne(worker, stop)) > 0],
    ]
    return Promise.resolve(this.#random.pick(faults))
  }

  async #stopClient(index: number): Promise<boolean> {
    const { clients } = this.#harness
    clients.stop(index)
    await this.#rest(FAULT_LEASES)
    const isStopped = clients.isStopped(index)
    clients.resume(index)
    return isStopped
  }

  async #stopWorker(index: number): Promise<boolean> {
    const pid = this.#harness.workers.pids[index]
    if (pid === undefined) return false
    process.kill(pid, 'SIGSTOP')
    await this.#rest(FAULT_LEASES)
    process.kill(pid, 'SIGCONT')
    return true
  }

  async #addJobs(): Promise<void> {
    const { ledger } = this.#harness
    while (!this.#isOver()) {
      const open = ledger.added - (await ledger.completed())
      if (open < MAX_OPEN_JOBS) await ledger.add(JOBS_PER_BATCH)
      await this.#pause(BATCH_MS)
    }
  }

  async #reportProgress(): Promise<void> {
    const { options, history, ledger } = this.#harness
    for (let at = 0; !this.#isOver(); at += PROGRESS_MS) {
      await this.#pause(PROGRESS_MS)
      const struck = [...this.tallies.values()].reduce((sum, tally) => sum + tally.struck, 0)
      const jobs = `${await ledger.completed()} of ${ledger.added} jobs done`
      options.say(`${at / 1_000} s: ${struck} faults, ${history.leases.size} leases, ${jobs}`)
    }
  }

  #isOver(): boolean {
    return this.#over.signal.aborted
  }

  #rest({ min, max }: { readonly min: number; readonly max: number }): Promise<void> {
    return this.#pause(this.#random.between(min, max) * LEASE_MS)
  }

  async #pause(ms: number): Promise<void> {
    const { signal } = this.#over
    await delay(ms, undefined, { signal }).catch(() => undefined) // The soak is over.
  }
}
