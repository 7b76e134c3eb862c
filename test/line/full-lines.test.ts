/** Lines with a greatest length: what happens to an add that has no room, and who is told. */
import { setTimeout as delay } from 'node:timers/promises'
import { FlowProducer } from 'bullmq'
import { describe, expect, it } from 'vitest'
import { LineFullError, type LockedQueue } from '../../src/index.ts'
import { QueueView } from '../../src/tools/operator/queue-view.ts'
import { standingJobs } from '../../src/tools/operator/standing-jobs.ts'
import { until, useFleet } from '../fixtures.ts'
import { useCalls, type Call } from './calls.ts'
import { startProxy } from '../support/proxy.ts'

const fixture = useFleet({ masters: 3 })
const { makeQueue } = useCalls(fixture)

const call = (nr: number, customer = 'a'): Call => ({ nr, customer })

async function numbers(queue: LockedQueue<Call>): Promise<readonly number[]> {
  const jobs = await queue.getJobs(['waiting', 'delayed', 'prioritized', 'failed'])
  return jobs.map(({ data }) => data.nr).sort((a, b) => a - b)
}

async function drained(queue: LockedQueue<Call>): Promise<readonly number[]> {
  const ran: number[] = []
  fixture.lockedWorker<Call>(
    ({ data }) => {
      ran.push(data.nr)
      return Promise.resolve()
    },
    { redlock: await fixture.redlock(), resource: ({ data }) => data.customer },
  )
  await until('no job is left', async () => {
    const { completed, ...counts } = await queue.getJobCounts()
    return Object.values(counts).every((count) => count === 0)
  })
  return ran
}

describe('a full line', () => {
  it('refuses a job, says which line, and has room again when a job has ended', async () => {
    const queue = makeQueue({ maxLength: 2 })
    await queue.add('call', call(1))
    await queue.add('call', call(2))
    await queue.add('call', call(3, 'b'))
    const error: unknown = await queue.add('call', call(4)).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(LineFullError)
    expect(error).toMatchObject({ code: 'LINE_FULL', resource: 'a', maxLength: 2 })
    expect(await drained(queue)).toEqual([1, 2, 3])
    await queue.add('call', call(5))
  })

  it('counts those that are added together, and takes what has room', async () => {
    const queue = makeQueue({ maxLength: 2 })
    const jobs = [1, 2, 3].map((nr) => ({ name: 'call', data: call(nr) }))
    await expect(queue.addBulk([...jobs, { name: 'call', data: call(4, 'b') }])).rejects.toThrow(
      LineFullError,
    )
    expect(await numbers(queue)).toEqual([1, 2, 4])
  })

  it('adds nothing more once it has refused jobs that are sent in several parts', async () => {
    const { host, port } = fixture.fleet.queue
    await using proxy = await startProxy(port)
    const queue = makeQueue({ maxLength: 1, connection: { host, port: proxy.port } })
    await queue.waitUntilReady()
    let delayMs = 0
    proxy.delay({ requestsMs: () => (delayMs += 50) })
    const long = 'x'.repeat(10_000)
    const jobs = Array.from({ length: 40 }, (_, nr) => ({
      name: 'call',
      data: { ...call(nr, nr === 1 ? 'c0' : `c${nr}`), long },
    }))
    await expect(queue.addBulk(jobs)).rejects.toThrow(LineFullError)
    const redis = fixture.redis()
    const count = (): Promise<number> => redis.llen(queue.toKey('wait'))
    const counts = [await count()]
    await delay(500)
    counts.push(await count())
    expect(counts).toEqual([39, 39])
    await queue.close()
  })

  it.each([
    ['drop-oldest', [1, 3, 4]],
    ['drop-newest', [1, 2, 4]],
  ] as const)(
    'with %s removes a job that sleeps, not the one at its turn',
    async (whenFull, left) => {
      const queue = makeQueue({ maxLength: 3, whenFull })
      for (const nr of [1, 2, 3, 4]) await queue.add('call', call(nr))
      expect(await numbers(queue)).toEqual(left)
      expect(await drained(queue)).toEqual(left)
    },
  )

  it('keeps the order of one addBulk', async () => {
    const queue = makeQueue({ maxLength: 3, whenFull: 'drop-oldest' })
    const all = Array.from({ length: 40 }, (_, nr) => ({ name: 'call', data: call(nr) }))
    await queue.addBulk(all)
    expect(await drained(queue)).toEqual([0, 38, 39])
  })

  it('that is longer than it may be by now is made as short for the next job', async () => {
    const before = makeQueue({})
    for (let nr = 0; nr < 30; nr++) await before.add('call', call(nr))
    const queue = makeQueue({ maxLength: 3, whenFull: 'drop-oldest' })
    await queue.add('call', call(30))
    expect(await numbers(queue)).toEqual([0, 29, 30])
  })

  it('drops no job that was started, and lets its resource sleep', async () => {
    const queue = makeQueue({ maxLength: 2, whenFull: 'drop-oldest' })
    fixture.lockedWorker<Call>(
      async (_job, lease) => {
        throw await lease.rateLimit(600_000)
      },
      {
        ...{ redlock: await fixture.redlock() },
        resource: ({ data }) => data.customer,
      },
    )
    await queue.add('call', call(1))
    await until('it sleeps', async () => (await queue.getDelayedCount()) === 1)
    for (const nr of [2, 3]) await queue.add('call', call(nr))
    expect(await numbers(queue)).toEqual([1, 3])
  })

  it('with shares drops no job that is ready to start', async () => {
    const queue = makeQueue({ maxLength: 2, whenFull: 'drop-oldest', weight: () => 1 })
    for (const nr of [1, 2, 3]) await queue.add('call', call(nr))
    expect(await numbers(queue)).toEqual([1, 3])
    expect(await drained(queue)).toEqual([1, 3])
  })

  it('of one of several resources has room made for it, as often as needed', async () => {
    const resource = ({ customer }: Call): readonly string[] => [customer, 'upstream']
    const queue = makeQueue({ maxLength: 2, whenFull: 'drop-oldest', resource })
    for (const nr of [1, 2, 3, 4]) await queue.add('call', call(nr, nr < 3 ? 'a' : 'b'))
    expect(await numbers(queue)).toEqual([1, 4])
  })

  it('refuses where no job sleeps, with every option', async () => {
    const queue = makeQueue({ maxLength: 1, whenFull: 'drop-oldest' })
    await queue.add('call', call(1))
    await expect(queue.add('call', call(2))).rejects.toThrow(LineFullError)
  })

  it('does not count places of jobs that are gone', async () => {
    const queue = makeQueue({ maxLength: 2 })
    const jobs = [await queue.add('call', call(1)), await queue.add('call', call(2))]
    const redis = fixture.redis()
    // As tools do that know nothing of lines.
    for (const { id = '' } of jobs) {
      await redis.del(queue.toKey(id))
      await redis.zrem(queue.toKey('delayed'), id)
      await redis.lrem(queue.toKey('wait'), 0, id)
    }
    await queue.add('call', call(3))
    await queue.add('call', call(4))
    expect(await numbers(queue)).toEqual([3, 4])
  })

  it('does not drop a job of a scheduler that BullMQ does not remove', async () => {
    const queue = makeQueue({ maxLength: 2, whenFull: 'drop-newest' })
    const { passed } = fixture.gate()
    fixture.lockedWorker<Call>(() => passed, {
      ...{ redlock: await fixture.redlock(), concurrency: 2 },
      resource: ({ data }) => data.customer,
    })
    await queue.add('call', call(1))
    await until('it runs', async () => (await queue.getActiveCount()) === 1)
    const last = { every: 3_600_000, limit: 1 }
    await queue.upsertJobScheduler('once', last, { name: 'call', data: call(2) })
    await until('it is in line', async () => {
      const [scheduled] = await queue.getJobs(['waiting'])
      return (await queue.position(scheduled?.id ?? ''))?.ahead === 1
    })
    await expect(queue.add('call', call(3))).rejects.toThrow(LineFullError)
    expect(await queue.getWaitingCount()).toBe(1)
  })

  it('takes a job that BullMQ knows already', async () => {
    const queue = makeQueue({ maxLength: 1 })
    await queue.add('call', call(1), { jobId: 'one', deduplication: { id: 'd', ttl: 60_000 } })
    expect((await queue.add('call', call(2), { jobId: 'one' })).id).toBe('one')
    expect((await queue.add('call', call(3), { deduplication: { id: 'd' } })).id).toBe('one')
    expect(await numbers(queue)).toEqual([1])
  })

  it('takes the jobs of a flow, whole', async () => {
    const queue = makeQueue({ maxLength: 1 })
    await queue.add('call', call(1))
    const flows = fixture.closing(new FlowProducer({ connection: fixture.connection }))
    const child = { name: 'call', queueName: fixture.namespace, data: call(3) }
    await flows.add({
      name: 'call',
      queueName: fixture.namespace,
      data: call(2),
      children: [child],
    })
    expect([...(await drained(queue))].sort()).toEqual([1, 2, 3])
  })

  it('is told of in a diagnosis, and counted for the metrics', async () => {
    const queue = makeQueue({ maxLength: 1 })
    await queue.add('call', call(1))
    for (const nr of [2, 3]) await queue.add('call', call(nr)).catch(() => undefined)
    const view = fixture.closing(new QueueView(fixture.fleet.queue.url, 'bull', 5_000))
    const standing = await standingJobs(view.places)
    const findings = standing.findings.filter(
      ({ code, where }) => code === 'line-full' && where === `queue ${fixture.namespace}`,
    )
    expect(findings).toMatchObject([{ severity: 'warning' }])
    expect(findings[0]?.fact).toMatch(
      /line of `a` was full at .*; 2 jobs were refused and 0 dropped/,
    )
  })
})
