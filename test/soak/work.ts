/**
 * What every soak has beside its locks: processes that take leases, BullMQ workers with their
 * queue, a store that is never hurt, and what all of them saw.
 */
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { ClientProcesses } from '../faults/client-processes.ts'
import { History } from '../faults/history.ts'
import type { Sighting, WorkerSetup } from '../faults/job-states.ts'
import { anomaliesOf } from '../faults/judge.ts'
import { LeaseLogs } from '../faults/lease-logs.ts'
import { JobLedger, WorkerProcesses } from '../faults/worker-processes.ts'

export const CLIENTS = 3
export const WORKERS = 2
const LOOPS = 2
const RESOURCES = ['r1', 'r2', 'r3', 'r4']
const CUSTOMERS = ['c1', 'c2', 'c3', 'c4', 'c5']

export interface WorkOptions extends Pick<
  WorkerSetup,
  'masters' | 'locks' | 'leaseMs' | 'maxLeaseMs' | 'workMs' | 'moreQueues'
> {
  readonly namespace: string
  readonly seed: number
  readonly queue: Pick<TestServer, 'host' | 'port'>
  readonly masterTimeoutMs: number
  /** The longest pause of a client between two steps under one lease. */
  readonly holdMs: number
  /** Told where each job is. */
  readonly seen?: (sighting: Sighting) => void
}

export function soakNamespace(): string {
  return `soak-${randomUUID().slice(0, 8)}`
}

export class Work implements AsyncDisposable {
  readonly history = new History()
  readonly leaseLogs: LeaseLogs
  readonly setup: WorkerSetup
  readonly clients: ClientProcesses
  readonly workers: WorkerProcesses
  readonly ledger: JobLedger
  longestExitMs = 0
  readonly #store: TestServer

  static async begin(options: WorkOptions): Promise<Work> {
    const [store, clients] = await Promise.all([
      startServer({ name: 'store' }),
      ClientProcesses.start(CLIENTS),
    ])
    const { queue, seed, masterTimeoutMs, holdMs, seen, ...shared } = options
    const leaseLogs = new LeaseLogs()
    const setup = {
      ...{ ...shared, queue: options.namespace, storeUrl: store.url, concurrency: 4 },
      ...{ connection: { host: queue.host, port: queue.port }, leaseLogs: leaseLogs.directory },
    }
    const work = new Work(setup, store, clients, leaseLogs, seen)
    const { masters: urls } = setup
    const orders = { ...setup, urls, masterTimeoutMs, holdMs, loops: LOOPS, resources: RESOURCES }
    await clients.begin(orders, seed, work.history)
    return work
  }

  private constructor(
    setup: WorkerSetup,
    store: TestServer,
    clients: ClientProcesses,
    leaseLogs: LeaseLogs,
    seen: ((sighting: Sighting) => void) | undefined,
  ) {
    this.setup = setup
    this.#store = store
    this.clients = clients
    this.leaseLogs = leaseLogs
    this.ledger = new JobLedger(setup, CUSTOMERS)
    this.workers = new WorkerProcesses(setup, WORKERS, seen)
  }

  /** Lets every process go on that was stopped. */
  resume(): void {
    for (const index of this.clients.pids.keys()) this.clients.resume(index)
    for (const pid of this.workers.pids) process.kill(pid, 'SIGCONT')
  }

  /** Of the ledger. */
  async open(): Promise<number> {
    return this.ledger.added - (await this.ledger.completed())
  }

  /**
   * When all is quiet and all jobs are done.
   * @param masters past their proxies, if the locks have any.
   */
  async anomalies(masters: readonly string[], connections: readonly Redis[]) {
    const { clients, history, setup, ledger } = this
    const own = { clients, history, resources: RESOURCES, masters, connections }
    return [...(await anomaliesOf({ ...setup, ...own })), ...(await ledger.anomalies())]
  }

  /** Everybody leaves; returns who would not. */
  async leave(): Promise<readonly string[]> {
    const left = await Promise.all([this.workers.leave(), this.clients.leave()])
    return left.flat()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ledger.close()
    await this.#store.close()
    this.leaseLogs.remove()
  }
}
