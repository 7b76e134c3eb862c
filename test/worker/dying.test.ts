/** kill -9 at every point of a job's way: the line goes on, in order, and nothing is lost. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { LockedQueue } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'
import type { DyingSetup, Point } from './dying-child.ts'
import type { ProducingSetup } from './producing-child.ts'
import { forkProgram } from '../support/programs.ts'

const fixture = useFleet({ masters: 3 })
const LEASE_MS = 1_500
/** Nothing here is promised within a time; a busy machine starts a process late. */
const READY_LIMIT_MS = 60_000
const LIMIT_MS = 60_000

async function start(setup: DyingSetup): Promise<ChildProcess> {
  const child = forkProgram(new URL('dying-child.ts', import.meta.url), [JSON.stringify(setup)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  fixture.defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
  })
  await once(child, 'message', { signal: AbortSignal.timeout(READY_LIMIT_MS) })
  return child
}

/** `crash.test.ts` has the one in a step. */
const POINTS: readonly Point[] = ['acquiring', 'extending', 'released', 'completed']

test(
  `${POINTS.join(', ')}: the others follow in order`,
  async () => {
    await (await fixture.redlock({ leaseMs: LEASE_MS, maxLeaseMs: 10_000 })).close()
    await Promise.all(POINTS.map((point) => dies(point, `${fixture.namespace}-${point}`)))
  },
  4 * LIMIT_MS,
)

async function dies(point: Point, name: string): Promise<void> {
  const { namespace, fleet } = fixture
  const connection = { host: fleet.queue.host, port: fleet.queue.port }
  const masters = fleet.urls
  const setup = { queue: name, connection, masters, namespace, leaseMs: LEASE_MS }
  const doomed = await start({ ...setup, point })
  const died = once(doomed, 'exit')
  const queue = new LockedQueue<{ nr: number }>(name, {
    connection,
    resource: () => name,
    defaultJobOptions: { attempts: 3 },
  })
  fixture.defer(() => queue.close())
  await queue.addBulk([1, 2, 3, 4].map((nr) => ({ name: 'charge', data: { nr } })))
  expect((await died)[1]).toBe('SIGKILL')
  await start({ ...setup, point: 'never' })
  await until('all are done', async () => (await queue.getCompletedCount()) === 4, LIMIT_MS)
  const redis = new Redis({ ...connection })
  const starts = (await redis.lrange(`${name}:starts`, 0, -1)).map(Number)
  redis.disconnect()
  // Whatever was interrupted ran again before anybody behind it ran at all.
  expect(starts, point).toEqual([...starts].sort((a, b) => a - b))
  expect([...new Set(starts)], point).toEqual([1, 2, 3, 4])
}

test(
  'a producer: each job that it has stored has its place',
  async () => {
    const { namespace, fleet } = fixture
    const connection = { host: fleet.queue.host, port: fleet.queue.port }
    // With a place in a second trip, about half of the producers would die before it.
    const setup: ProducingSetup = { queue: namespace, connection, producers: 20 }
    const child = forkProgram(new URL('producing-child.ts', import.meta.url), [
      JSON.stringify(setup),
    ])
    const died = once(child, 'exit')
    fixture.defer(async () => {
      child.kill('SIGKILL')
      await died
    })
    let stored = 0
    child.on('message', (message) => {
      stored = Number(message)
    })
    await until('it adds jobs', () => stored >= 100, READY_LIMIT_MS)
    child.kill('SIGKILL')
    await died

    const queue = new LockedQueue<{ nr: number }>(namespace, {
      connection,
      resource: () => 'customer:none',
    })
    fixture.defer(() => queue.close())
    const jobs = await queue.getJobs(['waiting', 'delayed', 'prioritized'])
    expect(jobs.length).toBeGreaterThanOrEqual(stored)
    const places = await Promise.all(jobs.map(({ id }) => queue.position(id ?? '')))
    expect(places.filter((place) => place === undefined)).toEqual([])
  },
  4 * LIMIT_MS,
)
