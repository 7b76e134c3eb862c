/**
 * What the page says of jobs: how many end a second, which failed and why, and which one is meant.
 */
import { Queue, Worker } from 'bullmq'
import { expect, test, vi } from 'vitest'
import { until, useFleet } from '../../fixtures.ts'
import { FinishedCounter } from '../../../src/tools/operator/queue-counts.ts'
import { QueueView } from '../../../src/tools/operator/queue-view.ts'
import type { JobDetail } from '../../../src/tools/operator/jobs.ts'
import type { ResourcePage } from '../../../src/tools/operator/resource-view.ts'
import { invoices, invoiceWorker, serve, type Served } from './harness.ts'

const fixture = useFleet({ masters: 1 })
const OWN = (): { prefix: string } => ({ prefix: fixture.namespace })

async function get<Value>({ base }: Served, path: string): Promise<Value> {
  const answer = await fetch(base + path)
  expect(answer.status).toBe(200)
  return (await answer.json()) as Value
}

test('jobs that completed and failed a second agree with the server’s own count', async () => {
  const { url } = fixture.fleet.queue
  // Also of plain workers, and where nothing of a job is kept.
  const queue = new Queue<number>('plain', { connection: { url }, prefix: fixture.namespace })
  fixture.defer(() => queue.close())
  const removed = vi.fn()
  const worker = new Worker<number>(
    'plain',
    ({ data }) => (data % 10 === 0 ? Promise.reject(new Error('tenth')) : Promise.resolve()),
    {
      ...{ connection: { url }, prefix: fixture.namespace, concurrency: 20, autorun: false },
      ...{ removeOnComplete: { count: 0 } },
    },
  )
  worker.on('completed', removed)
  fixture.defer(() => worker.close())
  const view = fixture.closing(new QueueView(url, fixture.namespace, 10_000))
  const counter = new FinishedCounter(view.places)
  await queue.add('x', 1)
  expect(await counter.look()).toEqual([])
  const firstAt = performance.now()
  await queue.addBulk(Array.from({ length: 999 }, (_, nr) => ({ name: 'x', data: nr + 2 })))
  void worker.run()
  await until('all have ended', async () => {
    const [failed, waiting] = await Promise.all([queue.getFailedCount(), queue.getWaitingCount()])
    return failed === 100 && waiting === 0 && removed.mock.calls.length === 900
  })
  const [rates] = await counter.look()
  const lastAt = performance.now()
  const seconds = (lastAt - firstAt) / 1_000
  expect(Math.abs((rates?.completed ?? 0) * seconds - 900) / 900).toBeLessThan(0.02)
  expect((rates?.completed ?? 0) / (rates?.failed ?? 0)).toBeCloseTo(9, 5)
})

test('a job from all sides, with its stack, its steps and why it stands', async () => {
  await invoiceWorker(
    fixture,
    async (lease, { customer }) => {
      await lease.step('charge', () => Promise.resolve())
      if (customer === '42') throw new Error('card was declined')
    },
    { onFailure: 'block', checkpoints: true },
  )
  const queue = invoices(fixture)
  for (const id of ['a', 'b']) await queue.add('invoice', { customer: '42' }, { jobId: id })
  await queue.add('invoice', { customer: '7' }, { jobId: 'c' })
  const served = await serve(fixture, OWN())
  await until('both ended', async () => {
    const [failed, completed] = await Promise.all([
      queue.getFailedCount(),
      queue.getCompletedCount(),
    ])
    return failed === 1 && completed === 1
  })
  const job = await get<JobDetail>(served, '/job?queue=invoices&id=a')
  expect(job).toMatchObject({
    ...{ state: 'failed', name: 'invoice', attempts: 1, resources: ['customer:42'] },
    ...{ failedReason: 'card was declined', holdsLine: true, stepsDone: ['charge'] },
  })
  expect(job.stacks[0]).toContain('jobs.test.ts')
  expect(JSON.stringify(job)).not.toContain('"customer":"42"') // Its data may be personal.
  const resource = await get<ResourcePage>(served, '/resource?name=customer:42')
  expect(resource.why).toContain('it holds the line because it failed: card was declined.')
  expect(resource.queues).toEqual([{ queue: 'invoices', jobs: 2, limits: {} }])
  const reason = { failedReason: 'card was declined' }
  expect(resource.ended).toMatchObject([{ jobId: 'a', outcome: 'failed', ...reason }])
  const other = await get<ResourcePage>(served, '/resource?name=customer:7')
  expect(other.ended).toMatchObject([{ jobId: 'c', outcome: 'completed' }])
  expect(other.ended[0]?.failedReason).toBeUndefined()
  expect(other.why).toBeUndefined()
  expect((await fetch(`${served.base}/job?queue=invoices&id=nobody`)).status).toBe(404)
  await queue.cancel('b')
  const [cancelled] = (await get<ResourcePage>(served, '/resource?name=customer:42')).ended
  expect(cancelled).toMatchObject({ jobId: 'b', outcome: 'failed' })
  expect(cancelled?.startedAt).toBeUndefined() // The page tells no time that it took.
})

test('of what a processor threw, however long, the beginning is told', async () => {
  const long = `the gateway said: ${'é'.repeat(1_000_000)}`
  await invoiceWorker(fixture, () => Promise.reject(new Error(long)), { onFailure: 'block' })
  const queue = invoices(fixture)
  for (const id of ['a', 'b']) await queue.add('invoice', { customer: '42' }, { jobId: id })
  const { base } = await serve(fixture, OWN())
  await until('one has failed', async () => (await queue.getFailedCount()) === 1)
  const paths = ['/state', '/job?queue=invoices&id=b', '/resource?name=customer:42']
  for (const path of paths) {
    const told = await (await fetch(base + path)).text()
    expect(told).toMatch(/because it failed: the gateway said: é+…/)
    expect([path, told.length]).toEqual([path, expect.toSatisfy((length) => length < 20_000)])
  }
})

test('while the queue’s Redis is away, the page of a job says so', async () => {
  await invoices(fixture).add('invoice', { customer: '42' }, { jobId: 'a' })
  const served = await serve(fixture, { ...OWN(), timeoutMs: 300 })
  await fixture.fleet.queue.freeze()
  fixture.defer(() => fixture.fleet.queue.thaw())
  const answer = await fetch(`${served.base}/job?queue=invoices&id=a`)
  expect(answer.status).toBe(503)
  expect(await answer.text()).toBe('The queue’s Redis says: no reply within 300 ms\n')
})

test('the search finds a job by its id, and lines by resource and by tenant', async () => {
  const queue = invoices(fixture, { tenant: ({ customer }) => (customer === '7' ? 'acme' : 'ltd') })
  for (const customer of ['7', '7', '42', '42']) {
    await queue.add('invoice', { customer }, { jobId: `${customer}-${Math.random()}` })
  }
  await queue.add('invoice', { customer: '42' }, { jobId: 'the-one' })
  const served = await serve(fixture, OWN())
  const found = async (text: string): Promise<readonly string[]> => {
    const { lines } = await served.state(text)
    return 'lines' in lines ? lines.lines.map(({ resource }) => resource) : []
  }
  expect(await found('mer:42')).toEqual(['customer:42'])
  expect(await found('acme')).toEqual(['customer:7'])
  expect(await found('nobody')).toEqual([])
  expect((await served.state('the-one')).jobs).toMatchObject([
    { queue: 'invoices', jobId: 'the-one', resources: ['customer:42'] },
  ])
  expect((await served.state('meta')).jobs).toEqual([])
  expect((await served.state('wait')).jobs).toEqual([])
})

test('of many lines, a search finds one that was not looked at', async () => {
  const queue = invoices(fixture)
  const customers = Array.from({ length: 1_500 }, (_, nr) => `c${nr}`)
  await queue.addBulk(
    customers.flatMap((customer) => [1, 2].map(() => ({ name: 'x', data: { customer } }))),
  )
  const served = await serve(fixture, OWN())
  for (const nr of [3, 700, 1_499]) {
    const { lines } = await served.state(`customer:c${nr}`)
    expect(JSON.stringify(lines)).toContain(`"customer:c${nr}"`)
  }
})
