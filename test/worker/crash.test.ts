/** kill -9 at every point of a job's way: the line goes on, in order, and nothing is lost. */
import { once } from 'node:events'
import type { ChildProcess } from 'node:child_process'
import { expect, test } from 'vitest'
import { until, useFleet } from '../fixtures.ts'
import type { DyingSetup, Entered, Point } from './dying-child.ts'
import type { ProducingSetup } from './producing-child.ts'

const fixture = useFleet({ masters: 5 })
const LEASE_MS = 2_000
const MAX_LEASE_MS = 10_000
/** Nothing but what follows a crash is promised within a time; a busy machine is slow. */
const READY_LIMIT_MS = 60_000
const LIMIT_MS = 60_000

/** Resolves when the process takes jobs. */
async function start(
  point: Point,
  queue = fixture.namespace,
  entered: (message: Entered) => void = () => undefined,
): Promise<ChildProcess> {
  const { namespace, connection } = fixture
  const locks = { masters: fixture.fleet.urls, namespace, leaseMs: LEASE_MS }
  const setup: DyingSetup = { queue, connection, ...locks, maxLeaseMs: MAX_LEASE_MS, point }
  const child = fixture.child(new URL('dying-child.ts', import.meta.url), setup)
  child.on('message', (message) => {
    if (message !== 'ready') entered(message as Entered)
  })
  await once(child, 'message', { signal: AbortSignal.timeout(READY_LIMIT_MS) })
  return child
}

test(
  "after kill -9 in a step the interrupted job runs again when the lease is over, and the customer's others follow in order",
  () =>
    // Its time is promised for a machine that keeps time.
    fixture.undisturbed(crash),
  300_000,
)

async function crash(): Promise<void> {
  await fixture.redlock({ maxLeaseMs: MAX_LEASE_MS })
  const queue = fixture.plainQueue<{ nr: number }>()
  const first: Entered[] = []
  const doomed = await start('in a step', undefined, (message) => first.push(message))
  await queue.add('charge', { nr: 2 })
  await until('the first job is in its step', () => first.length === 1)
  for (const nr of [3, 4]) await queue.add('charge', { nr })
  const after: (Entered & { readonly at: number })[] = []
  await start('never', undefined, (message) => after.push({ ...message, at: performance.now() }))
  await until('the others wait', async () => (await queue.getDelayedCount()) === 2)
  const killedAt = performance.now()
  doomed.kill('SIGKILL')
  await until('all are done', async () => (await queue.getCompletedCount()) === 3)

  expect(after.map(({ entered }) => entered)).toEqual([2, 3, 4])
  const waitedMs = after.map(({ at }) => Math.round(at - killedAt))
  console.log(`lease ${LEASE_MS} ms: jobs 1, 2, 3 started ${waitedMs.join(', ')} ms after kill -9`)
  expect(waitedMs[1]).toBeLessThanOrEqual(LEASE_MS + 2_000)
  const tokens = [...first, ...after].map(({ fencingToken }) => fencingToken)
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
  expect(new Set(tokens).size).toBe(4)
}

const POINTS: readonly Point[] = ['acquiring', 'extending', 'released', 'completed']

test(
  `${POINTS.join(', ')}: the others follow in order`,
  async () => {
    await (await fixture.redlock({ leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS })).close()
    await Promise.all(POINTS.map((point) => dies(point, `${fixture.namespace}-${point}`)))
  },
  4 * LIMIT_MS,
)

async function dies(point: Point, name: string): Promise<void> {
  const died = once(await start(point, name), 'exit')
  const options = { resource: () => name, defaultJobOptions: { attempts: 3 } }
  const queue = fixture.lockedQueue<{ nr: number }>(options, name)
  await queue.addBulk([1, 2, 3, 4].map((nr) => ({ name: 'charge', data: { nr } })))
  expect((await died)[1]).toBe('SIGKILL')
  await start('never', name)
  await until('all are done', async () => (await queue.getCompletedCount()) === 4, LIMIT_MS)
  const starts = (await fixture.redis().lrange(`${name}:starts`, 0, -1)).map(Number)
  // Whatever was interrupted ran again before anybody behind it ran at all.
  expect(starts, point).toEqual([...starts].sort((a, b) => a - b))
  expect([...new Set(starts)], point).toEqual([1, 2, 3, 4])
}

test(
  'a worker that stood still before it starts a job does not repeat what another one has done',
  async () => {
    const name = fixture.namespace
    await (await fixture.redlock({ leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS })).close()
    const frozen = await start('frozen', name)
    const queue = fixture.lockedQueue<{ nr: number }>({ resource: () => name }, name)
    const add = (nr: number): Promise<unknown> => queue.add('charge', { nr })
    for (const nr of [1, 2, 3]) await add(nr)
    const other = await start('never', name)
    await until('all are done', async () => (await queue.getCompletedCount()) === 3, LIMIT_MS)
    const left = once(other, 'exit')
    other.kill('SIGTERM')
    await left
    frozen.kill('SIGCONT')
    await add(4)
    await until('it works on', async () => (await queue.getCompletedCount()) === 4, LIMIT_MS)
    expect(await fixture.redis().lrange(`${name}:starts`, 0, -1)).toEqual(['1', '2', '3', '4'])
  },
  4 * LIMIT_MS,
)

test(
  'a producer: each job that it has stored has its place',
  async () => {
    const { namespace, connection } = fixture
    // With a place in a second trip, about half of the producers would die before it.
    const setup: ProducingSetup = { queue: namespace, connection, producers: 20 }
    const child = fixture.child(new URL('producing-child.ts', import.meta.url), setup)
    const died = once(child, 'exit')
    let stored = 0
    child.on('message', (message) => {
      stored = Number(message)
    })
    await until('it adds jobs', () => stored >= 100, READY_LIMIT_MS)
    child.kill('SIGKILL')
    await died

    const queue = fixture.lockedQueue<{ nr: number }>({ resource: () => 'customer:none' })
    const jobs = await queue.getJobs(['waiting', 'delayed', 'prioritized'])
    expect(jobs.length).toBeGreaterThanOrEqual(stored)
    const places = await Promise.all(jobs.map(({ id }) => queue.position(id ?? '')))
    expect(places.filter((place) => place === undefined)).toEqual([])
  },
  4 * LIMIT_MS,
)
