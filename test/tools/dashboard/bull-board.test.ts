/**
 * Beside a real Bull Board, in one express application: both work, and a job's log there says what
 * the job waits for.
 */
import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { ExpressAdapter } from '@bull-board/express'
import type { Queue } from 'bullmq'
import express from 'express'
import { expect, test } from 'vitest'
import { ShardedQueue } from '../../../src/index.ts'
import * as dashboard from '../../../src/tools/dashboard/index.ts'
import { until, useFleet } from '../../fixtures.ts'
import { invoices, invoiceWorker, listen, optionsFor } from './harness.ts'

const fixture = useFleet({ masters: 3 })

interface Board {
  /** What Bull Board shows as the log of a job. */
  readonly log: (jobId: string) => Promise<readonly string[]>
  readonly get: (path: string) => Promise<Response>
}

async function board(withReasons: boolean, queue: Queue = invoices(fixture)): Promise<Board> {
  const handler = dashboard.dashboardHandler(optionsFor(fixture, { prefix: fixture.namespace }))
  fixture.defer(() => handler.close())
  const serverAdapter = new ExpressAdapter()
  serverAdapter.setBasePath('/queues')
  const plain = new BullMQAdapter(queue)
  const adapter = withReasons ? dashboard.showReasons(plain, handler) : plain
  createBullBoard({ queues: [adapter], serverAdapter })
  const app = express()
  app.use(express.urlencoded())
  app.use('/queues', serverAdapter.getRouter() as express.Router)
  app.use('/redlock', handler)
  app.use((_request, response) => {
    response.status(404).send('of the application')
  })
  const { base } = await listen(fixture, app)
  return {
    get: (path) => fetch(base + path),
    log: async (jobId) => {
      const path = `/queues/api/queues/invoices/${encodeURIComponent(jobId)}/logs`
      return (await (await fetch(base + path)).json()) as string[]
    },
  }
}

test('serves both, each below its path, and the application answers the rest', async () => {
  const { get } = await board(true)
  expect((await get('/queues/')).status).toBe(200)
  const page = await get('/redlock')
  expect(page.url).toMatch(/\/redlock\/$/)
  expect(await page.text()).toContain('Skip to content')
  expect((await get('/redlock/rows.js')).headers.get('content-type')).toContain('text/javascript')
  expect(await (await get('/redlock/state')).json()).toMatchObject({ fleet: { quorum: 2 } })
  expect(await (await get('/redlock/elsewhere')).text()).toBe('of the application')
})

test("a job that had to wait names the resource's holder in its log", async () => {
  const { log } = await board(false)
  const redlock = await fixture.redlock({ owner: 'ann', leaseMs: 15_000, maxLeaseMs: 20_000 })
  const lease = await redlock.acquire('customer:42', { autoExtend: true })
  const queue = invoices(fixture)
  await invoiceWorker(fixture, () => Promise.resolve())
  await queue.add('x', { customer: '42' }, { jobId: 'j1' })
  await until('it was given back', async () => (await log('j1')).length > 0)
  expect((await log('j1'))[0]).toMatch(/^waits \d+ ms: .*customer:42.* ann \(/)
  await lease.release()
})

test('a job that was added asleep shows what it waits for now, without a line in its log', async () => {
  const { log } = await board(true)
  const queue = invoices(fixture)
  const held = fixture.gate()
  await invoiceWorker(fixture, () => held.passed)
  for (const jobId of ['j1', 'j2', 'j3']) await queue.add('x', { customer: '42' }, { jobId })
  await until('the first runs', async () => (await queue.getActiveCount()) === 1)
  expect(await log('j3')).toEqual([
    expect.stringMatching(
      /^now: Job j3 \(waiting\) is in line for `customer:42` and waits for its turn: 2 ahead of it\. Job j1 has been in progress since .*Z in line for `customer:42`, whose lease is held by \S+ \(\S+\)\.$/,
    ),
  ])
  expect(await log('j1')).toEqual([
    expect.stringMatching(
      /^now: Job j1 \(active\) has been in progress since .*Z, and is first in line for `customer:42`/,
    ),
  ])
  held.open()
  await until('all are done', async () => (await queue.getCompletedCount()) === 3)
  expect(await log('j3')).toEqual([])
})

test('with a LockedQueue, Bull Board shows jobs in line as waiting; with a plain Queue as delayed', async () => {
  const { get } = await board(false)
  const queue = invoices(fixture)
  for (const jobId of ['j1', 'j2', 'j3']) await queue.add('x', { customer: '42' }, { jobId })
  const counts = async (): Promise<unknown> => {
    const answer = await get('/queues/api/queues?activeQueue=invoices&status=latest')
    const { queues } = (await answer.json()) as { queues: readonly { counts: unknown }[] }
    return queues[0]?.counts
  }
  expect(await counts()).toMatchObject({ waiting: 3, delayed: 0 })
  const plain = fixture.plainQueue('invoices', {
    prefix: fixture.namespace,
  })
  expect(await plain.getJobCounts('waiting', 'delayed')).toEqual({ waiting: 1, delayed: 2 })
})

test('a sharded queue is one queue, with its jobs of all shards', async () => {
  const { host, port } = fixture.fleet.queue
  const queue = new ShardedQueue<{ customer: string }>('invoices', {
    ...{ connection: { host, port }, prefix: fixture.namespace, shards: 4 },
    resource: ({ customer }) => `customer:${customer}`,
  })
  fixture.defer(() => queue.close())
  const { get, log } = await board(true, queue)
  const added = await queue.addBulk(
    ['ann', 'bob', 'cid', 'dee', 'eve', 'fay', 'ida', 'jim'].flatMap((customer) =>
      [1, 2].map(() => ({ name: 'x', data: { customer } })),
    ),
  )
  const answer = await get('/queues/api/queues?activeQueue=invoices&status=waiting&jobsPerPage=50')
  const { queues } = (await answer.json()) as {
    queues: readonly { counts: { waiting: number }; jobs: readonly { id: string }[] }[]
  }
  expect(queues.map(({ counts }) => counts.waiting)).toEqual([added.length])
  expect(queues[0]?.jobs.map(({ id }) => id).sort()).toEqual(added.map(({ id }) => id).sort())
  for (const { id = '' } of added) expect(await log(id)).toEqual([expect.stringMatching(/^now: /)])
})

test('shows the stored log where its Redis or the masters are away', async () => {
  const written: dashboard.LogAdapter = {
    getName: () => 'invoices',
    getJobLogs: () => Promise.resolve(['written']),
  }
  const away = { why: () => Promise.reject(new Error('away')) }
  expect(await dashboard.showReasons(written, away).getJobLogs('1')).toEqual([
    'written',
    'now: Error: away',
  ])
})
