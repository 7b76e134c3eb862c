/** The example workers as the image runs them: modules for `work`. */
import { expect, test } from 'vitest'
import { runningCli } from '../tools/cli/run-cli.ts'
import { LockedQueue } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { Program } from './program.ts'
import { startEmbeddedPostgres } from '../../workers/embedded-postgres.ts'
import { isRight } from '../../workers/ledger-audit.ts'
import { Ledger } from '../../workers/ledger.ts'
import type { Strike } from '../../workers/strike.ts'
import { readStrikes, REAL_STRIKES } from '../../workers/strikes-file.ts'

const STRIKES = 30
const HEALTH = ['--health-port', '0', '--health-host', '127.0.0.1']
const fixture = useFleet({ masters: 3 })

async function env(): Promise<NodeJS.ProcessEnv> {
  await fixture.redlock({ leaseMs: 10_000, maxLeaseMs: 30_000 })
  return fixture.env
}

/** Adds the first strikes of the file. Returns how many operators they have. */
async function addStrikes(name: string, prefix: string): Promise<number> {
  const strikes = (await readStrikes(REAL_STRIKES)).slice(0, STRIKES)
  const queue = new LockedQueue<Strike>(name, {
    connection: { url: fixture.fleet.queue.url },
    resource: ({ customer }) => prefix + customer,
  })
  await queue.addBulk(strikes.map((data) => ({ name: 'post', data, opts: { jobId: data.id } })))
  await queue.close()
  return new Set(strikes.map(({ customer }) => customer)).size
}

test('customer-ledger posts every strike once and in turn, and ends on a signal', async () => {
  const postgres = fixture.closing(await startEmbeddedPostgres())
  const ledger = fixture.closing(await Ledger.connect(postgres.url))
  const variables = { ...(await env()), DATABASE_URL: postgres.url }
  await addStrikes('customer-ledger', 'customer:')
  const worker = runningCli(['work', 'workers/customer-ledger.ts', ...HEALTH], variables)
  const [, base = ''] = await worker.line(/health at (http:\/\/[\d.:]+)\/healthz/)
  await until('all are posted', async () => (await ledger.audit()).jobsPosted === STRIKES)
  expect(isRight(await ledger.audit())).toBe(true)
  expect((await fetch(`${base}/readyz`)).status).toBe(200)
  worker.kill('SIGTERM')
  expect((await worker.end()).code).toBe(0)
})

test('reports builds each report once in two processes with many requests', async () => {
  const variables = await env()
  const operators = await addStrikes('reports', 'report:')
  expect(operators).toBeLessThan(STRIKES)
  const queue = fixture.plainQueue('reports')
  const workers = [1, 2].map(() => runningCli(['work', 'workers/reports.ts', ...HEALTH], variables))
  // One may do all of it before the other listens to signals.
  await Promise.all(workers.map((worker) => worker.line(/health at/)))
  await until('all are answered', async () => (await queue.getCompletedCount()) === STRIKES)
  const jobs = await queue.getCompleted()
  const logs = await Promise.all(jobs.map(({ id = '' }) => queue.getJobLogs(id)))
  expect(logs.filter(({ logs }) => logs.includes('built'))).toHaveLength(operators)
  for (const worker of workers) worker.kill('SIGTERM')
  for (const worker of workers) expect((await worker.end()).code).toBe(0)
})

test('add-strikes adds every strike of the file once, and names their number', async () => {
  const variables = await env()
  const queue = fixture.plainQueue('added-strikes')
  for (let run = 0; run < 2; run++) {
    const adding = new Program('workers/add-strikes.ts', ['added-strikes', 'customer:'], variables)
    expect(await adding.end()).toMatchObject({
      code: 0,
      out: ['602 strikes are in the queue added-strikes'],
    })
    const counts = await queue.getJobCounts('waiting', 'delayed', 'prioritized')
    expect(Object.values(counts).reduce((sum, count) => sum + count)).toBe(602)
  }
})

test.each([
  ['add-strikes', 'BULLMQ_REDLOCK_QUEUE'],
  ['audit', 'DATABASE_URL'],
])('%s without %s says so in a sentence, with exit code 2', async (program, name) => {
  for (const env of [{}, { [name]: '' }]) {
    await using child = new Program(`workers/${program}.ts`, [], env)
    const { code, out, err } = await child.end()
    expect([code, out]).toEqual([2, []])
    expect(err).toEqual([expect.stringMatching(`^Set ${name} to the URL of`)])
  }
})

test.each([
  ['add-strikes', { BULLMQ_REDLOCK_QUEUE: 'redis://user:sesame@127.0.0.1:1' }],
  ['audit', { DATABASE_URL: 'postgres://user:sesame@127.0.0.1:1/ledger' }],
])('%s and a server that is away: one line, with exit code 1', async (program, env) => {
  await using child = new Program(`workers/${program}.ts`, [], env)
  const { code, out, err } = await child.end()
  expect([code, out, err]).toEqual([1, [], ['connect ECONNREFUSED 127.0.0.1:1']])
})
