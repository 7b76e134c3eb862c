/** Workers that have nothing to do keep out of the way of a hand-over, and still find every job. */
import { Queue, type Job } from 'bullmq'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { LockedQueue, LockedWorker } from '../../src/index.ts'
import { FakeClock } from '../../src/testing/index.ts'
import { IdleWait } from '../../src/worker/idle-wait.ts'
import { until, useFleet } from '../fixtures.ts'

interface Charge {
  readonly customer: string
  readonly nr: number
}

const fixture = useFleet({ masters: 3 })
const connection = (): { host: string; port: number } => ({
  host: fixture.fleet.queue.host,
  port: fixture.fleet.queue.port,
})
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

async function startWorker(
  processor: (job: Job<Charge>) => Promise<void>,
  concurrency = 4,
): Promise<void> {
  const worker = new LockedWorker<Charge>(fixture.namespace, processor, {
    connection: connection(),
    redlock: await fixture.redlock(),
    resource: ({ data }) => data.customer,
    concurrency,
  })
  worker.on('error', () => undefined)
  fixture.defer(() => worker.close())
  await worker.waitUntilReady()
}

function makeQueue(): LockedQueue<Charge> {
  const queue = new LockedQueue<Charge>(fixture.namespace, {
    connection: connection(),
    resource: ({ customer }) => customer,
    namespace: fixture.namespace,
  })
  fixture.defer(() => queue.close())
  return queue
}

const line = (length: number): { name: string; data: Charge }[] =>
  Array.from({ length }, (_, nr) => ({ name: 'charge', data: { customer: 'a', nr } }))

describe('the next job of a line', () => {
  /** BullMQ's scripts by how many keys they have. */
  const SCRIPTS = new Map([
    ['9', 'promote'],
    ['7', 'changePriority'],
    ['14', 'finish'],
  ])

  /** What BullMQ was asked for right after it had been asked to wake a job. */
  async function behindPromote(work: () => Promise<void>): Promise<Record<string, number>> {
    const redis = new Redis(fixture.fleet.queue.url)
    const monitor = await redis.monitor()
    const counts: Record<string, number> = { changePriority: 0, finish: 0 }
    let before: string | undefined
    monitor.on('monitor', (_time: string, [command, , keys]: string[], source: string) => {
      const script = command === 'evalsha' ? SCRIPTS.get(keys ?? '') : undefined
      if (source === 'lua' || script === undefined) return
      if (before === 'promote') counts[script] = (counts[script] ?? 0) + 1
      before = script
    })
    await work()
    monitor.disconnect()
    redis.disconnect()
    return counts
  }

  test('is put in front after the write that finishes the one ahead, where nobody else waits', async () => {
    const queue = makeQueue()
    await startWorker(() => pause(50))
    const { changePriority = 0, finish = 0 } = await behindPromote(async () => {
      await queue.addBulk(line(10))
      await until('all are done', async () => (await queue.getCompletedCount()) === 10)
    })
    // Not all: the first one has to hear that it is followed, and the sweep may look in between.
    expect(finish).toBeGreaterThan(changePriority)
  })

  test('and before it where others may wait', async () => {
    const queue = makeQueue()
    await queue.addBulk(line(10))
    const { changePriority = 0, finish = 0 } = await behindPromote(async () => {
      await startWorker(() => pause(50), 1) // Its only place is taken: it does not know who waits.
      await until('all are done', async () => (await queue.getCompletedCount()) === 10)
    })
    expect(changePriority).toBeGreaterThan(finish)
  })

  test('has the priority that it was given, for its processor and for BullMQ', async () => {
    const queue = makeQueue()
    const seen: number[] = []
    await startWorker(async (job) => {
      seen.push(job.priority)
      await pause(20)
      if (job.data.nr === 2 && job.attemptsMade === 0) throw new Error('declined')
    })
    await queue.addBulk(
      line(4).map((job) => ({
        ...job,
        opts: { attempts: 2, backoff: { type: 'fixed', delay: 1 } },
      })),
    )
    await until('all are done', async () => (await queue.getCompletedCount()) === 4)
    expect(seen).toEqual([0, 0, 0, 0, 0])
    const stored = await queue.getCompleted()
    expect(stored.map(({ priority }) => priority)).toEqual([0, 0, 0, 0])
  })
})

describe('a worker that is roused', () => {
  /** Its backend rouses it at once; `found` is what the look finds. */
  function makeIdle(): {
    readonly clock: FakeClock
    readonly look: (found?: object) => Promise<void>
  } {
    const clock = new FakeClock()
    let job: object | undefined
    const backend = {
      waitForJob: () => Promise.resolve({ member: '0', score: 0 }),
      moveToActive: () => Promise.resolve([job]),
    }
    new IdleWait(backend, clock)
    const look = async (found?: object): Promise<void> => {
      job = found
      await backend.waitForJob()
      await backend.moveToActive()
    }
    return { clock, look }
  }

  async function isImmediate(look: Promise<void>): Promise<boolean> {
    let over = false
    void look.then(() => (over = true))
    await pause(0)
    return over
  }

  test('in vain again and again steps back a moment, until it finds a job', async () => {
    const { clock, look } = makeIdle()
    await look()
    await look()
    const third = look({ id: '1' })
    expect(await isImmediate(third)).toBe(false)
    await clock.advance(2)
    await third
    expect(await isImmediate(look())).toBe(true)
  })

  test('in vain now and then looks at once', async () => {
    const { clock, look } = makeIdle()
    for (let looks = 0; looks < 5; looks++) {
      expect(await isImmediate(look())).toBe(true)
      await clock.advance(1_001)
    }
  })

  test('because a delayed job will be due is not held up', async () => {
    const clock = new FakeClock()
    const backend = {
      waitForJob: () => Promise.resolve({ member: '1', score: Date.now() + 1_000 }),
      moveToActive: () => Promise.resolve([]),
    }
    new IdleWait(backend, clock)
    for (let looks = 0; looks < 5; looks++) {
      expect(await isImmediate(backend.waitForJob().then(() => undefined))).toBe(true)
    }
  })
})

test('workers that step back find every job', async () => {
  const queue = makeQueue()
  const plain = new Queue<Charge>(fixture.namespace, { connection: connection() })
  fixture.defer(() => plain.close())
  for (let count = 0; count < 3; count++) await startWorker(() => pause(1))
  await queue.addBulk(line(100))
  for (let nr = 0; nr < 100; nr++) {
    await plain.add('charge', { customer: `other-${nr}`, nr })
    await pause(nr % 5)
  }
  await until('all are done', async () => (await queue.getCompletedCount()) === 200)
})
