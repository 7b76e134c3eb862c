/**
 * What the page is told: leases, lines and changes, from real servers, within bounds.
 */
import { describe, expect, test } from 'vitest'
import { cli, runningCli } from '../cli/run-cli.ts'
import { fleetEnv } from '../../support/fleet-env.ts'
import { granted, until, useFleet } from '../../fixtures.ts'
import type { DashboardState } from '../../../src/tools/dashboard/state.ts'
import { invoices, invoiceWorker, serve } from './harness.ts'

const fixture = useFleet({ masters: 5 })
const LONG = { leaseMs: 15_000, maxLeaseMs: 20_000 }

test('the fleet, and live leases with holder, time left and votes', async () => {
  const redlock = await fixture.redlock({ ...LONG, owner: 'worker-1:4711' })
  const lease = await granted(redlock, 'customer:42')
  const { fleet, leases, lines, namespace } = await (await serve(fixture)).state()
  expect(namespace).toBe(fixture.namespace)
  expect(fleet).toMatchObject({ voting: 5, quorum: 3, margin: 2 })
  expect(fleet.masters.map(({ state }) => state)).toEqual(Array(5).fill('votes'))
  expect(leases).toMatchObject({ matching: 1, truncated: false, masters: 5 })
  const [row] = leases.rows
  expect(row).toMatchObject({ resource: 'customer:42', state: 'held', votes: 5 })
  expect(row?.holder).toMatch(/^worker-1:4711 \(/)
  expect(row?.fencingToken).toBe(lease.fencingToken)
  expect(row?.freeInMs).toBeGreaterThan(0)
  expect(lines).toMatchObject({ total: 0, lines: [] })
})

test('masters that are away are named, and passwords are not', async () => {
  await fixture.redlock(LONG)
  await fixture.fleet.masters[1]?.kill()
  const masters = fixture.fleet.urls.map((url) => url.replace('//', '//user:secret-word@'))
  const served = await serve(fixture, {
    masters: [fixture.fleet.urls[0] ?? '', ...masters.slice(1)],
  })
  const state = await served.state()
  expect(state.fleet.masters[1]?.state).toBe('unreachable')
  expect(state.fleet.findings.map(({ code }) => code)).toContain('unreachable')
  expect(JSON.stringify(state)).not.toContain('secret-word')
})

describe('lines', () => {
  test('shows what each job waits for, and one resource with its completed steps', async () => {
    const queue = invoices(fixture)
    const held = fixture.gate()
    await invoiceWorker(
      fixture,
      async (lease) => {
        await lease.step('load', () => 1)
        await lease.step('charge', () => held.passed)
      },
      { checkpoints: true },
    )
    for (let nr = 0; nr < 4; nr++) await queue.add('x', { customer: '42' }, { jobId: `j${nr}` })
    const served = await serve(fixture, { prefix: fixture.namespace })
    const lines = async (): Promise<DashboardState['lines']> => (await served.state()).lines
    await until('the first runs', async () => {
      return JSON.stringify(await lines()).includes('it is being processed')
    })
    expect(await lines()).toMatchObject({
      ...{ total: 1, truncated: false },
      lines: [
        {
          ...{ resource: 'customer:42', jobs: 4 },
          first: [
            { queue: 'invoices', jobId: 'j0', state: 'active' },
            { jobId: 'j1', state: 'waiting', waitsFor: 'its turn: 1 ahead of it' },
            { jobId: 'j2', state: 'waiting', waitsFor: 'its turn: 2 ahead of it' },
          ],
        },
      ],
    })
    const answer = await fetch(`${served.base}/resource?name=customer:42`)
    expect(await answer.json()).toMatchObject({
      holder: { fencingToken: expect.any(Number) as number },
      masters: Array(5).fill({ holder: expect.stringContaining('worker-1:4711') as string }),
      line: [
        { jobId: 'j0', stepsDone: ['load'] },
        { jobId: 'j1' },
        { jobId: 'j2' },
        { jobId: 'j3' },
      ],
    })
    held.open()
    await until('all are done', async () => (await queue.getCompletedCount()) === 4)
  })
})

describe('bounds', () => {
  test('reads at most `limit` leases, says that there are more, and finds them by search', async () => {
    const redlock = await fixture.redlock(LONG)
    const names = Array.from({ length: 30 }, (_, nr) => `customer:${nr + 10}`)
    for (const name of names) await granted(redlock, name)
    const served = await serve(fixture, { limit: 5 })
    const all = await served.state()
    expect(all.leases).toMatchObject({ matching: 5, truncated: true })
    expect(all.changes.unknown).toBe('more leases than are looked at')
    const found = await served.state('mer:39')
    expect(found.leases.rows.map(({ resource }) => resource)).toEqual(['customer:39'])
    expect((await served.state('*')).leases.rows).toEqual([]) // A text, not a pattern.
  })

  test('sends one page of rows in the requested order, with the number of all', async () => {
    const redlock = await fixture.redlock(LONG)
    await Promise.all(Array.from({ length: 60 }, (_, nr) => granted(redlock, `customer:${nr}`)))
    await granted(redlock, 'shortest', { leaseMs: 12_000 })
    const { base } = await serve(fixture)
    const leases = async (query: string): Promise<DashboardState['leases']> => {
      const answer = await fetch(`${base}/state?${query}`)
      return ((await answer.json()) as DashboardState).leases
    }
    const first = await leases('')
    expect(first).toMatchObject({
      matching: 61,
      truncated: false,
      page: 1,
      pages: 3,
      problem: null,
    })
    expect(first.rows).toHaveLength(25)
    const last = await leases('page=99')
    expect(last).toMatchObject({ page: 3 })
    expect(last.rows).toHaveLength(11)
    expect(last.rows.at(-1)?.resource).toBe('shortest')
    expect((await leases('sort=left')).rows[0]?.resource).toBe('shortest')
    expect((await leases('sort=nothing&page=-1')).page).toBe(1)
  })

  test('jobs of each queue, the job beside its lease, and the last minutes', async () => {
    const before = Date.now()
    const held = fixture.gate()
    await invoiceWorker(fixture, () => held.passed)
    const queue = invoices(fixture)
    for (let nr = 0; nr < 3; nr++) await queue.add('x', { customer: '42' }, { jobId: `j${nr}` })
    await queue.add('x', { customer: '7' }, { delay: 60_000 })
    const served = await serve(fixture, { prefix: fixture.namespace, bullBoard: '/admin/queues' })
    await until(
      'the first runs',
      async () => (await served.state()).leases.rows[0]?.job !== undefined,
    )
    const { queues, leases, history, bullBoard } = await served.state()
    expect(queues).toEqual([
      { queue: 'invoices', waiting: 2, delayed: 1, active: 1, failed: 0, done: 0 },
    ])
    expect(leases.rows[0]).toMatchObject({
      ...{ resource: 'customer:42', job: { queue: 'invoices', jobId: 'j0' } },
    })
    expect(leases.rows[0]?.job?.since).toBeGreaterThanOrEqual(before)
    expect(history.at(-1)).toMatchObject({ held: 1, waiting: 2, active: 1 })
    expect(bullBoard).toBe('/admin/queues')
    held.open()
    // The lease passes to the next job of the line, and the page follows.
    await until('all are done', async () => {
      const [counts] = (await served.state()).queues as readonly { done: number }[]
      return counts?.done === 3
    })
  })

  test('fetches only the first jobs of a long line', async () => {
    const queue = invoices(fixture)
    await queue.addBulk(
      Array.from({ length: 300 }, () => ({ name: 'x', data: { customer: '42' } })),
    )
    const redis = fixture.redis()
    await redis.config('RESETSTAT')
    const { lines } = await (await serve(fixture, { prefix: fixture.namespace })).state()
    const used = await redis.info('commandstats')
    expect(lines).toMatchObject({ lines: [{ jobs: 300 }] })
    expect(lines).toHaveProperty('lines.0.first.length', 3)
    expect(used).toMatch(/cmdstat_zcard:/)
    expect(used).not.toMatch(/cmdstat_(keys|hkeys|hgetall|smembers):/)
  })

  test('simultaneous readers share one snapshot', async () => {
    await fixture.redlock(LONG)
    const served = await serve(fixture, { everyMs: 60_000 })
    const redis = fixture.redis(fixture.fleet.masters[0])
    const scans = async (): Promise<number> =>
      Number(/cmdstat_scan:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0)
    const before = await scans()
    const states = await Promise.all(Array.from({ length: 20 }, () => served.state()))
    expect(new Set(states.map(({ at }) => at)).size).toBe(1)
    expect((await scans()) - before).toBe(1)
  })
})

describe('the command', () => {
  test('serves on this machine, and ends with Ctrl-C', async () => {
    await fixture.redlock(LONG)
    await using program = runningCli(['dashboard', '--port', '0'], fixture.env)
    const [, base = ''] = await program.line(/dashboard at (http:\/\/127\.0\.0\.1:\d+)\//)
    const answer = await fetch(`${base}/state`)
    expect(await answer.json()).toMatchObject({ fleet: { voting: 5 } })
    program.interrupt()
    expect((await program.end()).code).toBe(130)
  })

  test.each(['0.0.0.0', '::', '192.0.2.1', 'ops.example'])(
    '--host %s is refused without a token, and the way out named',
    async (host) => {
      const env = fleetEnv(fixture.fleet.urls, fixture.namespace)
      const said = await cli(['dashboard', '--port', '0', '--host', host], { env })
      expect(said.code).toBe(2)
      expect(said.err).toContain(`--host ${host} lets other machines in, so a token is needed`)
      expect(said.err).toContain('BULLMQ_REDLOCK_DASHBOARD_TOKEN')
    },
  )

  test('--host 0.0.0.0 with a token', async () => {
    await fixture.redlock(LONG)
    const token = 'correct-horse-battery'
    const env = {
      ...fleetEnv(fixture.fleet.urls, fixture.namespace),
      BULLMQ_REDLOCK_DASHBOARD_TOKEN: token,
    }
    await using program = runningCli(['dashboard', '--port', '0', '--host', '0.0.0.0'], env)
    const [, port = ''] = await program.line(/dashboard at http:\/\/0\.0\.0\.0:(\d+)\//)
    const url = `http://127.0.0.1:${port}/state`
    expect((await fetch(url)).status).toBe(401)
    expect((await fetch(url, { headers: { authorization: `Bearer ${token}` } })).status).toBe(200)
    program.interrupt()
    await program.end()
  })
})
