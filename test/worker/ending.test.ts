/** How jobs and workers end: what still runs holds its lease, and what is lost holds up nothing. */
import { describe, expect, test } from 'vitest'
import { batchProcessor, Redlock, silentLogger } from '../../src/index.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { chargesOf, type Charge } from '../support/locked-jobs.ts'
import { Program } from '../workers/program.ts'

const fixture = useFleet({ masters: 3 })
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const { makeQueue, work } = chargesOf(fixture)

describe('a step that still runs when its processor ends', () => {
  test.each([
    ['returns', async (): Promise<void> => Promise.resolve(), /ended before its steps `charge`/],
    ['throws', (): Promise<void> => Promise.reject(new Error('declined')), /^declined$/],
  ])('holds the lease where it %s, and fails the job', async (_how, end, reason) => {
    const queue = makeQueue()
    let inside = 0
    let most = 0
    const ran: string[] = []
    await work(async ({ name }, lease) => {
      const charged = lease.step('charge', async () => {
        most = Math.max(most, ++inside)
        await pause(200)
        inside--
        ran.push(name)
      })
      if (name !== 'first') return charged
      charged.catch(() => undefined)
      return end()
    })
    const first = await queue.add('first', { customer: 'a' })
    await queue.add('second', { customer: 'a' })
    await until('the second is done', async () => (await queue.getCompletedCount()) === 1)
    expect(ran).toEqual(['first', 'second'])
    expect(most).toBe(1)
    expect((await queue.getJob(first.id ?? ''))?.failedReason).toMatch(reason)
  })
})

test('an extension that nobody waits for, and that fails, does not end the process', async () => {
  const queue = makeQueue()
  const unhandled: unknown[] = []
  const note = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', note)
  fixture.defer(() => {
    process.off('unhandledRejection', note)
  })
  await work((_job, lease) => {
    void lease.extend()
    return Promise.resolve()
  })
  for (let nr = 0; nr < 10; nr++) await queue.add('forgets', { customer: 'a' })
  await until('all are done', async () => (await queue.getCompletedCount()) === 10)
  await pause(100)
  expect(unhandled).toEqual([])
})

describe('a job that goes on after its lease is lost', () => {
  test('does not stand in its line for as long as its process lives', async () => {
    const queue = makeQueue()
    const never = fixture.gate()
    const ran: string[] = []
    const redlock = await fixture.redlock({ leaseMs: 500 })
    const processor = async ({ name }: { name: string }): Promise<void> => {
      ran.push(name)
      if (name === 'first') await never.passed
    }
    const worker = await work(processor, { redlock, maxHoldMs: 800 })
    const first = await queue.add('first', { customer: 'a' })
    await queue.add('second', { customer: 'a' })
    await until('the second is done', async () => (await queue.getCompletedCount()) === 1)
    expect(ran).toEqual(['first', 'second'])
    expect((await queue.getJob(first.id ?? ''))?.failedReason).toMatch(/is lost/)
    never.open()
    await worker.close()
  })

  test('nor does a batch', async () => {
    const queue = makeQueue()
    const never = fixture.gate()
    const batches: string[][] = []
    const redlock = await fixture.redlock({ leaseMs: 500 })
    const processor = batchProcessor<Charge, unknown>({ size: 3 }, async (jobs) => {
      batches.push(jobs.map(({ name }) => name))
      if (batches.length === 1) await never.passed
      return Promise.allSettled(jobs.map(({ name }) => Promise.resolve(name)))
    })
    const jobs = await queue.addBulk(
      ['1', '2', '3', '4'].map((name) => ({ name, data: { customer: 'a' } })),
    )
    const worker = await work(processor, { redlock, maxHoldMs: 800, concurrency: 1 })
    await until('the last one is done', async () => (await queue.getCompletedCount()) === 1)
    expect(batches).toEqual([['1', '2', '3'], ['4']])
    for (const { id = '' } of jobs.slice(0, 3)) {
      expect((await queue.getJob(id))?.failedReason).toMatch(/is lost/)
    }
    never.open()
    await worker.close()
    expect(await queue.getFailedCount()).toBe(3)
  })
})

describe('a worker that drains', () => {
  test('fetches nothing more, though it has a free slot', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const started: string[] = []
    const end = fixture.gate()
    const worker = await work(
      async ({ name }) => {
        started.push(name)
        await end.passed
      },
      { redlock },
    )
    await queue.add('first', { customer: 'a' })
    await until('it runs', () => started.length === 1)
    await pause(50) // It waits for another job now.
    const redis = fixture.redis()
    const isWaiting = async (): Promise<boolean> =>
      /flags=\w*b\w* .*cmd=bzpopmin/.test((await redis.call('CLIENT', 'LIST')) as string)
    expect(await isWaiting()).toBe(true)
    const drained = worker.drain({ timeoutMs: 5_000 })
    await until('it waits for no job', async () => !(await isWaiting()), 1_000)
    await queue.add('second', { customer: 'b' })
    await pause(300)
    expect(await isWaiting()).toBe(false)
    expect(started).toEqual(['first'])
    end.open()
    await drained
    const other = await work(({ name }) => Promise.resolve(started.push(name)), { redlock })
    await until('another worker has it', () => started.length === 2, 1_000)
    await other.close()
  })

  test('waits for no mark, which another worker could need', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const redis = fixture.redis()
    const blocked = async (): Promise<readonly (string | undefined)[]> => {
      const clients = (await redis.call('CLIENT', 'LIST')) as string
      return [...clients.matchAll(/id=(\d+) .*flags=\w*b\w* .*cmd=bzpopmin/g)].map(([, id]) => id)
    }
    const waiting = async (): Promise<number> => (await blocked()).length
    const end = fixture.gate()
    await work(() => Promise.resolve(), { redlock, concurrency: 1 })
    await until('another worker waits', async () => (await waiting()) === 1)
    const [other] = await blocked()
    const worker = await work(() => end.passed, { redlock })
    await until('both wait', async () => (await waiting()) === 2)
    // The first has this one, and waits behind the other; so the next is for the other.
    await queue.add('first', { customer: 'a' })
    await until('it is done', async () => (await queue.getCompletedCount()) === 1)
    await queue.add('second', { customer: 'b' })
    await until('it runs', async () => (await queue.getActiveCount()) === 1)
    await until('both wait again', async () => (await waiting()) === 2)
    // Redis gives a mark to the one that has waited longest: that is not to be this one.
    const own = (await blocked()).find((id) => id !== other)
    await redis.call('CLIENT', 'UNBLOCK', own ?? '')
    await pause(50)
    await until('both wait once more', async () => (await waiting()) === 2)
    const drained = worker.drain({ timeoutMs: 5_000 })
    await until('only the other one waits', async () => (await blocked()).join() === other, 2_000)
    end.open()
    await drained
  })

  test('starts no job that it is given meanwhile', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const started: string[] = []
    const worker = await work(({ name }) => Promise.resolve(started.push(name)), { redlock })
    // BullMQ's loop was given a job, and starts it when the worker leaves.
    const loop = worker as unknown as { processJob: (...args: unknown[]) => Promise<unknown> }
    const processJob = loop.processJob.bind(worker)
    const given = fixture.gate()
    const left = fixture.gate()
    loop.processJob = async (...args) => {
      given.open()
      await left.passed
      return processJob(...args)
    }
    await queue.add('first', { customer: 'a' })
    await given.passed
    const drained = worker.drain()
    left.open()
    await drained
    expect(started).toEqual([])
    expect(await queue.getDelayedCount()).toBe(1)
  })

  test('gives a job back at once that waits for its lease', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const lease = await redlock.acquire('a', { autoExtend: true })
    const worker = await work(() => Promise.resolve(), { redlock, burstMs: 60_000 })
    await queue.add('first', { customer: 'a' })
    await until('it waits', async () => (await queue.getActiveCount()) === 1)
    await pause(100)
    const drained = worker.drain({ timeoutMs: 20_000 })
    await until('it is back', async () => (await queue.getDelayedCount()) === 1, 10_000)
    expect(await drained).toBe(true)
    await lease.release()
  })

  test('is not resumed', async () => {
    const queue = makeQueue()
    const ran: string[] = []
    const worker = await work(async ({ name }) => {
      ran.push(name)
      await pause(200)
    })
    const loop = worker as unknown as { moveToActive(...args: string[]): Promise<unknown> }
    const moveToActive = loop.moveToActive.bind(worker)
    let asked = 0
    loop.moveToActive = (...args) => {
      // It would ask without end, and nothing else would run.
      if (++asked > 100) void worker.pause(true)
      return moveToActive(...args)
    }
    await queue.add('first', { customer: 'a' })
    await until('the first runs', () => ran.length === 1)
    await queue.add('second', { customer: 'b' })
    const drained = worker.drain()
    await worker.resume()
    expect(await drained).toBe(true)
    expect(ran).toEqual(['first'])
    expect(asked).toBeLessThan(100)
  })

  test('gives its jobs back so that they start elsewhere at once', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const started = new Map<string, { readonly by: number; readonly at: number }>()
    const ended = fixture.gate()
    const start = (by: number): ReturnType<typeof work> =>
      work(
        async ({ id = '', data }, { signal }) => {
          if (data.customer === 'quick') return
          started.set(id, { by, at: performance.now() })
          await Promise.race([ended.passed, aborted(signal)])
          throw (signal.reason ?? new Error('the test is over')) as Error
        },
        { redlock, concurrency: 4 },
      )
    const waited: number[] = []
    let current = await start(0)
    const jobs = ['a'].map((customer) => ({ name: 'charge', data: { customer } }))
    await queue.addBulk(jobs)
    await until('all run', () => started.size === jobs.length)
    for (let round = 1; round <= 4; round++) {
      const next = await start(round)
      await next.waitUntilReady()
      await pause(100) // It waits for a job now.
      if (round % 2 === 0) {
        // The one that waits longest has it: afterwards it waits behind the other.
        const done = await queue.getCompletedCount()
        await queue.add('quick', { customer: 'quick' })
        await until('it is done', async () => (await queue.getCompletedCount()) > done)
        await pause(50)
      }
      const stoppedAt = performance.now()
      const drained = current.drain({ timeoutMs: 0 })
      await until('all run elsewhere', () => [...started.values()].every(({ by }) => by === round))
      waited.push(Math.max(...[...started.values()].map(({ at }) => at - stoppedAt)))
      await drained
      current = next
    }
    console.log(`the slowest of 4 stops: ${Math.round(Math.max(...waited))} ms`)
    ended.open()
    expect(Math.max(...waited)).toBeLessThan(1_000)
  })

  test('lets its process end, though a processor never returns', async () => {
    await fixture.redlock({ leaseMs: 2_000, maxLeaseMs: 3_000 })
    const queue = makeQueue()
    await using program = new Program('test/worker/hanging-child.ts', [
      ...[fixture.namespace, fixture.fleet.queue.url, fixture.namespace],
      ...fixture.fleet.urls,
    ])
    await queue.add('charge', { customer: 'a' })
    await program.line(/entered/)
    const sentAt = performance.now()
    program.kill('SIGTERM')
    expect((await program.end()).code).toBe(0)
    expect(performance.now() - sentAt).toBeLessThan(10_000)
  })
})

describe('jobs that found no quorum', () => {
  test('start when one votes, also before their quarantine would have ended', async () => {
    const queue = makeQueue()
    const options = { leaseMs: 2_000, maxLeaseMs: 20_000, namespace: `${fixture.namespace}-new` }
    const open = (): Redlock => {
      const redlock = new Redlock({
        ...{ ...options, masters: fixture.fleet.urls, logger: silentLogger },
      })
      fixture.defer(() => redlock.close())
      return redlock
    }
    const operator = open()
    await operator.ready()
    let requeued = 0
    const worker = await work(() => Promise.resolve('done'), {
      ...{ redlock: operator, logger: silentLogger },
    })
    worker.on('requeued', () => requeued++)
    await queue.add('charge', { customer: 'a' })
    await until('it is requeued', () => requeued > 0)
    await operator.bootstrap({ newFleet: true, confirmed: true })
    await until('it is done', async () => (await queue.getCompletedCount()) === 1, 5_000)
  }, 40_000)
})
