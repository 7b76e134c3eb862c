/** What many slots, many lines and many places cost the queue's Redis in one call. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Queue } from 'bullmq'
import { expect, test } from 'vitest'
import { LineBackend } from '../../src/line/line-backend.ts'
import { until, useFleet } from '../fixtures.ts'
import { upTo, useCalls } from './calls.ts'

const fixture = useFleet({ masters: 3 })
const { makeQueue, work, jobs, turnSweepsOff } = useCalls(fixture)
const {
  makeQueue: severalQueue,
  work: workSeveral,
  jobs: severalJobs,
} = useCalls<readonly string[]>(fixture)

/** A look at some lines, as a worker does once a second. */
const sweep = (queue: Queue): Promise<unknown> =>
  LineBackend.of(queue).run('line/lua/sweep', { most: 200, everyMs: 1, settings: '' })

/** How often scripts have read a hash since `CONFIG RESETSTAT`. */
async function hashReads(): Promise<number> {
  const stats = await fixture.redis().info('commandstats')
  const calls = [...stats.matchAll(/^cmdstat_(?:hmget|hgetall):calls=(\d+)/gm)]
  return calls.reduce((sum, [, count]) => sum + Number(count), 0)
}

/** How many scripts have run since then. */
async function scriptCalls(): Promise<number> {
  const stats = await fixture.redis().info('commandstats')
  const calls = [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+),.*failed_calls=(\d+)/gm)]
  return calls.reduce((sum, [, all, failed]) => sum + Number(all) - Number(failed), 0)
}

/** Of one line whose slots are all in use, for each of its jobs. */
async function readsOfJobs(slots: number, name: string): Promise<number> {
  const queue = makeQueue({ slots }, name)
  await fixture.redis().config('RESETSTAT')
  for (const nr of upTo(300)) await queue.add('call', { customer: 'a', nr })
  const { order } = await work({ slots, concurrency: slots }, () => pause(20), name)
  await until('all ran', () => order.length === 300)
  return (await hashReads()) / 300
}

test('a job of a line with many slots costs no more than one of a line with few', async () => {
  const few = await readsOfJobs(5, `${fixture.namespace}-few`)
  const many = await readsOfJobs(100, `${fixture.namespace}-many`)
  expect(many).toBeLessThan(1.5 * few)
})

test('each job that ends wakes the next one, where a line has many slots', async () => {
  await turnSweepsOff()
  const queue = makeQueue({ slots: 20 })
  await queue.addBulk(jobs('a', ...upTo(100)))
  expect(await fixture.plainQueue().getJobCounts('wait', 'delayed')).toEqual({
    wait: 20,
    delayed: 80,
  })
  const gate = fixture.gate()
  const seen = await work({ slots: 20, concurrency: 40 }, ({ data }) =>
    data.nr < 19 ? gate.passed : pause(2),
  )
  // One slot serves them all.
  await until('the others ran', () => seen.order.length === 81)
  expect(seen.order).toEqual(upTo(100).slice(19))
  expect(seen.most).toBe(20)
  gate.open()
  await until('all ran', () => seen.order.length === 100)
})

test('the one with the highest priority is the next, where a line has many slots', async () => {
  await turnSweepsOff()
  const queue = makeQueue({ slots: 20, within: 'priority' })
  const added = (nr: number, priority: number) =>
    queue.add('call', { customer: 'a', nr }, { priority })
  for (const nr of upTo(30)) await added(nr, 10)
  const [first, others] = [fixture.gate(), fixture.gate()]
  const seen = await work({ slots: 20, concurrency: 40 }, ({ data }) =>
    data.nr === 0 ? first.passed : others.passed,
  )
  await until('the slots are in use', () => seen.running === 20)
  await added(30, 1)
  first.open()
  await until('another one runs', () => seen.started.length === 21)
  expect(seen.started.at(-1)?.nr).toBe(30)
  others.open()
  await until('all ran', () => seen.order.length === 31)
})

test('slots that the first job had fewer of are used at once, also by jobs of other lines', async () => {
  await turnSweepsOff()
  const queue = severalQueue({ slots: ({ nr }) => (nr < 0 ? 1 : 4) })
  const [first, all] = [fixture.gate(), fixture.gate()]
  const seen = await workSeveral({}, ({ data }) => (data.nr < 0 ? first.passed : all.passed))
  await queue.addBulk(severalJobs(['a', 'b'], -1))
  await until('the first one runs', () => seen.running === 1)
  await queue.addBulk([
    ...severalJobs(['b'], 0, 1),
    ...severalJobs(['a', 'b'], 2),
    ...severalJobs(['b'], 3, 4),
  ])
  first.open()
  await until('four run', () => seen.running === 4, 5_000)
  expect(seen.started.map(({ nr }) => nr).sort()).toEqual([-1, 0, 1, 2, 3])
  all.open()
  await until('all ran', () => seen.order.length === 6)
})

test('slots that are raised, or open again, are used at once, where they are many', async () => {
  await turnSweepsOff()
  const queue = makeQueue({ slots: 2 })
  await queue.addBulk(jobs('a', ...upTo(60)))
  const [some, all] = [fixture.gate(), fixture.gate()]
  const seen = await work({ slots: 2, concurrency: 60 }, ({ data }) =>
    data.nr < 20 ? some.passed : all.passed,
  )
  await until('two run', () => seen.running === 2)
  await queue.setSlots('a', 20)
  await until('more run', () => seen.running === 20)
  await queue.pauseResource('a', { until: Date.now() + 1_000 })
  some.open()
  await until('the first ones ran', () => seen.order.length === 20)
  await until('the next ones run', () => seen.running === 20)
  expect(seen.most).toBe(20)
  all.open()
  await until('all ran', () => seen.order.length === 60)
})

test('a job behind those that use many slots is put back in line, and asks no master', async () => {
  await turnSweepsOff()
  const queue = makeQueue({ slots: 20 })
  await queue.addBulk(jobs('a', ...upTo(20)))
  const gate = fixture.gate()
  const seen = await work({ slots: 20, concurrency: 40 }, () => gate.passed)
  const statuses: string[] = []
  seen.worker.on('requeued', (_job, { status }) => statuses.push(status))
  await until('the slots are in use', () => seen.running === 20)
  const job = await queue.add('call', { customer: 'a', nr: 20 }, { delay: 60_000 })
  await job.promote()
  await until('it was put back', () => statuses.length === 1)
  gate.open()
  await until('all ran', () => seen.order.length === 21)
  expect(statuses).toEqual(['in-line'])
})

test('places whose jobs are gone are dropped where a line has many slots', async () => {
  await turnSweepsOff()
  const queue = makeQueue({ slots: 20 })
  const added = await queue.addBulk(jobs('a', ...upTo(60)))
  const [gate, last] = [fixture.gate(), fixture.gate()]
  const seen = await work({ slots: 20, concurrency: 20 }, ({ data }) =>
    data.nr < 19 ? gate.passed : last.passed,
  )
  await until('the slots are in use', () => seen.running === 20)
  const redis = fixture.redis()
  // As tools do that know nothing of lines.
  for (const { id = '' } of added.slice(20, 40)) await redis.del(queue.toKey(id))
  last.open()
  await until('those that are left ran', () => seen.order.length === 21)
  gate.open()
  await until('all ran', () => seen.order.length === 40)
})

test('a sweep looks at some thousand jobs, and the next one goes on', async () => {
  const queue = makeQueue({ slots: 100 })
  await queue.addBulk(upTo(70).flatMap((line) => jobs(`r${line}`, ...upTo(101))))
  await fixture.redis().config('RESETSTAT')
  await sweep(queue)
  expect(await hashReads()).toBeLessThan(6_000)
  // The jobs of lines that were not looked at sleep on, until a later one looks at them.
  const names = upTo(70).map((line) => queue.toKey(`redlock:::line:r${line}`))
  const redis = fixture.redis()
  for (const name of names) await redis.zremrangebyrank(name, 0, 0)
  await until('all are awake', async () => {
    await sweep(queue)
    return (await redis.zcount(queue.toKey('delayed'), String(2 ** 54), '+inf')) === 0
  })
})

test('a sweep drops some thousand places, and the next one goes on', async () => {
  const lines = ['a', 'b', 'c', 'd']
  const queue = makeQueue()
  await queue.addBulk(lines.flatMap((line) => jobs(line, ...upTo(2_500))))
  await fixture.plainQueue().drain(true)
  const redis = fixture.redis()
  const places = async (): Promise<number> => {
    const keys = lines.map((line) => queue.toKey(`redlock:::line:${line}`))
    const counts = await Promise.all(keys.map((key) => redis.zcard(key)))
    return counts.reduce((sum, count) => sum + count)
  }
  await sweep(queue)
  const left = await places()
  expect(left).toBeGreaterThan(2_000)
  expect(left).toBeLessThan(6_000)
  await until('the others are gone', async () => {
    await sweep(queue)
    return (await places()) === 0
  })
})

test('all jobs of a long line are cancelled, and no call looks at more than a thousand', async () => {
  const queue = makeQueue()
  await queue.addBulk(jobs('a', ...upTo(2_500)))
  await queue.pauseResource('a')
  const redis = fixture.redis()
  await redis.config('RESETSTAT')
  const cancelled = await queue.cancel({ resource: 'a' })
  expect(cancelled).toHaveLength(2_500)
  expect(cancelled.every(({ outcome }) => outcome === 'failed')).toBe(true)
  // Of each job one, and those that say which there are.
  expect(await scriptCalls()).toBe(2_503)
  expect(await queue.getLimits('a')).toHaveProperty('paused')
})

test('limits of many resources are read and removed in several calls', async () => {
  const queue = makeQueue()
  const names = upTo(3_000).map((nr) => `r${nr}`)
  await Promise.all(names.map((name) => queue.setSlots(name, 2)))
  await queue.addBulk(names.flatMap((name) => jobs(name, 0, 1, 2)))
  const redis = fixture.redis()
  await redis.config('RESETSTAT')
  const limits = await queue.getAllLimits()
  expect([...limits.keys()].sort()).toEqual([...names].sort())
  const read = await redis.info('commandstats')
  expect(Number(/^cmdstat_hscan:calls=(\d+)/m.exec(read)?.[1])).toBeGreaterThan(2)
  expect(read).not.toMatch(/^cmdstat_hgetall:/m)
  const backend = LineBackend.of(queue)
  await queue.pause()
  let most = 0
  let isMore: unknown
  let calls = 0
  do {
    expect(++calls).toBeLessThan(1_000)
    await redis.config('RESETSTAT')
    isMore = await backend.obliterate({ count: 100, force: false })
    const stats = await redis.info('commandstats')
    most = Math.max(most, Number(/^cmdstat_del:calls=(\d+)/m.exec(stats)?.[1] ?? 0))
  } while (isMore)
  // Of each job its keys, its line and its lock.
  expect(most).toBeLessThan(100 * 5)
  expect(await redis.keys(`${queue.toKey('')}*`)).toEqual([])
})

test('to clean jobs that have completed asks nothing of lines in which others sleep', async () => {
  const queue = makeQueue()
  const { order, worker } = await work()
  await queue.addBulk(jobs('a', 0))
  await until('it ran', async () => order.length === 1 && (await queue.getCompletedCount()) === 1)
  await worker.close()
  await queue.addBulk(upTo(250).flatMap((nr) => jobs(`r${nr}`, 0, 1)))
  const redis = fixture.redis()
  await redis.config('RESETSTAT')
  expect(await queue.clean(0, 10)).toHaveLength(1)
  // Every look at lines asks which there are by scores, too.
  const stats = await redis.info('commandstats')
  expect(Number(/^cmdstat_zrangebyscore:calls=(\d+)/m.exec(stats)?.[1])).toBe(1)
})
