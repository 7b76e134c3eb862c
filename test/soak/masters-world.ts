/** Five masters behind proxies, whose clocks are wrong at times, and a second queue. */
import type { Redis } from 'ioredis'
import { startFleet, type Fleet, type TestServer } from '../../src/testing/index.ts'
import type { Sighting } from '../faults/job-states.ts'
import type { ClockShim, ShimmedClock } from '../faults/shimmed-clock.ts'
import { foundFleet } from '../support/found-fleet.ts'
import { patientRedis, ProxiedMasters } from '../support/proxied-masters.ts'
import type { Fault } from './fault.ts'
import { lifecycleFaults } from './lifecycle-faults.ts'
import { keepClocksNear, masterFaults } from './master-faults.ts'
import { networkFaults } from './network-faults.ts'
import { processFaults, queueFaults } from './process-faults.ts'
import type { ProducerSetup } from './producer-setup.ts'
import type { Report } from './report.ts'
import { ScratchQueue } from './scratch-queue.ts'
import { Standstill } from './standstill.ts'
import { CLIENTS, soakNamespace, Work, WORKERS } from './work.ts'
import type { World } from './world.ts'

/** Of a line that stood still. */
const DESCRIBED_JOBS = 4
const LEASE_MS = 600
const MAX_LEASE_MS = 1_000
const MASTER_TIMEOUT_MS = 60
/** Some lines have jobs of both queues, some of one. */
const SCRATCH_CUSTOMERS = ['c1', 'c2', 'c3', 's1', 's2']
/** More at a time than in the ledger: some wait in line when they are removed. */
const SCRATCH_BATCH = 20
const MAX_OPEN_SCRATCH_JOBS = 100

export class MastersWorld implements World {
  readonly work: Work
  readonly masters: ProxiedMasters
  readonly queue: TestServer
  readonly queueRedis: Redis
  /** Its jobs are removed and obliterated. */
  readonly scratch: ScratchQueue
  readonly faults: readonly Fault<MastersWorld>[] = [
    ...[...networkFaults, ...masterFaults],
    ...[...processFaults, ...queueFaults],
  ]
  readonly jobFaults = lifecycleFaults
  readonly sizes = { master: 5, masters: 5, client: CLIENTS, worker: WORKERS, queue: 1, jobs: 1 }
  readonly lanes = 3
  readonly slowness = 1
  readonly jobs = { batch: 10, maxOpen: 400 }
  readonly drainLimitMs = 90_000
  readonly #fleet: Fleet
  readonly #standstill: Standstill
  readonly #shim: ClockShim | undefined
  readonly #clocks = new Map<number, ShimmedClock>()

  static async open(seed: number, shim: ClockShim | undefined): Promise<MastersWorld> {
    const config = { appendonly: 'yes', appendfsync: 'everysec', 'repl-diskless-sync-delay': '0' }
    const fleet = await startFleet({ masters: 5, config })
    const masters = await ProxiedMasters.start(fleet.masters)
    const namespace = soakNamespace()
    const lengths = { leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS }
    await foundFleet({ masters: fleet.urls, namespace, ...lengths })
    const opened: { world?: MastersWorld } = {}
    const work = await Work.begin({
      ...{ ...lengths, namespace, seed, queue: fleet.queue, masters: masters.urls },
      ...{ moreQueues: [`${namespace}-scratch`], masterTimeoutMs: MASTER_TIMEOUT_MS },
      ...{ holdMs: LEASE_MS / 8, workMs: 80 },
      seen: (sighting) => opened.world?.see(sighting),
    })
    opened.world = new MastersWorld(work, fleet, masters, shim)
    return opened.world
  }

  private constructor(
    work: Work,
    fleet: Fleet,
    masters: ProxiedMasters,
    shim: ClockShim | undefined,
  ) {
    const { setup } = work
    this.work = work
    this.#fleet = fleet
    this.masters = masters
    this.queue = fleet.queue
    this.queueRedis = patientRedis(fleet.queue.url)
    this.scratch = new ScratchQueue(setup, `${setup.queue}-scratch`, SCRATCH_CUSTOMERS)
    this.#standstill = new Standstill({
      leaseMs: LEASE_MS,
      recoveryMs: MAX_LEASE_MS,
      undone: async () => [...(await work.ledger.undone()), ...(await this.scratch.undone())],
      describe: (customer) => this.#describe(customer),
      ready: () => work.workers.ready,
    })
    this.#shim = shim
  }

  /** Of a master, where there is a compiler for the shim. */
  clock(index: number): ShimmedClock | undefined {
    const { port } = this.masters.server(index)
    const clock = this.#clocks.get(port) ?? this.#shim?.clock(port)
    if (clock !== undefined) this.#clocks.set(port, clock)
    return clock
  }

  /** What a producer child of the scratch queue is given. */
  producerSetup(atOnce: number): ProducerSetup {
    const { connection, namespace } = this.work.setup
    return { connection, namespace, queue: this.scratch.name, customers: SCRATCH_CUSTOMERS, atOnce }
  }

  /** Where a job is. */
  see(sighting: Sighting): void {
    this.#standstill.see(sighting)
    this.scratch.see(sighting)
  }

  async tend(): Promise<void> {
    keepClocksNear(this)
    if ((await this.undone()) < MAX_OPEN_SCRATCH_JOBS) await this.scratch.add(SCRATCH_BATCH)
  }

  watch(signal: AbortSignal): Promise<void> {
    return this.#standstill.watch(signal)
  }

  async undone(): Promise<number> {
    return (await this.scratch.undone()).length
  }

  async heal(): Promise<void> {
    await this.masters.heal()
    await (this.queue.running ? this.queue.thaw() : this.queue.restart())
  }

  async anomalies(): Promise<readonly string[]> {
    return [
      ...(await this.work.anomalies(this.#fleet.urls, this.masters.connections)),
      ...this.#standstill.anomalies,
      ...(await this.scratch.anomalies()),
      ...(await this.scratch.leftovers()),
    ]
  }

  facts(): Partial<Report> {
    const { watchedMs, longestMs } = this.#standstill
    return {
      scratchJobs: { gone: this.scratch.gone, fetched: this.scratch.fetched },
      watchedSeconds: Math.round(watchedMs / 1_000),
      longestStandstillMs: Math.round(longestMs),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.scratch.close()
    await this.work[Symbol.asyncDispose]()
    this.queueRedis.disconnect()
    await this.masters[Symbol.asyncDispose]()
    await this.#fleet.close()
  }

  async #describe(customer: string): Promise<string> {
    const undone = [...(await this.work.ledger.undone()), ...(await this.scratch.undone())]
    const jobs = undone.filter(({ data }) => data.customer === customer)
    const states = await Promise.all(
      jobs.slice(0, DESCRIBED_JOBS).map(async (job) => {
        const lockMs = await this.queueRedis.pttl(`bull:${job.queueName}:${job.id ?? ''}:lock`)
        const runs = `${job.attemptsStarted} starts, ${job.stalledCounter} crashed`
        return `${job.queueName} ${job.id ?? ''} ${await job.getState()}, lock ${lockMs} ms, ${runs}`
      }),
    )
    const keys = ['lease', 'next', 'wait'].map(
      (kind) => `${this.work.setup.namespace}:${kind}:${customer}`,
    )
    const ttls = await Promise.all(
      this.masters.connections.map((redis) => Promise.all(keys.map((key) => redis.pttl(key)))),
    )
    const masters = ttls.map((each) => each.join(' ')).join(', ')
    return `${jobs.length} jobs (${states.join('; ')}); lease, next, wait on masters: ${masters}`
  }
}
