/** Shares of lines and tenants on a real queue: work done in proportion, and nothing left of it. */
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import type { LockedWorker, LockedWorkerOptions } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { lockedJobs } from '../support/locked-jobs.ts'

interface Task {
  readonly tenant: string
  readonly line: number
  readonly workMs: number
  readonly weight?: number
}

const fixture = useFleet({ masters: 3 })
const LIMIT_MS = 90_000
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const { makeQueue, work: workOn } = lockedJobs<Task>(
  fixture,
  ({ tenant, line }) => `${tenant}-${line}`,
  { concurrency: 1, removeOnComplete: { count: 0 } },
)

interface Seen {
  readonly worker: LockedWorker<Task>
  readonly order: Task[]
  /** Milliseconds of work of each tenant. */
  readonly worked: Map<string, number>
  /** Of these, what jobs took longer than they should, where the machine stood still. */
  readonly stalled: Map<string, number>
  readonly requeued: Task[]
}

async function work(
  options: Partial<LockedWorkerOptions<Task>> = {},
  failing: (task: Task) => boolean = () => false,
): Promise<Seen> {
  const worker = await workOn(async ({ data }) => {
    const startedAt = performance.now()
    seen.order.push(data)
    if (data.workMs > 0) await pause(data.workMs)
    const workedMs = performance.now() - startedAt
    add(seen.worked, data.tenant, workedMs)
    if (workedMs > data.workMs + STALL_MS) add(seen.stalled, data.tenant, workedMs - data.workMs)
    if (failing(data)) throw new Error('broken')
  }, options)
  const seen: Seen = { worker, order: [], worked: new Map(), stalled: new Map(), requeued: [] }
  worker.on('requeued', ({ data }) => seen.requeued.push(data))
  await worker.waitUntilReady()
  return seen
}

/** A machine that keeps time adds less to a job. */
const STALL_MS = 20

function add(sums: Map<string, number>, tenant: string, ms: number): void {
  sums.set(tenant, (sums.get(tenant) ?? 0) + ms)
}

/** `each` jobs in every one of `lines` lines, in turns. */
function tasks(
  tenant: string,
  lines: number,
  each: number,
  workMs: number,
  weight?: number,
): { name: string; data: Task }[] {
  return Array.from({ length: lines * each }, (_, index) => ({
    name: 'task',
    data: { tenant, line: index % lines, workMs, ...(weight !== undefined && { weight }) },
  }))
}

/**
 * Waits until that much work is done, and says what each did of it, divided by its weight. Where
 * the machine stood still, that counts as work of the job that ran, and the others have to make up
 * for it first, each by its weight: until then nothing is seen.
 */
async function shares(
  { worked, stalled }: Seen,
  totalMs: number,
  weights: Readonly<Record<string, number>>,
): Promise<readonly number[]> {
  const sum = Object.values(weights).reduce((all, weight) => all + weight, 0)
  const total = (): number => [...worked.values()].reduce((all, ms) => all + ms, 0)
  const found = (): readonly number[] =>
    Object.entries(weights).map(
      ([tenant, weight]) => ((worked.get(tenant) ?? 0) / total()) * (sum / weight),
    )
  const madeUpFor = (): number =>
    Math.max(
      0,
      ...Object.entries(weights).map(
        ([tenant, weight]) => ((stalled.get(tenant) ?? 0) * sum) / weight,
      ),
    )
  await until(
    'enough work is done',
    () => total() >= totalMs && (isFair(found()) || total() >= totalMs + madeUpFor()),
    LIMIT_MS,
  )
  return found()
}

function isFair(found: readonly number[]): boolean {
  return found.every((share) => share > 0.95 && share < 1.05)
}

function expectFair(found: readonly number[]): void {
  for (const share of found) {
    expect(share, found.join()).toBeGreaterThan(0.95)
    expect(share, found.join()).toBeLessThan(1.05)
  }
}

/** What is left in the queue's Redis of tenants. */
async function leftovers(): Promise<readonly string[]> {
  const client = fixture.redis()
  const keys = await client.keys(`bull:${fixture.namespace}:redlock:*`)
  const meta = await client.hkeys(`bull:${fixture.namespace}:meta`)
  return [...keys, ...meta].filter((key) => /:(?:line:|shares|ready|time)/.test(key))
}

/** Some of the jobs count a machine that stands still as their work, and shares are 5 % apart. */
function testShares(name: string, run: () => Promise<void>): void {
  test(name, () => fixture.undisturbed(run), 5 * LIMIT_MS)
}

const byTenant = { tenant: ({ tenant }: Task): string => tenant }

describe('weights', () => {
  const weights = { w1: 1, w2: 2, w4: 4 }

  for (const [length, workMs, burstMs] of [
    ['shorter', 4, 10],
    ['longer', 15, 5],
  ] as const) {
    testShares(
      `1:2:4 give work done in that proportion, for jobs ${length} than a burst`,
      async () => {
        const queue = makeQueue({ weight: ({ weight = 1 }) => weight })
        for (const [tenant, weight] of Object.entries(weights)) {
          await queue.addBulk(tasks(tenant, 1, 1_000, workMs, weight))
        }
        expectFair(await shares(await work({ burstMs }), 3_000, weights))
      },
    )
  }

  testShares('belong to tenants where the queue names tenants', async () => {
    const queue = makeQueue({ ...byTenant, weight: ({ weight = 1 }) => weight })
    for (const [tenant, weight] of Object.entries(weights)) {
      await queue.addBulk(tasks(tenant, 7, 100, 5, weight))
    }
    expectFair(await shares(await work({ burstMs: 10, concurrency: 2 }), 3_500, weights))
  })
})

describe('tenants', () => {
  testShares(
    'give a tenant with 30 lines as much work as one with a line; its lines take turns',
    async () => {
      const queue = makeQueue(byTenant)
      await queue.addBulk(tasks('big', 30, 40, 4))
      await queue.addBulk(tasks('small', 1, 400, 12))
      const seen = await work({ burstMs: 20 })
      expectFair(await shares(seen, 3_000, { big: 1, small: 1 }))
      const starts = new Map<number, number>()
      for (const { tenant, line } of seen.order) {
        if (tenant === 'big') starts.set(line, (starts.get(line) ?? 0) + 1)
      }
      expect(starts.size).toBe(30)
      expect(Math.max(...starts.values()) - Math.min(...starts.values())).toBeLessThan(15)
    },
  )

  testShares('give the same shares on several slots', async () => {
    const queue = makeQueue(byTenant)
    await queue.addBulk(tasks('big', 40, 25, 10))
    await queue.addBulk(tasks('small', 8, 60, 25))
    expectFair(await shares(await work({ concurrency: 4 }), 5_000, { big: 1, small: 1 }))
  })

  testShares(
    'give the same shares to jobs in separate lines, delayed jobs, and retried ones',
    async () => {
      const queue = makeQueue(byTenant)
      const own = tasks('own', 400, 1, 5)
      const late = tasks('late', 400, 1, 5).map((task) => ({ ...task, opts: { delay: 200 } }))
      const failing = tasks('failing', 20, 10, 5).map((task) => ({
        ...task,
        opts: { attempts: 3 },
      }))
      await queue.addBulk([...late, ...own, ...failing, ...tasks('line', 1, 400, 5)])
      await pause(250)
      const seen = await work({}, ({ tenant }) => tenant === 'failing')
      expectFair(await shares(seen, 4_000, { own: 1, late: 1, failing: 1, line: 1 }))
    },
  )

  testShares('give an idle tenant no credit, and leave nothing behind', async () => {
    const queue = makeQueue(byTenant)
    await queue.addBulk([...tasks('busy', 5, 250, 4), ...tasks('other', 1, 5, 4)])
    const seen = await work({ burstMs: 10 })
    await until('the other is idle', () => (seen.worked.get('busy') ?? 0) > 1_000)
    await queue.addBulk(tasks('other', 1, 700, 4))
    expect(await queue.getMeta()).not.toHaveProperty('redlock:time')
    seen.worked.clear()
    seen.stalled.clear()
    expectFair(await shares(seen, 2_500, { busy: 1, other: 1 }))
    await queue.drain()
    await until('nothing is left', async () => (await leftovers()).length === 0)
  })

  test('jobs that are removed, cancelled, paused or without a tenant block no other job', async () => {
    const queue = makeQueue(byTenant)
    const added = await queue.addBulk([...tasks('a', 6, 1, 1), ...tasks('b', 1, 3, 1)])
    await added[0]?.remove()
    expect((await queue.cancel(added[1]?.id ?? ''))[0]?.outcome).toBe('failed')
    await queue.pauseResource('a-2')
    await makeQueue().addBulk(tasks('none', 3, 2, 1))
    const seen = await work()
    await until('the others ran', () => seen.order.length === 12)
    await pause(200)
    expect(seen.order.filter(({ tenant }) => tenant === 'a').map(({ line }) => line)).toEqual([
      3, 4, 5,
    ])
    await queue.resumeResource('a-2')
    await until('all ran', () => seen.order.length === 13)
    await until('nothing is left', async () => (await leftovers()).length === 0)
  })

  test('a queue that is resumed has its workers look for the jobs that may start', async () => {
    const queue = makeQueue(byTenant)
    await queue.addBulk(tasks('a', 1, 2, 1))
    await queue.pause()
    await queue.resume()
    expect(await fixture.redis().zscore(queue.toKey('marker'), '0')).toBe('0')
  })

  test('a job that ends after its queue was obliterated leaves nothing of its tenant', async () => {
    const queue = makeQueue(byTenant)
    await queue.addBulk(tasks('a', 1, 1, 300))
    // Two, so that the worker waits for a mark, and looks for no job when this one has ended.
    const { worker, order } = await work({ concurrency: 2 })
    await until('it runs', () => order.length === 1)
    const refused = once(worker, 'error')
    await queue.obliterate({ force: true })
    await refused
    expect(await leftovers()).toEqual([])
  })

  test('a worker that starts several jobs at once takes them from tenants in turn', async () => {
    const queue = makeQueue(byTenant)
    await queue.addBulk([...tasks('a', 4, 1, 300), ...tasks('b', 4, 1, 300)])
    const seen = await work({ concurrency: 4 })
    await until('four run', () => seen.order.length >= 4)
    const tenants = seen.order.slice(0, 4).map(({ tenant }) => tenant)
    expect(tenants.toSorted()).toEqual(['a', 'a', 'b', 'b'])
  })

  test('a start that is refused counts nothing for its tenant', async () => {
    const queue = makeQueue(byTenant)
    await queue.addBulk([...tasks('busy', 1, 1, 2_000), ...tasks('paused', 1, 1, 1)])
    await queue.pauseResource('paused-0')
    const seen = await work({ concurrency: 2 })
    await until('it was given in vain', () => seen.requeued.length === 1)
    const client = fixture.redis()
    const { namespace } = fixture
    const used = await client.zmscore(`bull:${namespace}:redlock:::shares`, 'busy', 'paused')
    expect(Number(used[0])).toBeGreaterThan(0)
    expect(Number(used[1])).toBe(0)
  })

  test('a job that its line started waits for its backoff, and one that is added again for its delay', async () => {
    const queue = makeQueue({ ...byTenant, slots: 2 })
    const [first, failing] = tasks('a', 1, 2, 10)
    if (first === undefined || failing === undefined) throw new Error('two tasks')
    await queue.addBulk([
      first,
      { ...failing, data: { ...failing.data, workMs: 1 }, opts: { attempts: 2, backoff: 600 } },
    ])
    const again = { ...first.data, line: 9, workMs: 0 }
    const removed = await queue.add('task', again, { jobId: 'again' })
    await removed.remove()
    const addedAt = performance.now()
    await queue.add('task', again, { jobId: 'again', delay: 600 })
    const begun: [workMs: number, at: number][] = []
    await work({ slots: 2 }, ({ workMs }) => {
      begun.push([workMs, performance.now()])
      return workMs === 1
    })
    await until('both attempts ran', () => begun.length === 4)
    const [one, two] = begun.filter(([workMs]) => workMs === 1).map(([, at]) => at)
    expect((two ?? 0) - (one ?? 0)).toBeGreaterThan(590)
    const late = begun.find(([workMs]) => workMs === 0)?.[1] ?? 0
    expect(late - addedAt).toBeGreaterThan(590)
  })

  test('the jobs of a tenant that may start begin by priority', async () => {
    const queue = makeQueue(byTenant)
    await queue.addBulk(
      tasks('a', 4, 1, 1).map((task, index) => ({ ...task, opts: { priority: 5 - index } })),
    )
    const seen = await work()
    await until('all ran', () => seen.order.length === 4)
    expect(seen.order.map(({ line }) => line)).toEqual([3, 2, 1, 0])
  })

  test('and by the priority that they were given later', async () => {
    const queue = makeQueue(byTenant)
    const [first, , third] = await queue.addBulk(tasks('a', 3, 1, 1))
    await first?.changePriority({ priority: 5 })
    await third?.changePriority({ lifo: true })
    const seen = await work()
    await until('all ran', () => seen.order.length === 3)
    expect(seen.order.map(({ line }) => line)).toEqual([2, 1, 0])
  })

  test.each(['a pause', 'a rate'])(
    'a job that %s holds back starts when that ends early',
    async (what) => {
      const queue = makeQueue(byTenant)
      const isPause = what === 'a pause'
      if (isPause) await queue.pauseResource('a-0', { until: Date.now() + 600_000 })
      else await queue.setRate('a-0', { limit: 1, perMs: 600_000 })
      await queue.addBulk(tasks('a', 1, 3, 1))
      const seen = await work()
      await until('one is held', async () => (await queue.getDelayedCount()) === 1)
      if (isPause) await queue.resumeResource('a-0')
      else await queue.resetRate('a-0')
      await until('all ran', () => seen.order.length === 3, 5_000)
    },
  )

  test('a delayed job that is due while its line is paused starts when the pause ends', async () => {
    await fixture.redis().set(`bull:${fixture.namespace}:redlock:::sweeper`, 'none of them')
    const queue = makeQueue(byTenant)
    await queue.pauseResource('a-0', { until: Date.now() + 1_000 })
    await queue.addBulk(tasks('a', 1, 1, 1).map((task) => ({ ...task, opts: { delay: 100 } })))
    const seen = await work()
    await until('it ran', () => seen.order.length === 1, 5_000)
  })

  test('a job ends also when the server has no memory left', async () => {
    const queue = makeQueue(byTenant)
    await queue.addBulk([...tasks('a', 2, 2, 20), ...tasks('b', 1, 2, 20)])
    const client = fixture.redis()
    fixture.defer(() => client.config('SET', 'maxmemory', '0'))
    const seen = await work()
    await until('it works', () => seen.order.length === 1)
    await client.config('SET', 'maxmemory', '1')
    await until('all ran', () => seen.order.length === 6)
    await client.config('SET', 'maxmemory', '0')
  })

  test('refuses a job without a tenant, or with a bad weight', async () => {
    const queue = makeQueue({ tenant: () => '', weight: () => 0 })
    await expect(queue.add('task', { tenant: '', line: 0, workMs: 0 })).rejects.toThrow(/tenant/)
    const other = makeQueue({ weight: () => 0 })
    await expect(other.add('task', { tenant: '', line: 0, workMs: 0 })).rejects.toThrow(/weight/)
    expect(() => makeQueue({ tenant: 'a' as never })).toThrow(/tenant/)
  })
})
