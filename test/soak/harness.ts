/**
 * Everything that a soak puts under strain: five masters behind proxies, a queue, a store that is
 * never hurt, processes that take leases, and BullMQ workers.
 */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { startFleet, startServer, type Fleet, type TestServer } from '../../src/testing/index.ts'
import { storeDisorder } from '../faults/checkers/fenced-store.ts'
import { immortalKeys } from '../faults/checkers/immortal-keys.ts'
import { wedgedResources } from '../faults/checkers/liveness.ts'
import { lostUpdates } from '../faults/checkers/lost-updates.ts'
import { ClientProcesses } from '../faults/client-processes.ts'
import { History } from '../faults/history.ts'
import { LeaseLogs } from '../faults/lease-logs.ts'
import type { WorkerSetup } from '../faults/job-states.ts'
import type { ClockShim, ShimmedClock } from '../faults/shimmed-clock.ts'
import { FencedStore } from '../faults/store.ts'
import { JobLedger, WorkerProcesses } from '../faults/worker-processes.ts'
import { foundFleet } from '../support/found-fleet.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import type { ProducerSetup } from './producer-setup.ts'
import { ScratchQueue } from './scratch-queue.ts'
import { Standstill } from './standstill.ts'

/** Of a line that stood still. */
const DESCRIBED_JOBS = 4
const LEASE_MS = 600
const MAX_LEASE_MS = 1_000
const MASTER_TIMEOUT_MS = 60
const CLIENTS = 3
const LOOPS = 2
const WORKERS = 2
const RESOURCES = ['r1', 'r2', 'r3', 'r4']
const CUSTOMERS = ['c1', 'c2', 'c3', 'c4', 'c5']
/** Some lines have jobs of both queues, some of one. */
const SCRATCH_CUSTOMERS = ['c1', 'c2', 'c3', 's1', 's2']

/** The masters' clocks, where there is a compiler for the shim. */
export class MasterClocks {
  readonly #shim: ClockShim
  readonly #ports: readonly number[]
  readonly #clocks = new Map<number, ShimmedClock>()

  constructor(shim: ClockShim, ports: readonly number[]) {
    this.#shim = shim
    this.#ports = ports
  }

  of(index: number): ShimmedClock {
    const port = this.#ports[index] ?? 0
    const clock = this.#clocks.get(port) ?? this.#shim.clock(port)
    this.#clocks.set(port, clock)
    return clock
  }
}

export class Harness implements AsyncDisposable {
  readonly servers: readonly TestServer[]
  readonly queue: TestServer
  readonly proxies: readonly FaultProxy[]
  readonly clients: ClientProcesses
  readonly workers: WorkerProcesses
  readonly ledger: JobLedger
  /** Its jobs are removed and obliterated. */
  readonly scratch: ScratchQueue
  readonly standstill: Standstill
  readonly clocks: MasterClocks | undefined
  readonly history = new History()
  longestExitMs = 0
  /** Of all processes. */
  readonly leaseLogs: LeaseLogs
  readonly clientCount = CLIENTS
  readonly workerCount = WORKERS
  readonly #fleet: Fleet
  readonly #store: TestServer
  readonly #masters: readonly Redis[]
  readonly queueRedis: Redis
  readonly #setup: WorkerSetup

  static async open(seed: number, shim: ClockShim | undefined): Promise<Harness> {
    const config = { appendonly: 'yes', appendfsync: 'everysec', 'repl-diskless-sync-delay': '0' }
    const [fleet, store, clients] = await Promise.all([
      startFleet({ masters: 5, config }),
      startServer({ name: 'store' }),
      ClientProcesses.start(CLIENTS),
    ])
    const proxies = await Promise.all(fleet.masters.map(({ port }) => startProxy(port)))
    const namespace = `soak-${randomUUID().slice(0, 8)}`
    const lengths = { leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS }
    await foundFleet({ masters: fleet.urls, namespace, ...lengths })
    const leaseLogs = new LeaseLogs()
    const setup: WorkerSetup = {
      queue: namespace,
      moreQueues: [`${namespace}-scratch`],
      connection: { host: fleet.queue.host, port: fleet.queue.port },
      masters: proxies.map(({ url }) => url),
      namespace,
      storeUrl: store.url,
      leaseLogs: leaseLogs.directory,
      leaseMs: LEASE_MS,
      maxLeaseMs: MAX_LEASE_MS,
      concurrency: 4,
      workMs: 80,
    }
    const harness = new Harness(fleet, store, proxies, clients, setup, leaseLogs, shim)
    const { masters, storeUrl } = setup
    await clients.begin(
      {
        urls: masters,
        storeUrl,
        leaseLogs: leaseLogs.directory,
        namespace,
        resources: RESOURCES,
        leaseMs: LEASE_MS,
        maxLeaseMs: MAX_LEASE_MS,
        masterTimeoutMs: MASTER_TIMEOUT_MS,
        loops: LOOPS,
        holdMs: LEASE_MS / 8,
      },
      seed,
      harness.history,
    )
    return harness
  }

  private constructor(
    fleet: Fleet,
    store: TestServer,
    proxies: readonly FaultProxy[],
    clients: ClientProcesses,
    setup: WorkerSetup,
    leaseLogs: LeaseLogs,
    shim: ClockShim | undefined,
  ) {
    this.#fleet = fleet
    this.#store = store
    this.#setup = setup
    this.leaseLogs = leaseLogs
    this.servers = fleet.masters
    this.queue = fleet.queue
    this.proxies = proxies
    this.clients = clients
    this.ledger = new JobLedger(setup, CUSTOMERS)
    this.scratch = new ScratchQueue(setup, `${setup.queue}-scratch`, SCRATCH_CUSTOMERS)
    this.standstill = new Standstill({
      leaseMs: LEASE_MS,
      recoveryMs: MAX_LEASE_MS,
      undone: async () => [...(await this.ledger.undone()), ...(await this.scratch.undone())],
      describe: (customer) => this.#describe(customer),
      ready: () => this.workers.ready,
    })
    this.workers = new WorkerProcesses(setup, WORKERS, (sighting) => {
      this.standstill.see(sighting)
      this.scratch.see(sighting)
    })
    this.clocks =
      shim === undefined
        ? undefined
        : new MasterClocks(
            shim,
            fleet.masters.map(({ port }) => port),
          )
    this.#masters = fleet.urls.map((url) => patient(url))
    this.queueRedis = patient(fleet.queue.url)
  }

  server(index: number): TestServer {
    return item(this.servers, index)
  }

  proxy(index: number): FaultProxy {
    return item(this.proxies, index)
  }

  /** A connection past the proxy. */
  master(index: number): Redis {
    return item(this.#masters, index)
  }

  /** What a producer child of the scratch queue is given. */
  producerSetup(atOnce: number): ProducerSetup {
    const { connection, namespace } = this.#setup
    return { connection, namespace, queue: this.scratch.name, customers: SCRATCH_CUSTOMERS, atOnce }
  }

  /** A worker that was told to end has ended. */
  noteExit(tookMs: number): void {
    this.longestExitMs = Math.max(this.longestExitMs, tookMs)
  }

  async killQueueClients(): Promise<number> {
    return Number(await this.queueRedis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'))
  }

  async #describe(customer: string): Promise<string> {
    const undone = [...(await this.ledger.undone()), ...(await this.scratch.undone())]
    const jobs = undone.filter(({ data }) => data.customer === customer)
    const states = await Promise.all(
      jobs.slice(0, DESCRIBED_JOBS).map(async (job) => {
        const lockMs = await this.queueRedis.pttl(`bull:${job.queueName}:${job.id ?? ''}:lock`)
        const runs = `${job.attemptsStarted} starts, ${job.stalledCounter} crashed`
        return `${job.queueName} ${job.id ?? ''} ${await job.getState()}, lock ${lockMs} ms, ${runs}`
      }),
    )
    const keys = ['lease', 'next', 'wait'].map(
      (kind) => `${this.#setup.namespace}:${kind}:${customer}`,
    )
    const ttls = await Promise.all(
      this.#masters.map((master) => Promise.all(keys.map((key) => master.pttl(key)))),
    )
    const masters = ttls.map((each) => each.join(' ')).join(', ')
    return `${jobs.length} jobs (${states.join('; ')}); lease, next, wait on masters: ${masters}`
  }

  /** Ends whatever fault may be left. */
  async heal(): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.pass()))
    for (const server of [...this.servers, this.queue]) {
      if (server.running) await server.thaw()
      else await server.restart()
    }
    for (const index of this.clients.pids.keys()) this.clients.resume(index)
    for (const pid of this.workers.pids) process.kill(pid, 'SIGCONT')
  }

  /** When all is quiet and all jobs are done. */
  async anomalies(): Promise<readonly string[]> {
    const unended = await this.clients.end()
    const { namespace, storeUrl } = this.#setup
    const wedged = await wedgedResources({
      masters: this.#fleet.urls,
      namespace,
      leaseMs: LEASE_MS,
      maxLeaseMs: MAX_LEASE_MS,
      resources: RESOURCES,
      limitMs: 2 * MAX_LEASE_MS + 3_000,
    })
    const { writes } = this.history
    const store = new FencedStore(storeUrl, namespace)
    const logs = await Promise.all(
      RESOURCES.map(async (resource) => {
        const log = await store.log(resource)
        return [...storeDisorder(resource, log, writes), ...lostUpdates(resource, log, writes)]
      }),
    )
    store.close()
    return [
      ...unended,
      ...wedged,
      ...this.history.problems,
      ...this.history.unsettled.map((what) => `a promise of ${what} never settled`),
      ...logs.flat(),
      ...(await immortalKeys(this.#masters, namespace)),
      ...(await this.ledger.anomalies()),
      ...this.standstill.anomalies,
      ...(await this.scratch.anomalies()),
      ...(await this.scratch.leftovers()),
    ]
  }

  /** Everybody leaves; returns who would not. */
  async leave(): Promise<readonly string[]> {
    const left = await Promise.all([this.workers.leave(), this.clients.leave()])
    return left.flat()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.ledger.close(), this.scratch.close()])
    for (const redis of [...this.#masters, this.queueRedis]) redis.disconnect()
    await Promise.all(this.proxies.map((proxy) => proxy.close()))
    await Promise.all([this.#fleet.close(), this.#store.close()])
    this.leaseLogs.remove()
  }
}

function patient(url: string): Redis {
  const redis = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  redis.on('error', () => undefined) // A killed server comes back, and with it the connection.
  return redis
}

function item<T>(list: readonly T[], index: number): T {
  const value = list[index]
  if (value === undefined) throw new Error(`There is no item ${index}`)
  return value
}
