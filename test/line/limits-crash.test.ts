/** Limits and batches hold over several processes, of which one is killed in the middle. */
import type { ChildProcess } from 'node:child_process'
import { expect, test } from 'vitest'
import type { LockedQueue } from '../../src/index.ts'
import { MAX_LEASE_MS, until, useFleet } from '../fixtures.ts'
import { NeverExcused } from '../support/undisturbed.ts'
import { countStarts, ranUncounted, tooEarly } from './counted-starts.ts'
import type { ChildReport, ChildSetup } from './limited-child.ts'

interface Call {
  readonly customer: string
  readonly nr: number
}

const fixture = useFleet({ masters: 3 })
const PROCESSES = 3

function makeQueue(options = {}): LockedQueue<Call> {
  return fixture.lockedQueue<Call>({ ...options, resource: ({ customer }) => customer })
}

interface Seen extends ChildReport {
  readonly child: number
}

async function startChildren(
  workMs: number,
  {
    processes = PROCESSES,
    aheadMs = 0,
    concurrency = 6,
    batch,
  }: Partial<Pick<ChildSetup, 'aheadMs' | 'concurrency' | 'batch'>> & { processes?: number } = {},
): Promise<{ readonly seen: Seen[]; readonly children: readonly ChildProcess[] }> {
  await fixture.redlock()
  const { namespace, connection } = fixture
  const setup: ChildSetup = {
    ...{ queue: namespace, connection, masters: fixture.fleet.urls, namespace },
    maxLeaseMs: MAX_LEASE_MS,
    ...{ workMs, aheadMs, concurrency },
    ...(batch !== undefined && { batch }),
  }
  const seen: Seen[] = []
  const children = Array.from({ length: processes }, (_, index) => {
    const child = fixture.child(new URL('limited-child.ts', import.meta.url), setup)
    child.on('message', (message) => seen.push({ ...(message as ChildReport), child: index }))
    return child
  })
  return { seen, children }
}

/** As it happened: reports of several processes come in any order. What ended makes room first. */
function inOrder(seen: readonly Seen[]): readonly Seen[] {
  const rank = ({ what }: Seen): number => (what === 'started' ? 1 : 0)
  return seen.toSorted((a, b) => a.at - b.at || rank(a) - rank(b))
}

const calls = (customer: string, count: number): { name: string; data: Call }[] =>
  Array.from({ length: count }, (_, nr) => ({ name: 'call', data: { customer, nr } }))

test('pause, slots and a rate hold while a worker is killed, and nothing is left of them', async () => {
  const LIMIT = 50
  const BURST = 5
  const SLOTS = 4
  const queue = makeQueue({ slots: ({ customer }: Call) => (customer === 'many' ? SLOTS : 1) })
  await queue.pauseResource('paused')
  await queue.setSlots('wide', SLOTS)
  await queue.setRate('api', { limit: LIMIT, perMs: 1_000, burst: BURST })
  await queue.addBulk([...calls('paused', 3), ...calls('wide', 60), ...calls('api', 150)])
  await queue.addBulk(calls('many', 60))
  const counted = await countStarts(fixture, 'api')
  const { seen, children } = await startChildren(5)
  const started = (customer: string): readonly Seen[] =>
    seen.filter((one) => one.customer === customer && one.what === 'started')
  await until('it goes on', () => started('api').length >= 40, 90_000)
  // One that holds something.
  const victim = seen.findLast(({ what }) => what === 'started')?.child ?? 0
  children[victim]?.kill('SIGKILL')
  await until('the others ran', async () => (await queue.getCompletedCount()) === 270, 90_000)

  expect(counted.length).toBeGreaterThanOrEqual(150)
  expect(tooEarly(counted, LIMIT, 1_000, BURST)).toBe(0)
  expect(ranUncounted(started('api'), 'api', counted)).toEqual([])
  for (const line of ['wide', 'many']) {
    let running = 0
    for (const { what, customer, child } of inOrder(seen)) {
      if (customer !== line || child === victim || what === 'requeued') continue
      running += what === 'started' ? 1 : -1
      expect(running).toBeLessThanOrEqual(SLOTS)
    }
  }
  expect(started('paused')).toEqual([])
  await queue.resumeResource('paused')
  await until('the paused ones ran', async () => (await queue.getCompletedCount()) === 273)
  expect(started('paused').map(({ nr }) => nr)).toEqual([0, 1, 2])
  await queue.resetSlots('wide')
  await queue.resetRate('api')
  expect(await queue.getAllLimits()).toEqual(new Map())
}, 240_000)

test('a whole resource is cancelled from another process, also where its worker is killed', async () => {
  const queue = makeQueue()
  await queue.setSlots('a', 2)
  await queue.addBulk([...calls('a', 200), ...calls('b', 3)])
  const { seen, children } = await startChildren(300_000)
  const started = (): readonly Seen[] => seen.filter(({ what }) => what === 'started')
  await until('two of the line run', () => started().length === 3, 90_000)
  const running = started().filter(({ customer }) => customer === 'a')
  const [first, second] = running.toSorted((a, b) => a.nr - b.nr)
  // Where both run in one process, both come back when it is killed.
  children[first?.child ?? 0]?.kill('SIGKILL')
  const answers = await queue.cancel(
    { resource: 'a' },
    { reason: 'runaway import', timeoutMs: 60_000 },
  )
  const outcomes = answers.map(({ outcome }) => outcome)
  expect(outcomes.slice(2)).toEqual(Array.from({ length: 198 }, () => 'failed'))
  expect(['failed', 'stopped']).toContain(outcomes[0])
  expect(outcomes[1]).toBe(second?.child === first?.child ? outcomes[1] : 'stopped')
  expect(await queue.getFailedCount()).toBe(200)
  const reasons = new Set((await queue.getFailed()).map(({ failedReason }) => failedReason))
  expect([...reasons].every((text) => text.endsWith('was cancelled: runaway import'))).toBe(true)
  expect(started().filter(({ customer, nr }) => customer === 'a' && nr > 1)).toEqual([])
  expect(seen.filter(({ customer, what }) => customer === 'b' && what === 'ended')).toEqual([])
}, 240_000)

test('a worker whose clock is ahead exceeds no rate, ends no pause, and polls seldom', async () => {
  const queue = makeQueue()
  const { seen } = await startChildren(1, { processes: 1, aheadMs: 700 })
  const starts = (customer: string): readonly Seen[] =>
    seen.filter((one) => one.what === 'started' && one.customer === customer)
  await queue.addBulk(calls('any', 1))
  await until('it works', () => starts('any').length === 1, 90_000)
  await queue.setRate('api', { limit: 2, perMs: 1_000 })
  const counted = await countStarts(fixture, 'api')
  const endsAt = Date.now() + 2_000
  await queue.pauseResource('paused', { until: endsAt })
  await queue.addBulk([...calls('api', 4), ...calls('paused', 1)])
  const isDone = (): boolean => starts('api').length === 4 && starts('paused').length === 1
  await until('all ran', isDone)
  expect(starts('paused')[0]?.at).toBeGreaterThanOrEqual(endsAt)
  expect(counted).toHaveLength(4)
  expect(tooEarly(counted, 2, 1_000, 1)).toBe(0)
  expect(ranUncounted(starts('api'), 'api', counted)).toEqual([])
  const [first = 0, last = 0] = [counted[0], counted[3]]
  const asked = seen.filter(({ what, at }) => what === 'requeued' && at >= first && at <= last)
  // Each of the two held jobs at most once in 10 ms.
  expect(asked.length / ((last - first) / 1_000)).toBeLessThan(250)
}, 240_000)

test('tenants share the work 1:1 while a worker is killed; no job is lost or out of order', async () => {
  // What a job takes longer where the machine stands still counts as its tenant's work.
  await fixture.undisturbed(async () => {
    const queue = makeQueue({ tenant: ({ customer }: Call) => customer.slice(0, 1) })
    const lines = (tenant: string, count: number, each: number): { name: string; data: Call }[] =>
      Array.from({ length: count }, (_, index) => calls(`${tenant}${index}`, each)).flat()
    await queue.addBulk([...lines('a', 50, 9), ...lines('b', 6, 75)])
    const { seen, children } = await startChildren(20, { concurrency: 1 })
    const ended = (): readonly Seen[] => inOrder(seen).filter(({ what }) => what === 'ended')
    await until('it goes on', () => ended().length >= 250, 90_000)
    const victim = seen.findLast(({ what }) => what === 'started')?.child ?? 0
    children[victim]?.kill('SIGKILL')
    await until('all ran', async () => (await queue.getCompletedCount()) === 900, 120_000)
    for (const customer of new Set(seen.map((one) => one.customer))) {
      const starts = inOrder(seen).filter(
        (one) => one.customer === customer && one.what === 'started',
      )
      const nrs = starts.map(({ nr }) => nr)
      const isInOrder = nrs.every((nr, index) => nr >= (nrs[index - 1] ?? 0))
      if (!isInOrder) throw new NeverExcused(`jobs of ${customer} out of order: ${nrs.join()}`)
    }
    const share = ended()
      .slice(0, 700)
      .filter(({ customer }) => customer.startsWith('a')).length
    expect(share / 350).toBeGreaterThan(0.95)
    expect(share / 350).toBeLessThan(1.05)
  })
}, 600_000)

test('a batch comes back in order after its worker was killed in the middle', async () => {
  // A worker that stands still may lose its jobs, which then run again elsewhere.
  await fixture.undisturbed(killInTheMiddleOfABatch)
}, 600_000)

async function killInTheMiddleOfABatch(): Promise<void> {
  const queue = makeQueue()
  const SIZE = 8
  const COUNT = 60
  // Long enough that a batch is in its middle when its worker is killed.
  const { seen, children } = await startChildren(200, { processes: 2, batch: SIZE })
  for (const customer of ['a', 'b', 'c']) {
    await queue.addBulk(calls(customer, COUNT).map((call) => ({ ...call, opts: { attempts: 1 } })))
  }
  const isStart = ({ what }: ChildReport): boolean => what === 'started'
  await until('batches run', () => seen.filter(isStart).length >= 3 * SIZE, 90_000)
  const last = seen.findLast(isStart)
  const victim = last?.child ?? 0
  const customer = last?.customer ?? ''
  children[victim]?.kill('SIGKILL')
  await until('all ran', async () => (await queue.getCompletedCount()) === 3 * COUNT, 90_000)

  expect(await queue.getFailedCount()).toBe(0)
  const ofLine = seen.filter((one) => one.customer === customer)
  const before = ofLine.filter(({ child }) => child === victim)
  const done = new Set(before.filter(({ what }) => what === 'ended').map(({ nr }) => nr))
  const open = new Set(before.filter(isStart).map(({ nr }) => nr))
  for (const nr of done) open.delete(nr)
  expect(open.size).toBeGreaterThan(1)
  for (const line of ['a', 'b', 'c']) {
    const starts = seen.filter((one) => isStart(one) && one.customer === line)
    const again = starts.filter(({ child }) => child !== victim).map(({ nr }) => nr)
    expect(again).toEqual([...again].sort((a, b) => a - b))
    // Every job has run, and those of the batch that was killed, again.
    expect(new Set(starts.map(({ nr }) => nr)).size).toBe(COUNT)
  }
  const repeated = ofLine.filter((one) => isStart(one) && one.child !== victim && open.has(one.nr))
  expect(new Set(repeated.map(({ nr }) => nr))).toEqual(open)
}
