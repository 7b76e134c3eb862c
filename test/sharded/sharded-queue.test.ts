/** Every operation of a sharded queue on a Redis Cluster of four nodes, and every refusal. */
import { FlowProducer, Queue, type Job, type JobType } from 'bullmq'
import { describe, expect, test, vi } from 'vitest'
import {
  LockedQueue,
  ShardedQueue,
  ShardedQueueEvents,
  ShardedWorker,
  type LeasedProcessor,
} from '../../src/index.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import { shardOf } from '../../src/sharded/placement.ts'
import { slotOf } from '../../src/slot-of.ts'
import { LENT } from '../../src/sharded/sharded-queue.ts'
import { until } from '../fixtures.ts'
import { charges, CUSTOMERS, resourceOf, shardOfCustomer, type Charge } from './charge.ts'
import { HANGS, REFUSES, useCluster } from './cluster.ts'

const fixture = useCluster()
const one = 'ann'
const two = CUSTOMERS.find((each) => shardOfCustomer(each) !== shardOfCustomer(one)) ?? ''
const nrs = (jobs: readonly Job<Charge>[]): string[] =>
  jobs.map(({ data }) => `${data.customer}${data.nr}`)

describe('placement', () => {
  test('the slot is that of the cluster', async () => {
    const cluster = fixture.connect()
    for (const key of ['customer:1', 'ä{€}', '{acme}:1', 'a{}{b}', 'a{{b}c}', 'a{b', '', '}{']) {
      expect(slotOf(key)).toBe(await cluster.call('CLUSTER', 'KEYSLOT', key))
    }
  })

  test.each([1, 2, 3, 4, 8, 64])('%i shards have equally many resources', (shards) => {
    const counts = Array<number>(shards).fill(0)
    for (let nr = 0; nr < 1_000 * shards; nr++) {
      const shard = shardOf([`customer:${nr}`], shards)
      counts[shard] = (counts[shard] ?? 0) + 1
    }
    expect(Math.min(...counts)).toBeGreaterThan(800)
    expect(Math.max(...counts)).toBeLessThan(1_200)
  })

  test('each of four nodes has one of four shards', async () => {
    const queue = fixture.queue()
    await queue.addBulk(charges(1))
    const cluster = fixture.connect()
    const owners = await Promise.all(
      queue.shards.map(async ({ opts }) => {
        const slot = slotOf(opts.prefix ?? '')
        const ranges = (await cluster.call('CLUSTER', 'SLOTS')) as [number, number, unknown[]][]
        return ranges.findIndex(([from, to]) => from <= slot && slot <= to)
      }),
    )
    expect(new Set(owners).size).toBe(4)
    expect(new Set(CUSTOMERS.map(shardOfCustomer)).size).toBe(4)
    for (const [shard, { opts }] of queue.shards.entries()) {
      expect(opts.prefix).toMatch(new RegExp(`^\\{bull-${shard}-\\d+\\}$`))
    }
    expect(fixture.queue({ prefix: '{bull}' }).shards[3]?.opts.prefix).toBe(
      queue.shards[3]?.opts.prefix,
    )
  })

  test('the part in braces keeps resources together', async () => {
    const resource = ({ customer }: Charge): string[] => [`{${customer}}:a`, `{${customer}}:b`]
    const queue = fixture.queue({ resource })
    const jobs = await queue.addBulk(charges(1))
    expect(jobs.map(({ id = '' }) => id.split('~')[0])).toEqual(
      CUSTOMERS.map((customer) => String(shardOf([`{${customer}}`], 4))),
    )
  })
})

test('every method of BullMQ and of a LockedQueue asks the shards', () => {
  const lent = LENT.flatMap(([names]) => names.split(' '))
  const left: string[] = []
  const getters = Object.getPrototypeOf(Queue) as typeof Queue
  const own = new Set([...lent, 'close', 'disconnect'])
  for (const name of Object.getOwnPropertyNames(ShardedQueue.prototype)) own.add(name)
  for (const base of [
    LockedQueue,
    Queue,
    getters,
    Object.getPrototypeOf(getters) as typeof Queue,
  ]) {
    const names = Object.entries(Object.getOwnPropertyDescriptors(base.prototype))
    left.push(...names.flatMap(([name, { value }]) => (value && !own.has(name) ? [name] : [])))
  }
  // They only call others, ask the first shard, or are of the object itself.
  const calling = [
    ...['count', 'getJobCountByTypes', 'getCompletedCount', 'getFailedCount', 'getActiveCount'],
    ...['getPrioritizedCount', 'getWaitingCount', 'getWaitingChildrenCount', 'getWaiting'],
    ...['getWaitingChildren', 'getActive', 'getDelayed', 'getPrioritized', 'getCompleted'],
    ...['getFailed', 'recordJobCountsMetric', 'exportPrometheusMetrics'],
    ...['emit', 'on', 'once', 'off', 'addJob', 'commandByType', 'sanitizeJobTypes'],
    ...['baseGetClients', 'parseClientList', 'isMaxed', 'getGlobalConcurrency'],
    ...['getGlobalRateLimit', 'isPaused', 'getWorkers', 'getWorkersCount', 'getQueueEvents'],
    ...['getRateLimitTtl', 'getVersion', 'getMeta', 'getBackend', 'createBackend', 'base64Name'],
    ...['clientName', 'checkConnectionError', 'trace'],
  ]
  expect([...new Set(left)].sort()).toEqual(calling.sort())
})

describe('jobs', () => {
  test('an id names its shard, and one that is given stays', async () => {
    const queue = fixture.queue()
    const job = await queue.add('charge', { customer: 'ann', nr: 1 })
    expect(job.id).toMatch(new RegExp(`^${shardOfCustomer('ann')}~[\\w-]{13,}$`))
    expect((await queue.getJob(job.id ?? ''))?.data).toEqual({ customer: 'ann', nr: 1 })
    for (const customer of CUSTOMERS) {
      const own = await queue.add('charge', { customer, nr: 2 }, { jobId: `invoice-${customer}` })
      expect(own.id).toBe(`invoice-${customer}`)
      const again = await queue.add('charge', { customer, nr: 3 }, { jobId: `invoice-${customer}` })
      expect(again.id).toBe(own.id)
      expect((await queue.getJob(`invoice-${customer}`))?.data.customer).toBe(customer)
    }
    expect(await queue.getJob('none')).toBeUndefined()
    expect(await queue.getJobState('none')).toBe('unknown')
    expect(await queue.count()).toBe(9)
    // No shard has this number.
    expect((await queue.add('charge', { customer: 'ann', nr: 4 }, { jobId: '4~x' })).id).toBe('4~x')
    expect((await queue.getJob('4~x'))?.data.nr).toBe(4)
    const one = fixture.queue({ shards: 1, prefix: 'one' })
    await one.add('charge', { customer: 'ann', nr: 5 }, { jobId: '3~x' })
    expect((await one.getJob('3~x'))?.data.nr).toBe(5)
  })

  test('are added in the order of their calls, also while the number of shards is looked up', async () => {
    const charge = { customer: 'ann', nr: 0 }
    for (let turns = 0; turns < 12; turns++) {
      const queue = fixture.queue()
      const backend = LineBackend.of(queue.shards[0] as LockedQueue)
      const run = backend.run.bind(backend)
      let second: ReturnType<typeof queue.add> | undefined
      vi.spyOn(backend, 'run').mockImplementationOnce(async (...args) => {
        const reply = await run(...args)
        // So soon after the reply is there.
        void (async () => {
          for (let turn = 0; turn < turns; turn++) await Promise.resolve()
          second = queue.add('charge', charge)
        })()
        return reply
      })
      await queue.add('charge', charge)
      await until('both are added', () => second !== undefined)
      const place = await queue.position((await second)?.id ?? '')
      expect(place?.ahead, `${turns} turns later`).toBe(2 * turns + 1)
    }
  })

  test('addBulk returns them in order', async () => {
    const jobs = await fixture.queue().addBulk(charges(3))
    expect(nrs(jobs)).toEqual(charges(3).map(({ data }) => `${data.customer}${data.nr}`))
  })

  test('addBulk adds none where one is refused, and the others where a line is full', async () => {
    const rate = ({ nr }: Charge) => (nr < 0 ? { limit: nr } : undefined)
    const queue = fixture.queue({ rate: rate as never, maxLength: 1 })
    for (const refused of [
      { name: 'charge', data: { customer: 'ann', nr: -1 } },
      { name: 'charge', data: { customer: 'ann', nr: 1 }, opts: { priority: 1e9 } },
      { name: 'charge', data: { customer: 'ann', nr: 1 }, opts: { jobId: '7' } },
    ]) {
      await expect(queue.addBulk([...charges(1), refused])).rejects.toThrow(/rate|Priority|Id/)
      expect(await queue.count()).toBe(0)
    }
    await queue.add('charge', { customer: 'ann', nr: 0 })
    // Those of the other shards have been added when it says so.
    await expect(queue.addBulk(charges(1))).rejects.toMatchObject({ code: 'LINE_FULL' })
    expect(await queue.count()).toBe(CUSTOMERS.length)
  })

  test('those of one job: state, log, progress, position, skip, remove, cancel', async () => {
    const queue = fixture.queue()
    const [, second] = await queue.addBulk(
      [1, 2].map((nr) => ({ name: 'charge', data: { customer: 'eve', nr } })),
    )
    const id = second?.id ?? ''
    expect(await queue.getJobState(id)).toBe('waiting')
    await queue.addJobLog(id, 'hello')
    expect((await queue.getJobLogs(id)).logs).toEqual(['hello'])
    await queue.updateJobProgress(id, 50)
    expect((await queue.getJob(id))?.progress).toBe(50)
    expect((await queue.position(id))?.ahead).toBe(1)
    expect(await queue.skip(id)).toBe(false)
    expect(await queue.cancel(id)).toMatchObject([{ jobId: id }])
    expect(await queue.getJobState(id)).toBe('failed')
    expect(await queue.remove(id)).toBe(1)
    expect(await queue.cancel({ resource: 'customer:eve' })).toHaveLength(1)
    expect(await queue.getFailedCount()).toBe(1)
  })
})

describe('lists and counts', () => {
  test('add up, in the order of their times', async () => {
    const queue = fixture.queue()
    const names = charges(3).map(({ data }) => `${data.customer}${data.nr}`)
    for (const { name, data } of charges(3)) {
      await queue.add(name, data)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    for (const [nr, customer] of CUSTOMERS.entries()) {
      await queue.add('later', { customer, nr: 9 }, { delay: 100_000 - nr * 1_000 })
    }
    expect(await queue.getJobCounts('waiting', 'delayed')).toEqual({ waiting: 24, delayed: 8 })
    expect(await queue.getJobCountByTypes('waiting', 'delayed')).toBe(32)
    expect(await queue.getWaitingCount()).toBe(24)
    expect(await queue.getDelayedCount()).toBe(8)
    expect(await queue.getDelayedCount(Date.now() + 96_500)).toBe(4)
    expect(await queue.count()).toBe(32)
    expect(await queue.getCountsPerPriority([0])).toEqual({ 0: 24 })
    expect(nrs(await queue.getWaiting())).toEqual(names)
    expect(nrs(await queue.getWaiting(5, 9))).toEqual(names.slice(5, 10))
    expect(nrs(await queue.getJobs('waiting', 0, 2))).toEqual(names.slice(-3).reverse())
    expect(nrs(await queue.getDelayed(0, 1))).toEqual(['jim9', 'ida9'])
    expect(await queue.getJobs()).toHaveLength(32)
    expect(await queue.getJobs(['delayed', 'waiting'] as JobType[], 0, 0)).toHaveLength(2)
    expect(await queue.exportPrometheusMetrics()).toContain('state="delayed"} 8')
  })

  test.each([1, 4])('of %i shards name each job once, page by page', async (shards) => {
    const queue = fixture.queue({ shards })
    await queue.addBulk(charges(3))
    for (const [nr, customer] of ['new', 'other', 'more'].entries()) {
      await queue.add('charge', { customer, nr }, { timestamp: 1_000 + nr })
      await queue.add('charge', { customer: `${customer}2`, nr }, { lifo: true })
    }
    const all = nrs(await queue.getJobs('waiting'))
    expect(all).toHaveLength(30)
    for (const asc of [false, true]) {
      const pages = []
      for (let nr = 0; nr < 10; nr++) {
        pages.push(...nrs(await queue.getJobs('waiting', 3 * nr, 3 * nr + 2, asc)))
      }
      expect([...pages].sort()).toEqual([...all].sort())
      expect(pages).toEqual(nrs(await queue.getJobs('waiting', 0, -1, asc)))
    }
    expect(nrs(await queue.getJobs('waiting', -5, -2))).toEqual(all.slice(-5, -1))
    const [first] = queue.shards as [LockedQueue<Charge>]
    if (shards === 1) expect(all).toEqual(nrs(await first.getJobs('waiting')))
  })

  test('minutes of metrics, also where one shard has counted nothing since', async () => {
    const queue = fixture.queue()
    await queue.count()
    const cluster = fixture.connect()
    const latest = 50_000_000 * 60_000
    for (const [nr, shard] of queue.shards.slice(0, 2).entries()) {
      const key = shard.toKey('metrics:completed')
      await cluster.hset(key, { count: 3, prevTS: latest - nr * 120_000, prevCount: 0 })
      await cluster.rpush(`${key}:data`, 1, 2, 3)
    }
    const { meta, ...whole } = await queue.getMetrics('completed')
    expect(whole).toEqual({ data: [1, 2, 4, 2, 3], count: 5 })
    expect(meta).toMatchObject({ count: 6, prevTS: latest })
    expect(await queue.getMetrics('completed', 1, 2)).toMatchObject({ data: [2, 4], count: 5 })
    expect((await queue.getMetrics('completed', -2)).data).toEqual([2, 3])
  })

  test('finished jobs, metrics and retryJobs', async () => {
    const queue = fixture.queue()
    const ended: string[] = []
    const worker = await fixture.worker(
      ({ data }) => {
        ended.push(`${data.customer}${data.nr}`)
        if (data.nr === 1) throw new Error('no')
        return Promise.resolve()
      },
      { metrics: { maxDataPoints: 10 } },
    )
    const drained = new Promise<void>((resolve) => worker.on('drained', resolve))
    await queue.addBulk(charges(2))
    await until('all ended', async () => {
      return (await queue.getCompletedCount()) + (await queue.getFailedCount()) === 16
    })
    await drained
    const completed = nrs(await queue.getCompleted())
    expect([...completed].sort()).toEqual(CUSTOMERS.map((customer) => `${customer}0`))
    const times = (await queue.getCompleted()).map(({ finishedOn = 0 }) => finishedOn)
    expect(times).toEqual([...times].sort((a, b) => b - a))
    const { meta } = await queue.getMetrics('completed')
    expect(meta.count).toBe(8)
    await queue.retryJobs()
    await until('they failed again', () => ended.length === 24)
    await until('all failed', async () => (await queue.getFailedCount()) === 8)
    expect(await queue.clean(0, 5, 'failed')).toHaveLength(5)
    expect(await queue.clean(0, 0, 'completed')).toHaveLength(8)
    expect(await queue.getJobCounts('completed', 'failed')).toEqual({ completed: 0, failed: 3 })
  })
})

describe('the whole queue', () => {
  test('pauses and resumes once', async () => {
    const queue = fixture.queue()
    const told: string[] = []
    queue.on('paused', () => told.push('paused'))
    queue.on('resumed', () => told.push('resumed'))
    queue.on('waiting', ({ id }) => told.push(String(id)))
    expect(await queue.isPaused()).toBe(false)
    await queue.pause()
    expect(await queue.isPaused()).toBe(true)
    const ran: string[] = []
    await fixture.worker(({ data }) => Promise.resolve(ran.push(data.customer)))
    const jobs = await queue.addBulk(charges(1))
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(ran).toEqual([])
    await queue.resume()
    await until('all ran', () => ran.length === 8)
    const { id } = await queue.add('charge', { customer: 'ann', nr: 9 })
    expect(told).toEqual(['paused', 'resumed', id])
    expect(jobs).toHaveLength(8)
    expect(await queue.getWorkersCount()).toBe(1)
    expect(await queue.getVersion()).toMatch(/^bullmq:/)
    expect((await queue.getMeta()).paused).toBe(false)
  })

  test('tells each call once', async () => {
    const queue = fixture.queue()
    const told: string[] = []
    queue.on('paused', () => told.push('paused'))
    queue.on('resumed', () => told.push('resumed'))
    queue.on('cleaned', (ids, type) => told.push(`${type} ${ids.length}`))
    for (let nr = 0; nr < 2; nr++) await queue.pause()
    for (let nr = 0; nr < 2; nr++) await queue.resume()
    await queue.addBulk(charges(1))
    await queue.clean(0, 0, 'waiting')
    await queue.clean(0, 0)
    await queue.obliterate()
    const calls = ['paused', 'paused', 'resumed', 'resumed', 'wait 8', 'completed 0', 'paused']
    expect(told).toEqual(calls)
  })

  test('disconnects all shards', async () => {
    const queue = fixture.queue()
    const backends = [queue, ...queue.shards].map((each) => each.getBackend())
    const spies = backends.map((backend) => vi.spyOn(backend, 'disconnect').mockResolvedValue())
    await queue.disconnect()
    for (const spy of spies) expect(spy).toHaveBeenCalledOnce()
  })

  test('drains, promotes, trims and leaves its lines', async () => {
    const queue = fixture.queue()
    await queue.addBulk(charges(2))
    for (const customer of CUSTOMERS) {
      await queue.add('later', { customer, nr: 9 }, { delay: 100_000 })
    }
    await queue.drain()
    expect(await queue.getJobCounts('waiting', 'delayed')).toEqual({ waiting: 0, delayed: 8 })
    await queue.promoteJobs()
    expect(await queue.getJobCounts('waiting', 'delayed')).toEqual({ waiting: 8, delayed: 0 })
    await queue.drain()
    await queue.addBulk(charges(2))
    expect(await queue.leaveLines()).toBe(8)
    expect(await queue.trimEvents(0)).toBeGreaterThan(8)
    await queue.drain()
    expect(await queue.count()).toBe(0)
  })

  test('obliterates all or nothing, and may have another number of shards then', async () => {
    const gate = fixture.gate()
    const queue = fixture.queue()
    const worker = await fixture.worker(() => gate.passed)
    const active = new Promise<unknown>((resolve) => worker.on('active', resolve))
    await queue.addBulk(charges(2))
    await active
    await expect(queue.obliterate()).rejects.toThrow(/active/)
    expect(await queue.getJobCountByTypes('waiting', 'active')).toBe(16)
    gate.open()
    await worker.close()
    await queue.obliterate({ force: true })
    await queue.close()
    const cluster = fixture.connect()
    await cluster.ping() // It knows its nodes then.
    const keys = await Promise.all(
      cluster.nodes('master').map((node) => node.keys(`*${fixture.namespace}:*`)),
    )
    expect(keys.flat()).toEqual([])
    expect(await fixture.queue({ shards: 2 }).count()).toBe(0)
  })

  test('limits of a resource hold in its shard', async () => {
    const queue = fixture.queue()
    for (const customer of CUSTOMERS) {
      await queue.pauseResource(`customer:${customer}`, { reason: 'test' })
      await queue.setSlots(`customer:${customer}`, 3)
      await queue.setRate(`customer:${customer}`, { limit: 10, perMs: 1_000 })
    }
    expect((await queue.getAllLimits()).size).toBe(8)
    expect(await queue.getLimits('customer:ann')).toMatchObject({ slots: { slots: 3 } })
    await queue.resetSlots('customer:ann')
    await queue.resetRate('customer:ann')
    expect(await queue.getLimits('customer:ann')).toMatchObject({ paused: { reason: 'test' } })
    const ran: string[] = []
    const worker = await fixture.worker(({ data }) => Promise.resolve(ran.push(data.customer)))
    const [job] = await queue.addBulk(charges(1))
    const id = job?.id ?? ''
    expect(await worker.why(id)).toContain('paused it')
    expect((await worker.inspect('customer:ann')).line).toMatchObject([{ jobId: id }])
    expect(await worker.why('none')).toContain('There is no job none')
    await queue.resumeResource('customer:ann')
    await until('that one ran', () => ran.includes('ann'))
    expect(ran).toEqual(['ann'])
  })

  test('a scheduler is in the shard of its resource, and moves with it', async () => {
    const queue = fixture.queue()
    const every = { every: 60_000 }
    for (const customer of CUSTOMERS) {
      await queue.upsertJobScheduler('nightly', every, { data: { customer, nr: 0 } })
      expect([await queue.getJobSchedulersCount(), await queue.count()]).toEqual([1, 1])
      expect((await queue.getJobScheduler('nightly'))?.template?.data).toEqual({ customer, nr: 0 })
    }
    await queue.upsertJobScheduler('ann', every, { data: { customer: 'ann', nr: 0 } })
    expect((await queue.getJobSchedulers()).map(({ key }) => key).sort()).toEqual([
      'ann',
      'nightly',
    ])
    expect(await queue.removeJobScheduler('nightly')).toBe(true)
    expect(await queue.removeJobScheduler('nightly')).toBe(false)
    expect(await queue.getJobScheduler('nightly')).toBeUndefined()
    const ran: string[] = []
    await fixture.worker(({ data }) => Promise.resolve(ran.push(data.customer)))
    await until('it ran', () => ran.includes('ann'))
  })

  test('a scheduler whose move is refused stays as it was', async () => {
    const queue = fixture.queue()
    await queue.upsertJobScheduler('s', { every: 60_000 }, { data: { customer: one, nr: 1 } })
    const elsewhere = { data: { customer: two, nr: 2 } }
    const move = queue.upsertJobScheduler('s', { pattern: 'at noon' }, elsewhere)
    await expect(move).rejects.toThrow(/Invalid characters/)
    expect(await queue.getJobScheduler('s')).toMatchObject({
      ...{ every: 60_000, template: { data: { customer: one, nr: 1 } } },
    })
  })

  test('a scheduler that several calls move at once is in one shard', async () => {
    const [one, other] = [fixture.queue(), fixture.queue()]
    for (let nr = 0; nr < 5; nr++) {
      const moves = CUSTOMERS.map((customer, index) => {
        const queue = index % 2 === 0 ? one : other
        return queue.upsertJobScheduler('s', { every: 60_000 }, { data: { customer, nr } })
      })
      await Promise.all(moves)
      expect(await one.getJobSchedulersCount()).toBe(1)
    }
  })

  test('calls without await for one id count in their order', async () => {
    const queue = fixture.queue()
    const every = { every: 60_000 }
    const upsert = (customer: string): Promise<unknown> =>
      queue.upsertJobScheduler('s', every, { data: { customer, nr: 0 } })
    for (const last of [one, two, one, two]) {
      await Promise.all([upsert(last === one ? two : one), upsert(last)])
      expect((await queue.getJobScheduler('s'))?.template?.data?.customer).toBe(last)
    }
    expect((await Promise.all([upsert(one), queue.removeJobScheduler('s')]))[1]).toBe(true)
    expect(await queue.getJobSchedulersCount()).toBe(0)
    await queue.drain()
    const add = (nr: number): Promise<unknown> =>
      queue.add('charge', { customer: two, nr }, { jobId: 'mine' })
    await Promise.all([add(1), queue.remove('mine'), add(2)])
    expect((await queue.getJob('mine'))?.data.nr).toBe(2)
    const bulk = [{ name: 'charge', data: { customer: two, nr: 3 }, opts: { jobId: 'mine' } }]
    await Promise.all([queue.remove('mine'), queue.addBulk(bulk)])
    expect((await queue.getJob('mine'))?.data.nr).toBe(3)
  })

  test('clean without await spares what is added behind it, in each shard', async () => {
    const queue = fixture.queue()
    const before = await queue.addBulk(charges(2))
    for (const limit of [0, 100]) {
      const cleaned = queue.clean(0, limit, 'wait')
      const added = await queue.addBulk(charges(1))
      expect(await cleaned).toHaveLength(limit === 0 ? before.length : CUSTOMERS.length)
      expect(await queue.getWaitingCount()).toBe(added.length)
    }
    await queue.drain()
    // All in two shards: the others have nothing to give.
    const few = [...Array(5).keys()].flatMap((nr) =>
      [one, two].map((customer) => ({ customer, nr })),
    )
    await queue.addBulk(few.map((data) => ({ name: 'charge', data })))
    expect(await queue.clean(0, 7, 'wait')).toHaveLength(7)
    expect(await queue.clean(0, 7, 'wait')).toHaveLength(3)
  })

  test('what is absent is what it is in BullMQ', async () => {
    const resource = (data: Partial<Charge>): string => data.customer ?? one
    const queue = fixture.queue({ resource })
    await queue.add('charge', undefined as never)
    await queue.addBulk(charges(1))
    expect(await queue.getJobs(null as never)).toHaveLength(9)
    expect(await queue.clean(0, -1, 'wait')).toEqual([])
    expect(await queue.clean(0, undefined as never, 'wait')).toHaveLength(9)
    await expect(queue.getLimits(undefined as never)).rejects.toThrow('Expected `resource` to be')
  })

  test('options and a parent that are null are absent', async () => {
    const queue = fixture.queue()
    await queue.add('charge', { customer: one, nr: 1 }, null as never)
    await queue.addBulk([
      { name: 'charge', data: { customer: one, nr: 2 }, opts: null as never },
      { name: 'charge', data: { customer: two, nr: 3 }, opts: { parent: null as never } },
    ])
    expect(await queue.count()).toBe(3)
  })

  test('events come from every shard, and a caller can wait for a result', async () => {
    const events = fixture.events()
    await events.waitUntilReady()
    const completed: string[] = []
    events.on('completed', ({ jobId }) => completed.push(jobId))
    await fixture.worker(({ data }) => Promise.resolve(data.nr + 1))
    const jobs = await fixture.queue().addBulk(charges(1))
    const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events)))
    expect(results).toEqual(jobs.map(() => 1))
    await until('all are told', () => completed.length >= 8)
    expect(completed.sort()).toEqual(jobs.map(({ id }) => id).sort())
  })

  test('deduplication counts within a shard', async () => {
    const queue = fixture.queue()
    const opts = { deduplication: { id: 'once', ttl: 60_000 } }
    const first = await queue.add('charge', { customer: 'ann', nr: 1 }, opts)
    const again = await queue.add('charge', { customer: 'ann', nr: 2 }, opts)
    expect(again.id).toBe(first.id)
    expect(await queue.getDeduplicationJobId('once')).toBe(first.id)
    expect(await queue.removeDeduplicationKey('once')).toBe(1)
  })

  test('a flow within a shard', async () => {
    const queue = fixture.queue()
    const shard = queue.shards[shardOfCustomer('ann')] as LockedQueue<Charge>
    const { prefix = '' } = shard.opts
    const flows = fixture.closing(new FlowProducer({ connection: fixture.connect(), prefix }))
    const ran: number[] = []
    await fixture.worker(({ data }) => Promise.resolve(ran.push(data.nr)))
    const flow = await flows.add({
      ...{ name: 'parent', queueName: fixture.namespace, data: { customer: 'ann', nr: 2 } },
      children: [{ name: 'child', queueName: fixture.namespace, data: { customer: 'ann', nr: 1 } }],
    })
    await until('both ran', () => ran.length === 2)
    expect(ran).toEqual([1, 2])
    await until('it completed', async () => (await flow.job.getState()) === 'completed')
    const { id = '' } = flow.job
    expect((await queue.getDependencies(id, 'processed', 0, -1)).total).toBe(1)
    const parent = { id, queue: `${prefix}:${fixture.namespace}` }
    const other = CUSTOMERS.find((each) => shardOfCustomer(each) !== shardOfCustomer('ann'))
    await expect(
      queue.add('child', { customer: other ?? '', nr: 3 }, { parent }),
    ).rejects.toMatchObject({
      code: 'SEVERAL_SHARDS',
      message: expect.stringContaining(prefix) as string,
    })
    await queue.add('child', { customer: 'ann', nr: 4 }, { parent })
  })
})

const TROUBLES = { hangs: HANGS, refuses: REFUSES }
type Trouble = keyof typeof TROUBLES

test.each<[Trouble, string]>([
  ['hangs', 'a checkpoint'],
  ['hangs', 'a requeue'],
  ['refuses', 'a checkpoint'],
  ['refuses', 'a requeue'],
])('a node that %s at %s leaves its share', async (trouble, when) => {
  const queue = fixture.queue()
  const [gate, ran] = [fixture.gate(), [] as string[]]
  const redlock = await fixture.redlock()
  let isThere = false
  const arrive = async (): Promise<void> => {
    isThere = true
    await gate.passed
  }
  const run: LeasedProcessor<Charge, unknown> = async ({ data: { customer } }, lease) => {
    if (customer === one) await lease.step('charge', arrive)
    ran.push(customer)
  }
  const name = resourceOf({ customer: one })
  const other = await fixture.redlock()
  const held = when === 'a requeue' ? await other.acquire(name, { autoExtend: true }) : undefined
  if (held !== undefined) {
    const tryAcquire = redlock.tryAcquire.bind(redlock)
    vi.spyOn(redlock, 'tryAcquire').mockImplementation(async (resource, options) => {
      if ([resource].flat().includes(name)) await arrive()
      return tryAcquire(resource, options)
    })
  }
  // Its lock lasts: the job is not stopped.
  await fixture.worker(run, { concurrency: 1, checkpoints: true, redlock, lockDuration: 60_000 })
  await queue.add('charge', { customer: one, nr: 0 })
  await until('the job is there', () => isThere)
  const shard = shardOfCustomer(one)
  const others = CUSTOMERS.filter((customer) => shardOfCustomer(customer) !== shard)
  for (const customer of others) await queue.add('charge', { customer, nr: 0 })
  const goOn = await fixture.inTrouble(TROUBLES[trouble], shard)
  gate.open() // What it asks next is not answered.
  await until('the others have run', () => ran.length === others.length, 20_000)
  await goOn()
  await held?.release()
  await until('it has run', () => ran.includes(one))
  for (const customer of CUSTOMERS) await queue.add('charge', { customer, nr: 1 })
  await until('all have run', () => ran.length === others.length + 1 + CUSTOMERS.length)
})

test.each<Trouble>(['hangs', 'refuses'])(
  'a node that %s leaves its share of the concurrency to the others',
  async (trouble) => {
    const queue = fixture.queue()
    const gate = fixture.gate()
    const ran: string[] = []
    const run = async ({ data: { customer, nr } }: { readonly data: Charge }): Promise<void> => {
      ran.push(customer)
      if (nr === 1) await gate.passed
    }
    // A shard whose wait for a job ends would wait for the permit, and be given it too early.
    await fixture.worker(run, { concurrency: 1, drainDelay: 600 })
    const haveRun = (count: number): Promise<void> =>
      until(`${count} have run`, () => ran.length === count)
    await queue.addBulk(CUSTOMERS.map((customer) => ({ name: 'first', data: { customer, nr: 0 } })))
    await haveRun(8)
    const servers = fixture.nodes.map((node) => fixture.redis(node))
    await until('every shard waits for a job, and none for a permit', async () => {
      const said = await Promise.all(servers.map((server) => server.info('clients')))
      return said.every((clients) => clients.includes('blocked_clients:1'))
    })
    await queue.add('held', { customer: one, nr: 1 })
    await haveRun(9)
    const shard = shardOfCustomer(one)
    const others = CUSTOMERS.filter((customer) => shardOfCustomer(customer) !== shard)
    const goOn = await fixture.inTrouble(TROUBLES[trouble], shard)
    gate.open() // Its end is not taken.
    for (const customer of others) await queue.add('charge', { customer, nr: 2 })
    await haveRun(9 + others.length)
    await goOn()
    await queue.add('charge', { customer: one, nr: 3 })
    await haveRun(10 + others.length)
  },
)

test('a node that gives no jobs takes no turn of the others', async () => {
  const queue = fixture.queue()
  let [ran, refused] = [0, 0]
  const worker = await fixture.worker(() => Promise.resolve(ran++), { concurrency: 1 })
  worker.on('error', ({ message }) => (refused += message.startsWith('NOREPLICAS') ? 1 : 0))
  await queue.addBulk(charges(60))
  const more = charges(60).filter(
    ({ data }) => shardOfCustomer(data.customer) !== shardOfCustomer(one),
  )
  await until('some have run', () => ran > 20)
  const goOn = await fixture.inTrouble(REFUSES, shardOfCustomer(one))
  await until('it was asked for a second', () => refused > 5)
  await queue.addBulk(more) // The first ones may be done.
  const [ranBefore, refusedBefore] = [ran, refused]
  await until('others have run', () => ran > ranBefore + 100)
  // It was once asked for every second job of the others.
  expect(refused - refusedBefore).toBeLessThan((ran - ranBefore) / 4)
  await goOn()
  await until('all have run', () => ran === 60 * CUSTOMERS.length + more.length)
})

describe('refusals', () => {
  test('resources of a job in several shards: none is added', async () => {
    const queue = fixture.queue({ resource: ({ customer }) => customer.split('+') })
    const jobs = [`{x}a+{x}b`, `customer:${one}+customer:${two}`].map((customer, nr) => ({
      ...{ name: 'charge', data: { customer, nr } },
    }))
    await expect(queue.addBulk(jobs)).rejects.toMatchObject({ code: 'SEVERAL_SHARDS' })
    await expect(queue.add('charge', jobs[1]?.data as Charge)).rejects.toThrow(
      /`customer:ann` in shard \d, `customer:\w+` in shard \d.*common part in braces/,
    )
    expect(await queue.count()).toBe(0)
  })

  test('a worker fails a job whose resource is in another shard', async () => {
    const queue = fixture.queue()
    const shard = queue.shards[shardOfCustomer(one)]
    const plain = fixture.plainQueue<Charge>(fixture.namespace, {
      ...{ connection: fixture.connect(), prefix: shard?.opts.prefix ?? '' },
    })
    await fixture.worker(() => Promise.resolve())
    const wrong = await plain.add('charge', { customer: two, nr: 1 })
    const right = await plain.add('charge', { customer: one, nr: 1 })
    await until('both ended', async () => {
      return (await wrong.isFailed()) && (await right.isCompleted())
    })
    expect((await queue.getJob(wrong.id ?? ''))?.failedReason).toMatch(
      /named customer:\w+ of shard/,
    )
  })

  test('a shard itself refuses a job whose resource is in another shard', async () => {
    const queue = fixture.queue()
    const shard = queue.shards[shardOfCustomer(one)] as LockedQueue<Charge>
    const [data, refused] = [{ customer: two, nr: 1 }, /named customer:\w+ of shard \d/]
    await expect(shard.add('charge', data)).rejects.toThrow(refused)
    await expect(shard.addBulk([{ name: 'charge', data }])).rejects.toThrow(refused)
    const scheduled = shard.upsertJobScheduler('s', { every: 60_000 }, { data })
    await expect(scheduled).rejects.toThrow(refused)
    await shard.add('charge', { customer: one, nr: 1 })
    expect(await queue.getWaitingCount()).toBe(1)
  })

  test('what names nothing is told as by a LockedQueue and a LockedWorker', async () => {
    const queue = fixture.queue()
    const shard = queue.shards[shardOfCustomer(one)] as LockedQueue<Charge>
    const nothing = /^`resource` returned `customer:undefined`: .* for job mine: it must return/
    const added = shard.add('charge', { nr: 1 } as Charge, { jobId: 'mine' })
    await expect(added).rejects.toThrow(nothing)
    await fixture.worker(() => Promise.resolve(), {
      resource: ({ data }) => (data.nr === 1 ? [] : (undefined as never)),
    })
    const plain = fixture.plainQueue<Charge>(fixture.namespace, {
      ...{ connection: fixture.connect(), prefix: shard.opts.prefix ?? '' },
    })
    const failed: string[] = []
    for (const nr of [1, 2]) {
      const job = await plain.add('charge', { customer: one, nr }, { jobId: `mine-${nr}` })
      await until('it has failed', () => job.isFailed())
      failed.push((await queue.getJob(`mine-${nr}`))?.failedReason ?? '')
    }
    expect(failed).toEqual([
      expect.stringMatching(/^`resource` returned an empty list for job mine-1: it must return/),
      expect.stringMatching(/^`resource` returned undefined for job mine-2: it must return/),
    ])
  })

  test('an id of another shard, and one id in two shards', async () => {
    const queue = fixture.queue()
    const wrong = `${(shardOfCustomer(one) + 1) % 4}~x`
    await expect(queue.add('charge', { customer: one, nr: 1 }, { jobId: wrong })).rejects.toThrow(
      /resource in shard \d, .* and the id \d~x of another shard/,
    )
    await queue.add('charge', { customer: one, nr: 1 }, { jobId: 'same' })
    await queue.add('charge', { customer: two, nr: 1 }, { jobId: 'same' })
    await expect(queue.getJob('same')).rejects.toMatchObject({ code: 'SEVERAL_SHARDS' })
    await expect(queue.remove('same')).rejects.toThrow(/several resources were added with this id/)
  })

  test('another number of shards', async () => {
    await fixture.queue().add('charge', { customer: one, nr: 1 })
    for (const shards of [1, 3, 8]) {
      const other = fixture.queue({ shards })
      for (const refused of [
        other.add('charge', { customer: one, nr: 1 }),
        other.addBulk(charges(1)),
        other.getJobCounts(),
        other.getJob('1'),
        other.pause(),
        other.drain(),
        other.obliterate({ force: true }),
        other.clean(0, 0),
        other.cancel({ resource: 'a' }),
        other.getLimits('a'),
        other.upsertJobScheduler('a', { every: 1_000 }, { data: { customer: one, nr: 0 } }),
      ]) {
        await expect(refused).rejects.toMatchObject({
          code: 'SHARDS_DIFFER',
          message: expect.stringMatching(/has 4 shards, .*is [138]\. .*use a new name/) as string,
        })
      }
      const worker = await fixture.worker(() => Promise.resolve(), { shards, autorun: false })
      await expect(worker.run()).rejects.toMatchObject({ code: 'SHARDS_DIFFER', isOwnFault: true })
      expect(worker.isRunning()).toBe(false)
      const events = fixture.events({ shards, autorun: false })
      await expect(events.run()).rejects.toMatchObject({ code: 'SHARDS_DIFFER' })
    }
    const told: unknown[] = []
    const worker = await fixture.worker(() => Promise.resolve(), { shards: 2 })
    worker.on('error', (error) => told.push(error))
    await until('the worker tells it', () => told.length > 0)
    expect(told).toMatchObject([{ code: 'SHARDS_DIFFER' }])
    const printed = vi.spyOn(console, 'error').mockReturnValue()
    const unheard = await fixture.worker(() => Promise.resolve(), { shards: 2 })
    unheard.removeAllListeners('error')
    await until('it is printed', () => printed.mock.calls.length > 0)
    expect(printed.mock.calls).toMatchObject([[{ code: 'SHARDS_DIFFER' }]])
    printed.mockRestore()
  })

  test('limits that each shard would count for itself', async () => {
    const queue = fixture.queue()
    await expect(queue.setGlobalConcurrency(1)).rejects.toThrow(
      /no `setGlobalConcurrency`.*setSlots/,
    )
    await expect(queue.setGlobalRateLimit(1, 1_000)).rejects.toMatchObject({
      code: 'SEVERAL_SHARDS',
    })
    const limiter = { limiter: { max: 1, duration: 1_000 } } as object
    await expect(fixture.worker(() => Promise.resolve(), limiter)).rejects.toThrow(/`limiter`/)
    const none = { limiter: undefined } as object
    await expect(fixture.worker(() => Promise.resolve(), none)).resolves.toBeDefined()
  })

  test('bad options', async () => {
    const connection = fixture.connect()
    const resource = (): string => 'a'
    for (const shards of [0, 65, 1.5, '4', undefined]) {
      const options = { connection, resource, shards: shards as number }
      expect(() => new ShardedQueue('q', options)).toThrow(/`shards`/)
      expect(() => new ShardedQueueEvents('q', options)).toThrow(/`shards`/)
    }
    const options = { connection, resource, shards: 2 }
    expect(() => new ShardedQueue('q', { ...options, prefix: 'a{b}' })).toThrow(/`prefix`/)
    expect(() => new ShardedQueue('q', undefined as never)).toThrow(/`options`/)
    const events = { ...options, lastEventId: '0' } as never
    expect(() => new ShardedQueueEvents('q', events)).toThrow(/`lastEventId`/)
    const redlock = await fixture.redlock()
    for (const locks of [[redlock], [redlock, redlock]]) {
      const own = { ...options, redlock: locks }
      expect(() => new ShardedWorker('q', () => Promise.resolve(), own)).toThrow(/`redlock`/)
    }
  })
})
