/**
 * A dashboard on a real fleet: served in this process, with jobs that run and wait where a test
 * wants them.
 */
import { createServer, type RequestListener } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { dashboardHandler, type DashboardOptions } from '../../../src/tools/dashboard/index.ts'
import type { DashboardState } from '../../../src/tools/dashboard/state.ts'
import type {
  LockedQueue,
  LockedWorker,
  JobLease,
  LockedQueueOptions,
  LockedWorkerOptions,
} from '../../../src/index.ts'
import type { Fixture } from '../../fixtures.ts'

export interface Served {
  /** `http://127.0.0.1:PORT`. */
  readonly base: string
  readonly port: number
  state(search?: string): Promise<DashboardState>
  close(): Promise<void>
}

/** Options for this test's fleet and names. */
export function optionsFor(
  { fleet, namespace }: Fixture,
  more: Partial<DashboardOptions> = {},
): DashboardOptions {
  return { masters: fleet.urls, queueRedis: fleet.queue.url, namespace, everyMs: 200, ...more }
}

/** A dashboard that is closed after the test. */
export async function serve(
  fixture: Fixture,
  more: Partial<DashboardOptions> = {},
  port = 0,
): Promise<Served> {
  const handler = fixture.closing(dashboardHandler(optionsFor(fixture, more)))
  return listen(
    fixture,
    (request, response) => {
      handler(request, response)
    },
    port,
  )
}

/** Any request listener on a free port of this machine, closed after the test. */
export async function listen(
  fixture: Fixture,
  listener: RequestListener,
  wanted = 0,
): Promise<Served> {
  const server = createServer(listener)
  server.listen(wanted, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const base = `http://127.0.0.1:${port}`
  const close = async (): Promise<void> => {
    if (!server.listening) return
    const end = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await end
  }
  fixture.defer(close)
  return {
    base,
    port,
    close,
    async state(search = '') {
      const answer = await fetch(`${base}/state?search=${encodeURIComponent(search)}`)
      return (await answer.json()) as DashboardState
    },
  }
}

export interface Invoice {
  readonly customer: string
}

export type Work = (lease: JobLease, invoice: Invoice) => Promise<void>

/** A queue of jobs on customers. */
export function invoices(
  fixture: Fixture,
  options: Partial<LockedQueueOptions<Invoice>> = {},
): LockedQueue<Invoice> {
  const resource = ({ customer }: Invoice): string => `customer:${customer}`
  return fixture.lockedQueue({ prefix: fixture.namespace, resource, ...options }, 'invoices')
}

/** A worker of that queue, in this process. */
export async function invoiceWorker(
  fixture: Fixture,
  work: Work,
  {
    checkpoints = false,
    concurrency = 8,
    onFailure = 'continue',
  }: Pick<LockedWorkerOptions<Invoice>, 'checkpoints' | 'concurrency' | 'onFailure'> = {},
): Promise<LockedWorker<Invoice>> {
  const redlock = await fixture.redlock({
    owner: 'worker-1:4711',
    maxLeaseMs: 20_000,
    leaseMs: 15_000,
  })
  const worker = fixture.lockedWorker<Invoice>(
    async ({ data }, lease) => {
      await work(lease, data)
      return null
    },
    {
      ...{ prefix: fixture.namespace, redlock, checkpoints, concurrency, onFailure },
      resource: ({ data }) => `customer:${data.customer}`,
    },
    'invoices',
  )
  worker.on('error', () => undefined)
  return worker
}
