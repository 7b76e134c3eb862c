/** A `work` process that serves /metrics, and the Prometheus that may scrape it. */
import { Queue } from 'bullmq'
import { fleetEnv, runningCli } from '../tools/cli/run-cli.ts'
import type { Fixture } from '../fixtures.ts'
import { findProgram } from '../../scripts/find-program.ts'

const MODULE = 'test/tools/cli/ledger-worker-child.ts'
const LEASE = { leaseMs: 5_000, maxLeaseMs: 20_000 }

/** Its program; undefined where it is not installed, which is said. */
export const prometheus: string | undefined = findProgram('prometheus')
if (prometheus === undefined) {
  console.log(
    'skipped: what Prometheus itself makes of it, because it is not installed (apt-get install prometheus)',
  )
}

export interface ScrapedWorker {
  /** Host and port. */
  readonly address: string
  /** Adds a job for a customer and waits until the worker has finished it. */
  readonly finish: (customerId: number) => Promise<void>
}

export async function startScrapedWorker(fixture: Fixture): Promise<ScrapedWorker> {
  await fixture.redlock(LEASE)
  const { namespace } = fixture
  const { host, port, url } = fixture.fleet.queue
  const queue = new Queue(namespace, { connection: { host, port } })
  fixture.defer(() => queue.close())
  const health = ['--health-port', '0', '--health-host', '127.0.0.1']
  const env = { ...fleetEnv(fixture.fleet.urls, namespace, url), QUEUE: namespace }
  const worker = runningCli(['work', MODULE, ...health], env)
  fixture.defer(async () => {
    worker.kill('SIGTERM')
    await worker.end()
  })
  const [, address = ''] = await worker.line(/metrics at http:\/\/([\d.:]+)\/metrics/)
  return {
    address,
    async finish(customerId) {
      const { id } = await queue.add('post', { customerId })
      await worker.line(new RegExp(`finished ${id ?? ''}$`))
    },
  }
}
