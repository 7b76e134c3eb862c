/** The ledger's worker as the image runs it: a module for `work`. */
import { LockedQueue } from '../../src/index.ts'
import { expect, test, vi } from 'vitest'
import { fleetEnv, runningCli } from '../cli/run-cli.ts'
import { until, useFleet } from '../fixtures.ts'
import { startEmbeddedPostgres } from '../../workers/embedded-postgres.ts'
import { isRight } from '../../workers/ledger-audit.ts'
import { Ledger } from '../../workers/ledger.ts'
import type { Strike } from '../../workers/strike.ts'
import { readStrikes, REAL_STRIKES } from '../../workers/strikes-file.ts'

// PostgreSQL and a process of its own take their time on a busy machine.
vi.setConfig({ testTimeout: 60_000 })

const fixture = useFleet({ masters: 3 })

test('posts strikes, is healthy, and ends when it is told to', async () => {
  await fixture.redlock({ leaseMs: 10_000, maxLeaseMs: 30_000 })
  const { namespace } = fixture
  const { url } = fixture.fleet.queue
  const postgres = await startEmbeddedPostgres()
  fixture.defer(() => postgres.close())
  const ledger = await Ledger.connect(postgres.url)
  fixture.defer(() => ledger.close())
  const queue = new LockedQueue<Strike>('customer-ledger', {
    connection: { url },
    resource: ({ customer }) => `customer:${customer}`,
    namespace,
  })
  fixture.defer(() => queue.close())
  const strikes = (await readStrikes(REAL_STRIKES)).slice(0, 20)
  await queue.addBulk(strikes.map((data) => ({ name: 'post', data, opts: { attempts: 5 } })))

  const env = { ...fleetEnv(fixture.fleet.urls, namespace, url), DATABASE_URL: postgres.url }
  const health = ['--health-port', '0', '--health-host', '127.0.0.1']
  const worker = runningCli(['work', 'workers/ledger-worker.ts', ...health], env)
  const [, base = ''] = await worker.line(/health at (http:\/\/[\d.:]+)\/healthz/)
  await until('all are posted', async () => (await ledger.audit()).jobsPosted === strikes.length)
  expect(isRight(await ledger.audit())).toBe(true)
  expect((await fetch(`${base}/readyz`)).status).toBe(200)
  worker.kill('SIGTERM')
  expect((await worker.end()).code).toBe(0)
})
