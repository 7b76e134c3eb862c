/** Limits of a resource on a real queue: pause, slots, rates, and what is left of them. */
import { setTimeout as pause } from 'node:timers/promises'
import { QueueEvents, Worker, type Job } from 'bullmq'
import { describe, expect, test } from 'vitest'
import { lockedProcessor, type JobLease } from '../../src/index.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { upTo, useCalls, type Call, type Seen } from './calls.ts'
import { countStarts, ranUncounted, tooEarly } from './counted-starts.ts'

const fixture = useFleet({ masters: 3 })
const { makeQueue, work, jobs, turnSweepsOff, turnSweepsOn } = useCalls(fixture)

/** What is left in the queue's Redis of lines and limits. */
async function leftovers(): Promise<readonly string[]> {
  const keys = await fixture.redis().keys(`bull:${fixture.namespace}:redlock:*`)
  return keys.filter((key) => /:(?:line:|limits|rate:)/.test(key))
}

describe('a paused resource', () => {
  test('is not drained while jobs sleep in its line', async () => {
    const queue = makeQueue()
    const events = new QueueEvents(fixture.namespace, {
      connection: fixture.connection,
      lastEventId: '0',
    })
    fixture.defer(() => events.close())
    const told: string[] = []
    events.on('drained', () => told.push('drained'))
    events.on('failed', ({ jobId }) => told.push(jobId))
    await queue.pauseResource('a')
    const [first, second, third] = await queue.addBulk(jobs('a', 1, 2, 3))
    for (const job of [first, second, third]) await queue.cancel(job?.id ?? '')
    await until('it is drained', () => told.at(-1) === 'drained')
    expect(told).toEqual([first?.id, second?.id, third?.id, 'drained'])
  })

  test('starts no job while others run; running jobs finish; it continues in order', async () => {
    const queue = makeQueue()
    const gate = fixture.gate()
    const seen = await work({}, ({ data }) => (data.nr === 0 ? gate.passed : pause(1)))
    await queue.addBulk(jobs('a', 0, 1, 2))
    await until('the first runs', () => seen.started.length === 1)
    await queue.pauseResource('a', { reason: 'migration', by: 'ops' })
    await queue.addBulk([...jobs('a', 3), ...jobs('b', 10, 11)])
    await until('the others ran', () => seen.order.length === 2)
    gate.open()
    await until('the running one has finished', () => seen.order.includes(0))
    await pause(300)
    expect(seen.order).toEqual([10, 11, 0])
    expect(await queue.getLimits('a')).toMatchObject({ paused: { reason: 'migration', by: 'ops' } })
    await queue.resumeResource('a')
    await until('all ran', () => seen.order.length === 6)
    expect(seen.order.slice(3)).toEqual([1, 2, 3])
    expect(await leftovers()).toEqual([])
  })

  test('a pause that follows a resume without await holds', async () => {
    const queue = makeQueue()
    await queue.pauseResource('a')
    await Promise.all([queue.resumeResource('a'), queue.pauseResource('a', { reason: 'again' })])
    expect(await queue.getLimits('a')).toMatchObject({ paused: { reason: 'again' } })
    await Promise.all([queue.pauseResource('a'), queue.resumeResource('a')])
    expect(await queue.getLimits('a')).toEqual({})
  })

  test('may have no jobs yet; the jobs that come wait without a worker slot', async () => {
    const queue = makeQueue()
    await queue.pauseResource('a')
    const seen = await work({ concurrency: 1 })
    await queue.addBulk([...jobs('a', 1, 2, 3), ...jobs('b', ...upTo(20))])
    await until('the others ran', () => seen.order.length === 20)
    expect(seen.requeued).toEqual([])
    expect(await queue.getJobCounts('waiting', 'delayed')).toEqual({ waiting: 3, delayed: 0 })
    await queue.resumeResource('a')
    await until('all ran', () => seen.order.length === 23)
    expect(seen.order.slice(20)).toEqual([1, 2, 3])
    expect(await leftovers()).toEqual([])
  })

  test('continues by itself when the pause ends, and leaves nothing behind', async () => {
    await turnSweepsOff()
    const queue = makeQueue()
    const seen = await work()
    const endsAt = Date.now() + 700
    await queue.pauseResource('a', { until: new Date(endsAt) })
    await queue.pauseResource('idle', { until: endsAt })
    await queue.addBulk(jobs('a', 1, 2))
    await until('both ran', () => seen.order.length === 2)
    expect(seen.started[0]?.at).toBeGreaterThanOrEqual(endsAt)
    await turnSweepsOn() // They find the end of the other pause.
    await until('nothing is left', async () => (await leftovers()).length === 0)
  })

  test('is not swept before it opens, and is again from then on', async () => {
    const queue = makeQueue()
    const client = fixture.redis()
    const nextLook = async (): Promise<number> =>
      Number(await client.zscore(`bull:${fixture.namespace}:redlock:::sleeping-lines`, 'a'))
    const seen = await work()
    await queue.addBulk(jobs('a', 0, 1, 2))
    await until('all ran', () => seen.order.length === 3)
    await queue.pauseResource('a')
    const [first] = await queue.addBulk(jobs('a', 3, 4))
    const look = await nextLook()
    expect(look).toBeGreaterThan(2 ** 52 + Date.now() + 30_000)
    await pause(1_500) // Sweeps go on.
    expect(await nextLook()).toBe(look)
    await seen.worker.pause()
    await queue.resumeResource('a')
    // Deleted behind the back of all: only a sweep finds the next one.
    await client.del(`bull:${fixture.namespace}:${first?.id ?? ''}`)
    await client.lrem(`bull:${fixture.namespace}:wait`, 0, first?.id ?? '')
    await seen.worker.resume()
    await until('the other ran', () => seen.order.length === 4)
    expect(seen.order).toEqual([0, 1, 2, 4])
  })

  test('keeps jobs that were awake already, and those that are retried', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs('a', 1, 2))
    await queue.pauseResource('a')
    const seen = await work({}, (job) =>
      job.attemptsMade === 0 && job.data.nr === 5 ? Promise.reject(new Error('broken')) : pause(1),
    )
    await until('the head has gone to sleep', () => seen.requeued.length === 1)
    await queue.add('call', { customer: 'b', nr: 5 }, { attempts: 2, backoff: 200 })
    await until('it ran once', () => seen.started.length === 1)
    await queue.pauseResource('b')
    await pause(400)
    expect(seen.started.map(({ nr }) => nr)).toEqual([5])
    await queue.resumeResource('a')
    await queue.resumeResource('b')
    await until('all ran', () => seen.order.length === 3)
    expect(seen.order.filter((nr) => nr !== 5)).toEqual([1, 2])
  })

  test('refuses options that have no effect', async () => {
    const queue = makeQueue()
    await expect(queue.pauseResource('')).rejects.toThrow(/whole characters.*got `''`/)
    await expect(queue.pauseResource('customer:undefined')).rejects.toThrow(/names nothing/)
    await expect(queue.pauseResource('a', { until: 5 })).rejects.toThrow(/`until`.*future/)
    for (const until of [Infinity, 1e300]) {
      await expect(queue.pauseResource('a', { until })).rejects.toThrow(/absent for no end/)
    }
    await expect(queue.pauseResource('a', null as never)).rejects.toThrow(/`options`.*object/)
    await expect(queue.cancel('1', null as never)).rejects.toThrow(/`options`.*object/)
    await expect(queue.skip(undefined as never)).rejects.toThrow(/`jobId`.*got `undefined`/)
    await expect(queue.position(7 as never)).rejects.toThrow(/`jobId`.*got `7`/)
    await expect(queue.pauseResource('a', { reasons: '' } as never)).rejects.toThrow(/reasons/)
    await expect(queue.setSlots('a', 0)).rejects.toThrow(/slots/)
    await expect(queue.setRate('a', { limit: 0, perMs: 1 })).rejects.toThrow(
      '`rate.limit` to be a number > 0',
    )
  })

  test('refuses a pattern, which would limit no resource', async () => {
    const queue = makeQueue()
    const refused = /`resource`.*one resource, not a pattern.*'eu:\*'/
    await expect(queue.pauseResource('eu:*')).rejects.toThrow(refused)
    await expect(queue.setSlots('eu:*', 2)).rejects.toThrow(refused)
    await expect(queue.setRate('eu:*', { limit: 1, perMs: 1_000 })).rejects.toThrow(refused)
    await expect(queue.resumeResource('eu:*')).rejects.toThrow(refused)
    expect(await queue.getAllLimits()).toEqual(new Map())
  })
})

/** When so many ran for the first time. */
function firstWith({ started }: Seen, running: number): number {
  return started.find((one) => one.running >= running)?.at ?? Infinity
}

describe('slots that are set', () => {
  test('count at once when they are raised, and as holders finish when they are lowered', async () => {
    await turnSweepsOff()
    const queue = makeQueue()
    const plain = fixture.plainQueue()
    const leases: string[] = []
    let areHeld = true
    const seen = await work({ concurrency: 12 }, async (_job, { resource }) => {
      leases.push(resource)
      while (areHeld) await pause(2)
    })
    fixture.defer(() => Promise.resolve((areHeld = false)))
    /** As many run, and no job that may start is left. */
    const run = (count: number): Promise<void> =>
      until(`${count} run`, async () => {
        const { active, wait } = await plain.getJobCounts('active', 'wait')
        return seen.running === count && active === count && wait === 0
      })
    const letEnd = async (count: number): Promise<void> => {
      const before = seen.order.length
      areHeld = false
      await until('some have ended', () => seen.order.length >= before + count)
      areHeld = true
    }
    await queue.setSlots('a', 4, { reason: 'more licences' })
    await queue.addBulk(jobs('a', ...upTo(200)))
    await run(4)
    await queue.setSlots('a', 1)
    expect(seen.running).toBe(4)
    await letEnd(4)
    await run(1)
    seen.most = 0
    leases.length = 0
    await letEnd(20)
    await run(1)
    expect(seen.most).toBe(1)
    // The first slot is the resource itself, so a worker without this setting is kept out.
    expect(new Set(leases)).toEqual(new Set(['a']))
    await queue.setSlots('a', 8)
    await run(8)
    seen.most = 0
    await letEnd(20)
    await run(8)
    expect(seen.most).toBe(8)
    await queue.resetSlots('a')
    await letEnd(8)
    await run(1)
    seen.most = 0
    await letEnd(20)
    expect(seen.most).toBe(1)
    await queue.setSlots('a', 12)
    areHeld = false
    await until('all ran', () => seen.order.length === 200)
    await queue.resetSlots('a')
    expect(await leftovers()).toEqual([])
  })

  test('end by themselves, and the base counts again', () =>
    fixture.undisturbed(async () => {
      const queue = makeQueue({ slots: 3 })
      const seen = await work({ slots: 3, concurrency: 6 }, () => pause(20))
      const endsAt = Date.now() + 600
      await queue.setSlots('a', 1, { until: endsAt })
      await queue.addBulk(jobs('a', ...upTo(80)))
      await until('all ran', () => seen.order.length === 80)
      expect(firstWith(seen, 2)).toBeGreaterThanOrEqual(endsAt)
      expect(seen.most).toBe(3)
      await until('nothing is left', async () => (await leftovers()).length === 0)
    }))
})

describe('slots as a function of the job', () => {
  test('each line has those of its first job; workers need no setting', () =>
    fixture.undisturbed(async () => {
      const queue = makeQueue({ slots: ({ customer }) => (customer === 'a' ? 3 : 1) })
      const most = new Map<string, number>()
      const running = new Map<string, number>()
      const seen = await work({ concurrency: 12 }, async ({ data: { customer } }) => {
        running.set(customer, (running.get(customer) ?? 0) + 1)
        most.set(customer, Math.max(most.get(customer) ?? 0, running.get(customer) ?? 0))
        await pause(20)
        running.set(customer, (running.get(customer) ?? 0) - 1)
      })
      const errors: Error[] = []
      queue.on('error', (error) => errors.push(error))
      await queue.addBulk([...jobs('a', ...upTo(40)), ...jobs('b', ...upTo(10))])
      await until('all ran', () => seen.order.length === 50)
      expect(Object.fromEntries(most)).toEqual({ a: 3, b: 1 })
      expect(seen.requeued).toEqual([])
      expect(errors).toEqual([])
      await queue.setSlots('a', 1)
      most.clear()
      await queue.addBulk(jobs('a', ...upTo(10)))
      await until('all ran', () => seen.order.length === 60)
      expect(most.get('a')).toBe(1)
      await queue.resetSlots('a')
      await queue.addBulk(jobs('a', ...upTo(20)))
      await until('all ran', () => seen.order.length === 80)
      expect(most.get('a')).toBe(3)
      await expect(makeQueue({ slots: () => 0 }).addBulk(jobs('a', 1))).rejects.toThrow(/slots/)
      expect(await leftovers()).toEqual([])
    }))
})

const countedStarts = (resource: string): Promise<readonly number[]> =>
  countStarts(fixture, resource)

/** Longer than a busy machine takes for two jobs. */
const SLEEP_MS = 700

describe('a rate', () => {
  const rate = { limit: 50, perMs: 1_000, burst: 5 }

  test('is used up to its end and never exceeded', () =>
    fixture.undisturbed(async () => {
      const queue = makeQueue({ rate: () => rate })
      const seen = await work()
      const counted = await countedStarts('a')
      const startedAt = Date.now()
      await queue.addBulk([...jobs('a', ...upTo(55)), ...jobs('b', ...upTo(20))])
      await until('all ran', () => seen.order.length === 75)
      expect(counted).toHaveLength(55)
      expect(tooEarly(counted, 50, 1_000, 5)).toBe(0)
      expect(ranUncounted(seen.started, 'a', counted)).toEqual([])
      const tookMs = Math.max(...counted) - startedAt
      expect(tookMs).toBeGreaterThan(900)
      expect(tookMs).toBeLessThan(10_000) // One second, on a machine that does nothing else.
      expect(seen.requeued).toEqual([])
      await until('nothing is left', async () => (await leftovers()).length === 0)
    }))

  test('counts the cost of each job', async () => {
    const queue = makeQueue({ rate: ({ nr }) => ({ ...rate, burst: 1, cost: nr === 1 ? 10 : 1 }) })
    const seen = await work()
    const counted = await countedStarts('a')
    await queue.addBulk(jobs('a', 0, 1, 2))
    await until('all ran', () => seen.order.length === 3)
    const [zero = 0, one = 0, two = 0] = counted
    expect(one - zero).toBeGreaterThan(198)
    expect(two - zero).toBeGreaterThan(218)
    expect(ranUncounted(seen.started, 'a', counted)).toEqual([])
  })

  test('a job that costs more than the burst starts when its cost has been saved', async () => {
    const queue = makeQueue({
      rate: ({ nr }) => ({ limit: 20, perMs: 1_000, burst: 4, cost: 2 * nr }),
    })
    const seen = await work()
    const counted = await countedStarts('a')
    const addedAt = Date.now()
    await queue.addBulk(jobs('a', 8))
    await until('it ran', () => seen.order.length === 1)
    await pause(500)
    await queue.addBulk(jobs('a', 5, 2))
    await until('all ran', () => seen.order.length === 3)
    const [eight = 0, five = 0, two = 0] = counted
    expect(eight - addedAt).toBeGreaterThan(598)
    expect(five - eight).toBeGreaterThan(498 + 298)
    // One that starts late is not waited for twice.
    expect(two - eight).toBeGreaterThan(498 + 298 + 198)
    expect(seen.requeued).toEqual([])
    await queue.setRate('b', { limit: 100, perMs: 1_000 })
    await queue.addBulk(jobs('b', 20))
    await until('it starts after a smaller burst was set', () => seen.order.length === 4)
    expect(ranUncounted(seen.started, 'a', counted)).toEqual([])
  })

  test('of one resource does not hold back a job of another one', async () => {
    const queue = makeQueue({
      resource: ({ customer }) => customer.split('+'),
      rate: () => ({ limit: 100, perMs: 1_000 }),
    })
    await queue.setRate('a', { limit: 1, perMs: 60_000 })
    const seen = await work({ resource: ({ data }) => data.customer.split('+') })
    await queue.addBulk([...jobs('a+b', 1), ...jobs('b', 2), ...jobs('a', 3)])
    await until('the two ran', () => seen.order.length === 2, 5_000)
    expect(seen.order).toEqual([1, 2])
  })

  test('with slots: as many at once, and no more than the rate', async () => {
    const queue = makeQueue({ slots: 4, rate: () => ({ limit: 20, perMs: 1_000, burst: 2 }) })
    let workedMs = 0
    const seen = await work({ slots: 4 }, async () => {
      const from = Date.now()
      await pause(150)
      workedMs += Date.now() - from
    })
    const counted = await countedStarts('a')
    await queue.addBulk(jobs('a', ...upTo(22)))
    await until('all ran', () => seen.order.length === 22)
    // A job that starts again after a stall of the machine is counted again.
    expect(counted).toHaveLength(seen.started.length)
    expect(tooEarly(counted, 20, 1_000, 2)).toBe(0)
    expect(ranUncounted(seen.started, 'a', counted)).toEqual([])
    // One slot alone would have taken as long as all of the work.
    expect(Math.max(...counted) - Math.min(...counted)).toBeLessThan(0.8 * workedMs)
    expect(seen.most).toBeGreaterThan(2)
  })

  test('can be set and ended while jobs run, also for jobs that were added without one', async () => {
    const queue = makeQueue()
    const seen = await work()
    await queue.setRate('a', { limit: 1, perMs: 60_000 })
    await queue.addBulk(jobs('a', ...upTo(20)))
    await until('the first ran', () => seen.order.length === 1)
    await pause(200)
    expect(seen.order).toEqual([0])
    await queue.setRate('a', { limit: 50, perMs: 1_000, burst: 50 })
    await until('the others ran', () => seen.order.length === 20)
    await queue.resetRate('a')
    expect(await leftovers()).toEqual([])
  })

  test.each(['relaxed', 'plain'])(
    'refuses to let a resource sleep in a worker without lines: %s',
    async (kind) => {
      const queue = makeQueue()
      queue.on('error', () => undefined) // It is told of the order of the worker.
      const sleep = async (_job: unknown, lease: JobLease): Promise<unknown> => {
        throw await lease.rateLimit(SLEEP_MS)
      }
      if (kind === 'relaxed') await work({ order: 'relaxed' }, sleep)
      else {
        const resource = ({ data }: Job<Call>): string => data.customer
        const processor = lockedProcessor<Call>(await fixture.redlock(), { resource }, sleep)
        const plain = new Worker<Call>(fixture.namespace, processor, {
          connection: fixture.connection,
        })
        fixture.defer(() => plain.close())
      }
      await queue.addBulk(jobs('a', 1))
      await until('it failed', async () => (await queue.getFailedCount()) === 1)
      const [failed] = await queue.getFailed()
      expect(failed?.failedReason).toContain("`rateLimit` needs a LockedWorker with order 'strict'")
    },
  )

  test('lets a resource sleep after a 429, alone; the job comes back without a lost attempt', async () => {
    await turnSweepsOff()
    const queue = makeQueue()
    let toldAt = 0
    const seen = await work({}, async (job, lease) => {
      if (job.data.nr !== 2 || toldAt > 0) return
      toldAt = Date.now()
      throw await lease.rateLimit(SLEEP_MS)
    })
    await queue.addBulk(jobs('a', 1, 2, 3))
    await until('it is told', () => toldAt > 0)
    await until('it sleeps', async () => (await queue.getActiveCount()) === 0)
    expect((await queue.getLimits('a')).asleepUntil).toBeInstanceOf(Date)
    await queue.addBulk(jobs('b', 10, 11))
    await until('all ran', () => seen.order.length === 5)
    expect(seen.order.filter((nr) => nr < 10)).toEqual([1, 2, 3])
    expect(seen.order.slice(0, 3).sort((x, y) => x - y)).toEqual([1, 10, 11])
    const again = seen.started.filter(({ nr }) => nr === 2)[1]?.at ?? 0
    expect(again - toldAt).toBeGreaterThanOrEqual(SLEEP_MS)
    const job = (await queue.getCompleted()).find(({ data }) => data.nr === 2)
    expect(job?.attemptsMade).toBe(1)
    expect(seen.requeued).toEqual([])
    await turnSweepsOn()
    await until('nothing is left', async () => (await leftovers()).length === 0)
  })

  test('a job that let its resource sleep starts again when that is resumed', async () => {
    const queue = makeQueue()
    const seen = await work({}, async (_job, lease) => {
      if (seen.started.length === 1) throw await lease.rateLimit(600_000)
    })
    await queue.addBulk(jobs('a', 1, 2))
    await until('it sleeps', async () => (await queue.getDelayedCount()) === 1)
    await queue.resumeResource('a')
    await until('all ran', () => seen.order.length === 2, 5_000)
    expect(seen.order).toEqual([1, 2])
  })

  test.each(['of a 429', 'of a job', 'of a job that waited', 'of a retry'])(
    'the longest delay, %s, is a delay',
    async (whose) => {
      const longest = Number.MAX_SAFE_INTEGER
      const queue = makeQueue()
      const backoffStrategy = (): number => longest
      await work({ settings: { backoffStrategy } }, async (_job, lease) => {
        if (whose === 'of a 429') throw await lease.rateLimit(longest)
        throw new Error('it failed')
      })
      const opts = {
        'of a 429': {},
        'of a job': { delay: longest },
        'of a job that waited': { delay: 600_000 },
        'of a retry': { attempts: 2, backoff: { type: 'custom' } },
      }[whose]
      const job = await queue.add('call', { customer: 'a', nr: 1 }, opts)
      if (whose === 'of a job that waited') await job.changeDelay(longest)
      await until('it is delayed', () => job.isDelayed(), 5_000)
      expect(await queue.getJobCounts('prioritized', 'waiting', 'delayed')).toEqual({
        ...{ prioritized: 0, waiting: 0, delayed: 1 },
      })
      await queue.drain()
      expect(await job.getState()).toBe('delayed')
    },
  )

  test('a job that let its resource sleep has not waited too long meanwhile', async () => {
    const queue = makeQueue({ maxWaitMs: 400 })
    const seen = await work({ maxWaitMs: 400 }, async ({ data }, lease) => {
      if (data.nr === 1) await pause(300)
      else if (seen.started.length === 2) throw await lease.rateLimit(1_500)
    })
    await queue.addBulk(jobs('a', 1, 2))
    await until('both have ended', () => seen.order.length === 2, 5_000)
    expect(seen.order).toEqual([1, 2])
  })

  test('after a 429 no other slot of the resource starts a job', async () => {
    const queue = makeQueue({ slots: 2 })
    let toldAt = 0
    let knownAt = Infinity
    const seen = await work({ slots: 2 }, async (job, lease) => {
      if (job.data.nr !== 1 || toldAt > 0) return pause(30)
      toldAt = Date.now()
      const limited = await lease.rateLimit(SLEEP_MS)
      knownAt = Date.now()
      throw limited
    })
    await queue.addBulk(jobs('a', ...upTo(8)))
    await until('all ran', () => seen.order.length === 8)
    // One may have been on its way.
    const early = seen.started.filter(({ at }) => at > knownAt && at < toldAt + SLEEP_MS)
    expect(early.length, JSON.stringify(early)).toBeLessThanOrEqual(1)
  })
})

describe('the smallest and the largest values', () => {
  const far = Number.MAX_SAFE_INTEGER
  test.each([
    { limit: Number.MIN_VALUE, perMs: 1_000 },
    { limit: 1, perMs: far },
    { limit: 0.001, perMs: far },
    { limit: 1, perMs: far, cost: far },
    { limit: 1, perMs: far, burst: far },
    { limit: far, perMs: 1, cost: Number.MIN_VALUE },
  ])('of a rate keep to it, and stop no other line: %o', async (rate) => {
    const queue = makeQueue({ rate: ({ customer }) => (customer === 'a' ? rate : undefined) })
    await queue.addBulk(jobs('a', 1, 2, 3))
    await queue.add('call', { customer: 'b', nr: 4 })
    const seen = await work()
    await until('the other line goes on', () => seen.order.includes(4))
    await pause(100)
    const mayStart = rate.burst === far || rate.limit === far ? 3 : rate.cost === far ? 0 : 1
    expect(seen.order.filter((nr) => nr !== 4)).toHaveLength(mayStart)
    const counts = await queue.getJobCounts('prioritized', 'failed', 'delayed', 'wait')
    expect(counts['prioritized']).toBe(0)
    expect((counts['wait'] ?? 0) + (counts['delayed'] ?? 0)).toBe(3 - mayStart)
    if (mayStart < 3) expect((await queue.position('3'))?.resource).toBe('a')
  })

  test('of a pause stop the line until it is resumed', async () => {
    const queue = makeQueue()
    await queue.pauseResource('a', { until: 8.64e15 })
    await queue.addBulk(jobs('a', 1, 2))
    expect(await queue.getJobCounts('prioritized', 'delayed', 'wait')).toEqual({
      ...{ prioritized: 0, delayed: 0, wait: 2 },
    })
    await queue.resumeResource('a')
    const seen = await work()
    await until('both ran', () => seen.order.length === 2)
    expect(seen.order).toEqual([1, 2])
  })
})

describe('cancel', () => {
  const untilStopped = async (_job: Job<Call>, { signal }: JobLease): Promise<unknown> => {
    throw (await aborted(signal)) as Error
  }

  test('fails jobs that wait and stops the one that runs; the line continues', async () => {
    const queue = makeQueue()
    const seen = await work({}, (job, lease) =>
      job.data.nr < 4 ? untilStopped(job, lease) : pause(1),
    )
    await queue.addBulk(jobs('a', 1, 2, 3).map((job) => ({ ...job, opts: { attempts: 5 } })))
    await queue.add('call', { customer: 'a', nr: 9 }, { delay: 60_000 })
    await until('the first runs', () => seen.started.length === 1)
    const answers = await queue.cancel({ resource: 'a' }, { reason: 'runaway' })
    expect(answers.map(({ outcome }) => outcome)).toEqual(['stopped', 'failed', 'failed'])
    const failed = await queue.getFailed()
    expect(failed.map(({ failedReason }) => failedReason).sort()).toEqual(
      answers.map(({ jobId }) => `Job ${jobId} was cancelled: runaway`).sort(),
    )
    expect(failed.every(({ attemptsMade }) => attemptsMade === 1)).toBe(true)
    await queue.addBulk(jobs('a', 4, 5))
    await until('the line goes on', () => seen.order.length === 2)
    expect(seen.started.map(({ nr }) => nr)).toEqual([1, 4, 5])
  })

  test('says of each job what became of it', async () => {
    const queue = makeQueue()
    const end = fixture.gate()
    const seen = await work({}, ({ data }) => (data.nr === 2 ? end.passed : pause(1)))
    const [first] = await queue.addBulk(jobs('a', 1))
    await until('it ran', async () => (await queue.getCompletedCount()) === 1)
    expect(await queue.cancel(first?.id ?? '')).toEqual([{ jobId: first?.id, outcome: 'finished' }])
    expect(await queue.cancel('none')).toEqual([{ jobId: 'none', outcome: 'missing' }])
    const [second] = await queue.addBulk(jobs('a', 2))
    await until('it runs', () => seen.started.length === 2)
    const id = second?.id ?? ''
    expect(await queue.cancel(id, { timeoutMs: 0 })).toEqual([{ jobId: id, outcome: 'running' }])
    // Its processor does not listen.
    const cancelling = queue.cancel(id, { reason: 'again' })
    await until('it is told again', async () =>
      Object.values(await fixture.redis().hgetall(`bull:${fixture.namespace}:redlock:::cancelled`))
        .join()
        .includes('again'),
    )
    end.open()
    expect(await cancelling).toEqual([{ jobId: id, outcome: 'completed' }])
    const delayed = await queue.add('call', { customer: 'b', nr: 3 }, { delay: 60_000 })
    expect(await queue.cancel(delayed.id ?? '')).toEqual([{ jobId: delayed.id, outcome: 'failed' }])
    await expect(queue.cancel('1', { reason: '' })).rejects.toThrow(/reason/)
    await expect(queue.cancel(undefined as never)).rejects.toThrow(/`target`.*id of a job/)
  })

  test('that is refused for one job does nothing more to others afterwards', async () => {
    const queue = makeQueue()
    const end = fixture.gate()
    const seen = await work({}, () => end.passed)
    const [runs, broken] = await queue.addBulk(jobs('a', 1, 2, 3))
    await until('the first runs', () => seen.started.length === 1)
    const key = `bull:${fixture.namespace}:${broken?.id ?? ''}`
    await fixture.redis().hset(key, 'opts', '{')
    const timeoutMs = 600
    const from = performance.now()
    await expect(queue.cancel({ resource: 'a' }, { timeoutMs })).rejects.toThrow(SyntaxError)
    // It has waited for the one that runs, and does not listen.
    expect(performance.now() - from).toBeGreaterThan(timeoutMs - 20)
    expect(await runs?.getState()).toBe('active')
    expect(await queue.getFailedCount()).toBe(1)
  })

  test('stops no other job that has the same id later', async () => {
    const queue = makeQueue()
    const seen = await work({}, async (_job, { signal }) => {
      await Promise.race([pause(700), aborted(signal)])
    })
    const again = (nr: number): Promise<unknown> =>
      queue.add('call', { customer: 'a', nr }, { jobId: 'again', removeOnComplete: true })
    await again(1)
    await until('it runs', () => seen.started.length === 1)
    expect((await queue.cancel('again', { timeoutMs: 0 }))[0]?.outcome).toBe('running')
    await until('it has ended', () => seen.order.length === 1)
    await until('it is gone', async () => (await queue.getJob('again')) === undefined)
    const startedAt = performance.now()
    await again(2)
    await until('the other has ended', () => seen.order.length === 2)
    expect(performance.now() - startedAt).toBeGreaterThan(690)
  })

  test('does not end a scheduler, whose next job it refuses', async () => {
    const queue = makeQueue()
    const data = { customer: 'a', nr: 1 }
    await queue.upsertJobScheduler('hourly', { every: 3_600_000 }, { name: 'call', data })
    await queue.upsertJobScheduler('daily', { pattern: '0 3 * * *' }, { name: 'call', data })
    const ticks = [...(await queue.getDelayed()), ...(await queue.getWaiting())]
    expect(ticks).toHaveLength(2)
    for (const { id = '' } of ticks) {
      expect(await queue.cancel(id)).toEqual([{ jobId: id, outcome: 'refused' }])
    }
    expect(await queue.getJobCountByTypes('delayed', 'waiting')).toBe(2)
  })

  test('a cancelled job holds no line, also where failed jobs do', async () => {
    const queue = makeQueue()
    const seen = await work({ onFailure: 'block' }, (job, lease) =>
      job.data.nr === 1 ? untilStopped(job, lease) : pause(1),
    )
    const [first] = await queue.addBulk(jobs('a', 1, 2))
    await until('the first runs', () => seen.started.length === 1)
    expect((await queue.cancel(first?.id ?? ''))[0]?.outcome).toBe('stopped')
    await until('the second ran', () => seen.order.length === 1)
  })
})

describe('position', () => {
  test('reports the place, the jobs ahead, and an estimate of the wait', async () => {
    const queue = makeQueue()
    await work({}, () => pause(50))
    await queue.addBulk(jobs('a', ...upTo(10)))
    await until('all ran', async () => (await queue.getCompletedCount()) === 10)
    await queue.pauseResource('a')
    const waiting = await queue.addBulk(jobs('a', 10, 11, 12, 13))
    const id = waiting[3]?.id ?? ''
    expect(await queue.position(id)).toEqual({
      ...{ resource: 'a', ahead: 3, length: 4 },
      before: waiting.slice(0, 3).map((job) => ({ jobId: job.id, state: 'asleep' })),
    })
    await queue.pauseResource('a', { until: Date.now() + 60_000 })
    const late = await queue.position(id)
    expect(late?.estimate?.startsInMs).toBeGreaterThan(59_000)
    await queue.resumeResource('a')
    await queue.setRate('a', { limit: 1, perMs: 600_000, burst: 1 })
    expect((await queue.position(id))?.estimate?.startsInMs).toBeGreaterThan(600_000)
    await queue.setSlots('a', 4)
    await queue.resetRate('a')
    await until('all ran', async () => (await queue.getCompletedCount()) === 14)
    expect(await queue.position(id)).toBeUndefined()
    expect(await queue.position('none')).toBeUndefined()
  })

  test('is told without the right to list clients', async () => {
    const rights = ['on', '>secret', '~*', '&*', '+@all', '-client|list'] as const
    await fixture.redis().acl('SETUSER', 'no-list', ...rights)
    const limited = { ...fixture.connection, username: 'no-list', password: 'secret' }
    const queue = makeQueue({ connection: limited })
    await work({}, () => pause(1))
    await queue.addBulk(jobs('a', ...upTo(10)))
    await until('all ran', async () => (await queue.getCompletedCount()) === 10)
    await queue.pauseResource('a', { until: Date.now() + 60_000 })
    const job = await queue.add('call', jobs('a', 10)[0]?.data as Call)
    expect((await queue.position(job.id ?? ''))?.estimate?.startsInMs).toBeGreaterThan(50_000)
  })

  test('the estimate is near the wait', async () => {
    const queue = makeQueue()
    // So long that what a busy machine adds to each job is little beside it.
    const seen = await work({}, () => pause(120))
    await queue.addBulk(jobs('a', ...upTo(10)))
    await until('all ran', () => seen.order.length === 10)
    const added = await queue.addBulk(jobs('a', ...upTo(15)))
    const askedAt = Date.now()
    const { estimate } = (await queue.position(added[14]?.id ?? '')) ?? {}
    await until('all ran', () => seen.order.length === 25)
    const waitedMs = (seen.started.at(-1)?.at ?? 0) - askedAt
    expect(estimate?.startsInMs).toBeGreaterThan(waitedMs / 2)
    expect(estimate?.startsInMs).toBeLessThan(waitedMs * 2)
  })
})
