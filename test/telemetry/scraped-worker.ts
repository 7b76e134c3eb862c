/** A `work` process that serves /metrics, and the Prometheus that may scrape it. */
import { Queue } from 'bullmq'
import { runningCli } from '../tools/cli/run-cli.ts'
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
  /** Adds a job for a customer; `untilStopped` runs until it loses its lease. */
  readonly add: (customerId: number, untilStopped?: boolean) => Promise<string>
  /** Waits until the worker has started a job. */
  readonly started: (jobId: string) => Promise<unknown>
  readonly kill: (signal: NodeJS.Signals) => void
  /** Adds a job for a customer and waits until the worker has finished it. */
  readonly finish: (customerId: number) => Promise<void>
}

export async function startScrapedWorker(fixture: Fixture): Promise<ScrapedWorker> {
  await fixture.redlock(LEASE)
  const { namespace, connection } = fixture
  const queue = fixture.closing(new Queue(namespace, { connection }))
  const health = ['--health-port', '0', '--health-host', '127.0.0.1', '--drain-ms', '100']
  const env = { ...fixture.env, QUEUE: namespace }
  const worker = runningCli(['work', MODULE, ...health], env)
  fixture.defer(async () => {
    worker.kill('SIGTERM')
    await worker.end()
  })
  const [, address = ''] = await worker.line(/metrics at http:\/\/([\d.:]+)\/metrics/)
  const add = async (customerId: number, untilStopped = false): Promise<string> =>
    (await queue.add('post', { customerId, untilStopped })).id ?? ''
  return {
    ...{ address, add },
    started: (jobId) => worker.line(new RegExp(`^started ${jobId} `)),
    kill: (signal) => {
      worker.kill(signal)
    },
    async finish(customerId) {
      await worker.line(new RegExp(`finished ${await add(customerId)}$`))
    },
  }
}
