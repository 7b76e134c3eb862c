/**
 * What a LockedWorker does beyond order: one answer for an expensive job, checkpoints, slots,
 * breaker, drain.
 */
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { Job, JobsOptions } from 'bullmq'
import { describe, expect, test } from 'vitest'
import type {
  JobLease,
  LeasedProcessor,
  LockedQueue,
  LockedWorker,
  LockedWorkerOptions,
  Redlock,
  RedlockOptions,
} from '../../src/index.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import { ResultStore } from '../../src/worker/run/results.ts'
import { aborted, until, useFleet } from '../fixtures.ts'

interface Report {
  readonly of: string
  readonly nr?: number
}

const fixture = useFleet({ masters: 5 })
/** For longer than a test takes. */
const SHARED = { resultTtlMs: 60_000 }
/** For masters that come back empty, and vote one such lease later. */
const SHORT = { leaseMs: 1_000, maxLeaseMs: 1_000, masterTimeoutMs: 1_000 }

function makeQueue(slots = 1): LockedQueue<Report> {
  return fixture.lockedQueue<Report>({ resource: (data) => `report:${data.of}`, slots })
}

function work(
  redlock: Redlock,
  processor: LeasedProcessor<Report, unknown>,
  options: Partial<LockedWorkerOptions<Report>> = {},
): LockedWorker<Report> {
  const resource = (job: Job<Report>): string => `report:${job.data.of}`
  return fixture.lockedWorker<Report>(processor, { redlock, resource, concurrency: 5, ...options })
}

const many = (count: number, opts: JobsOptions = {}) =>
  Array.from({ length: count }, (_, nr) => ({ name: 'report', data: { of: 'delta', nr }, opts }))

async function allDone(queue: LockedQueue<Report>, count: number): Promise<void> {
  await until('all are done', async () => (await queue.getCompletedCount()) === count)
}

describe('dedupe', () => {
  test('a hundred duplicates of an expensive job are computed once, and all have the result', async () => {
    const queue = makeQueue()
    let computed = 0
    const processor = async (): Promise<unknown> => {
      computed++
      await pause(50)
      return { total: 42 }
    }
    const options = { dedupe: SHARED }
    for (let index = 0; index < 3; index++) work(await fixture.redlock(), processor, options)
    await queue.addBulk(many(100))
    await allDone(queue, 100)
    expect(computed).toBe(1)
    const results = (await queue.getCompleted()).map((job) => job.returnvalue as unknown)
    expect(results).toHaveLength(100)
    expect(results.every((result) => JSON.stringify(result) === '{"total":42}')).toBe(true)
  })

  test('a failure is not shared: the next in line tries', async () => {
    const queue = makeQueue()
    let computed = 0
    work(
      await fixture.redlock(),
      () => (++computed === 1 ? Promise.reject(new Error('no data')) : Promise.resolve('ok')),
      { dedupe: SHARED },
    )
    await queue.addBulk(many(4))
    await allDone(queue, 3)
    expect(computed).toBe(2)
    expect(await queue.getFailedCount()).toBe(1)
  })

  test('a `key` that throws fails its job alone; the lease that it was given is released', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const key = ({ data }: Job<Report>): string => {
      if (data.nr === 1) throw new Error('no key')
      return String(data.nr)
    }
    work(redlock, () => Promise.resolve('ok'), { dedupe: { ...SHARED, key }, concurrency: 1 })
    await queue.addBulk(many(3))
    await allDone(queue, 2)
    const [failed] = await queue.getFailed()
    expect([failed?.data.nr, failed?.failedReason]).toEqual([1, 'no key'])
    const isFree = (): boolean => redlock.status().leases === 0
    await until('no lease is held', isFree)
  })

  test('a stored result that is not JSON fails the job, and names the key to delete', async () => {
    const queue = makeQueue()
    work(await fixture.redlock(), () => Promise.resolve('ok'), { dedupe: SHARED })
    await queue.addBulk(many(1))
    await allDone(queue, 1)
    const client = fixture.redis()
    const [key = ''] = await client.keys(`bull:${fixture.namespace}:redlock:::result:*`)
    await client.hset(key, 'value:result', '{')
    await queue.addBulk(many(1))
    await until('it fails', async () => (await queue.getFailedCount()) === 1)
    const [failed] = await queue.getFailed()
    expect(failed?.failedReason).toBe(
      `The stored result in \`${key}\` is not JSON: delete this key`,
    )
  })

  test('a result is computed again when its time is over, and per key', async () => {
    const queue = makeQueue()
    let computed = 0
    work(await fixture.redlock(), () => Promise.resolve(++computed), {
      dedupe: { resultTtlMs: 150, key: (job) => `${job.data.of}:${job.name}` },
    })
    await queue.add('daily', { of: 'delta' })
    await queue.add('weekly', { of: 'delta' })
    await allDone(queue, 2)
    expect(computed).toBe(2)
    await pause(300)
    await queue.add('daily', { of: 'delta' })
    await allDone(queue, 3)
    expect(computed).toBe(3)
  })

  test('a result that is too large fails the job, and the error says what to do', async () => {
    const queue = makeQueue()
    const options = { dedupe: SHARED, maxValueBytes: 1_000 }
    work(await fixture.redlock(), () => Promise.resolve('x'.repeat(2_000)), options)
    const job = await queue.add('report', { of: 'delta' }, { attempts: 3 })
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    const failed = await queue.getJob(job.id ?? '')
    expect(failed?.failedReason).toMatch(
      /2002 bytes .* `maxValueBytes` \(1000\): store it elsewhere/,
    )
    // The next attempt would compute the same.
    expect(failed?.attemptsMade).toBe(1)
  })

  test('a result that JSON cannot hold fails the job, and is not computed again', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    let computed = 0
    work(redlock, () => Promise.resolve(BigInt(++computed)), { dedupe: SHARED })
    const job = await queue.add('report', { of: 'delta' }, { attempts: 3 })
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    const failed = await queue.getJob(job.id ?? '')
    expect(failed?.failedReason).toMatch('result of `result` cannot be kept as JSON')
    expect(computed).toBe(1)
  })

  test('a result is not shared with another queue, job name, or list of resources', async () => {
    const redlock = await fixture.redlock()
    const computed: string[] = []
    const add = async (name: string, job: string, resource: string | string[]): Promise<void> => {
      const queue = fixture.plainQueue(name)
      const worker = fixture.lockedWorker(
        ({ queueName }: Job) => Promise.resolve(computed.push(queueName)),
        { redlock, resource: () => resource, dedupe: SHARED },
        name,
      )
      await queue.add(job, {})
      await until('it is done', async () => (await queue.getCompletedCount()) === 1)
      await worker.close()
      await queue.obliterate()
    }
    const [first, second] = [`${fixture.namespace}-1`, `${fixture.namespace}-2`]
    await add(first, 'daily', 'a')
    await add(second, 'daily', 'a')
    await add(second, 'weekly', 'a')
    await add(second, 'weekly', ['a', 'b'])
    await add(second, 'weekly', 'a + b')
    expect(computed).toEqual([first, second, second, second, second])
    await add(second, 'weekly', ['b', 'a'])
    await add(first, 'daily', 'a')
    expect(computed).toHaveLength(5)
  })
})

describe('a stored result', () => {
  const holder = (fencingToken: number, ...resources: string[]) => ({
    ...{ resource: resources.join(' + '), resources, fencingToken },
  })

  test('an older holder cannot overwrite what a later one has claimed', async () => {
    const results = new ResultStore(LineBackend.of(makeQueue()), 1_000)
    const older = holder(1_700_000_000_000_001, 'r')
    const later = holder(1_700_000_000_000_002, 'r')
    await results.keep('store', older, 60_000, 'old')
    expect((await results.claimAll('store', later, 60_000)).get('result')).toBe('old')
    await expect(results.keep('store', older, 60_000, 'stale')).rejects.toThrow(/is lost/)
    await expect(results.claimAll('store', older, 60_000)).rejects.toThrow(/is lost/)
    await results.keep('store', later, 60_000, 'new')
    expect((await results.claimAll('store', later, 60_000)).get('result')).toBe('new')
  })

  test('tokens of two slots, or of two resources, are not compared', async () => {
    const results = new ResultStore(LineBackend.of(makeQueue()), 1_000)
    const holders = [holder(3, 'r'), holder(2, 'r#2'), holder(1, 's')]
    for (const each of holders) await results.claimAll('store', each, 60_000)
    for (const each of holders) await results.keep('store', each, 60_000, each.resource)
    expect((await results.claimAll('store', holder(3, 'r'), 60_000)).get('result')).toBe('s')
  })

  test('is as old as its own computation, whatever another slot began later', async () => {
    const queue = makeQueue(2)
    const results = new ResultStore(LineBackend.of(queue), 1_000)
    await results.claimAll('store', holder(1, 'r'), 60_000)
    const { id = '', timestamp } = await queue.add('report', { of: 'delta' })
    await results.claimAll('store', holder(1, 'r#2'), 60_000)
    await results.keep('store', holder(1, 'r'), 60_000, 'old')
    const asker = { line: 'report:delta', id, timestamp: String(timestamp) }
    expect(await results.peek('store', asker)).toBeUndefined()
    await results.keep('store', holder(1, 'r#2'), 60_000, 'new')
    expect(await results.peek('store', asker)).toEqual({ value: 'new' })
  })

  test('with `fresh`, it is not given to a job of a plain queue that was added later', async () => {
    const plain = fixture.plainQueue<Report>()
    let computed = 0
    const dedupe = { ...SHARED, fresh: true }
    work(await fixture.redlock(), () => Promise.resolve(++computed), { dedupe })
    for (const nr of [1, 2]) {
      await plain.add('report', { of: 'delta' })
      await until('it is done', async () => (await plain.getCompletedCount()) === nr)
    }
    expect(computed).toBe(2)
  })

  test('with `fresh`, it is not given to a job that was moved to the front', async () => {
    const queue = fixture.lockedQueue<Report>({ resource: () => 'delta', within: 'priority' })
    let computed = 0
    const gate = fixture.gate()
    const processor = async (): Promise<number> => {
      if (++computed === 1) await gate.passed
      return computed
    }
    const dedupe = { ...SHARED, fresh: true }
    work(await fixture.redlock(), processor, { dedupe })
    await queue.add('report', { of: 'delta' })
    await until('it computes', () => computed === 1)
    const second = await queue.add('report', { of: 'delta' }, { priority: 2 })
    await second.changePriority({ priority: 1, lifo: true })
    gate.open()
    await allDone(queue, 2)
    expect(computed).toBe(2)
  })

  test.each([
    ['slots', 3, undefined, ['delta', 'delta', 'delta', 'delta']],
    ['one key over several resources', 1, 'one', ['a', 'b', 'c', 'd']],
    ['both', 3, 'one', ['a', 'a', 'a', 'b']],
  ])('with %s, jobs that run at once compute it once', async (_what, slots, key, of) => {
    const queue = makeQueue(slots)
    let computed = 0
    const processor = async (): Promise<number> => {
      await pause(200)
      return ++computed
    }
    const dedupe = { ...SHARED, ...(key !== undefined && { key: () => key }) }
    for (let nr = 0; nr < 2; nr++) work(await fixture.redlock(), processor, { slots, dedupe })
    await queue.addBulk(of.map((each) => ({ name: 'report', data: { of: each } })))
    await allDone(queue, of.length)
    expect(computed).toBe(1)
    expect(await queue.getFailedCount()).toBe(0)
  })

  test('one that is given up keeps no other from computing it', async () => {
    const queue = makeQueue(2)
    let calls = 0
    const processor = async (): Promise<number> => {
      if (++calls === 1) await fixture.gate().passed
      return 7
    }
    const redlock = await fixture.redlock(SHORT)
    const dedupe = { ...SHARED, key: () => 'one' }
    work(redlock, processor, { slots: 2, dedupe, maxHoldMs: 1_000 })
    await queue.addBulk([
      { name: 'report', data: { of: 'a' } },
      { name: 'report', data: { of: 'b' } },
    ])
    await until('one has failed, one completed', async () => {
      const { failed = 0, completed = 0 } = await queue.getJobCounts('failed', 'completed')
      return failed === 1 && completed === 1
    })
  })
})

describe('checkpoints', () => {
  test('a completed step is not run again when the job is retried, and they go with the job', async () => {
    const queue = makeQueue()
    const ran: string[] = []
    work(
      await fixture.redlock(),
      async (job, lease) => {
        const loaded = await lease.step('load', () => {
          ran.push('load')
          return { invoice: 7 }
        })
        await lease.step('charge', () => {
          ran.push('charge')
          if (job.attemptsMade === 0) throw new Error('card declined')
        })
        return loaded
      },
      { checkpoints: true },
    )
    const job = await queue.add('report', { of: 'delta' }, { attempts: 2 })
    await allDone(queue, 1)
    expect(ran).toEqual(['load', 'charge', 'charge'])
    expect((await queue.getJob(job.id ?? ''))?.returnvalue).toEqual({ invoice: 7 })
    const redis = fixture.redis()
    const left = `bull:${fixture.namespace}:redlock:::steps:*`
    await until('no result is kept', async () => (await redis.keys(left)).length === 0)
  })

  test('160 steps of 100 kB travel once when they are done, and once when they are read', async () => {
    const [steps, bytes] = [160, 100_000]
    const queue = makeQueue()
    const client = fixture.redis()
    const travelled = async (): Promise<number> => {
      const stats = await client.info('stats')
      const numbers = stats.matchAll(/^total_net_(?:in|out)put_bytes:(\d+)/gm)
      return [...numbers].reduce((sum, [, count]) => sum + Number(count), 0)
    }
    const ran: number[] = []
    work(
      // A job that loses its lease on a busy machine reads its results once more.
      await fixture.redlock({ leaseMs: 15_000, maxLeaseMs: 15_000 }),
      async ({ attemptsMade }, lease) => {
        for (let step = 0; step < steps; step++) {
          await lease.step(`step ${step}`, () => (ran.push(step), 'x'.repeat(bytes)))
        }
        if (attemptsMade === 0) throw new Error('once more')
      },
      { checkpoints: true },
    )
    const before = await travelled()
    await queue.add('report', { of: 'delta' }, { attempts: 2 })
    await allDone(queue, 1)
    expect(ran).toHaveLength(steps)
    expect(await travelled()).toBeLessThan(before + 2.5 * steps * bytes)
  })

  test('a step name may be used once in a job', async () => {
    const queue = makeQueue()
    const twice = async (_job: unknown, lease: JobLease): Promise<void> => {
      await lease.step('load', () => 1)
      await lease.step('load', () => 2)
    }
    work(await fixture.redlock(), twice, { checkpoints: true })
    const job = await queue.add('report', { of: 'delta' })
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    expect((await queue.getJob(job.id ?? ''))?.failedReason).toMatch(/`load` runs twice/)
  })

  test('a step gives the same the first time as from its checkpoint: JSON', async () => {
    const queue = makeQueue()
    const seen: unknown[] = []
    const load = async (_job: unknown, lease: JobLease): Promise<void> => {
      seen.push(await lease.step('load', () => ({ at: new Date(0), none: undefined })))
      if (seen.length === 1) throw new Error('after the step')
    }
    work(await fixture.redlock(), load, { checkpoints: true })
    await queue.add('report', { of: 'delta' }, { attempts: 2 })
    await allDone(queue, 1)
    expect(seen).toEqual([{ at: '1970-01-01T00:00:00.000Z' }, { at: '1970-01-01T00:00:00.000Z' }])
  })

  test('a step whose name does not come back from Redis is refused: it would run again', async () => {
    const queue = makeQueue()
    const names = ['', 'half a pair: \ud83d', 7, undefined]
    const nameless = (_job: unknown, lease: JobLease): Promise<unknown> =>
      Promise.all(
        names.map(async (name) => {
          const step = async (): Promise<number> => lease.step(name as string, () => 1)
          await expect(step()).rejects.toThrow(/Expected `name` to be that of a step/)
        }),
      )
    work(await fixture.redlock(), nameless, { checkpoints: true })
    await queue.add('report', { of: 'delta' })
    await allDone(queue, 1)
  })

  test('an older run cannot overwrite what a later one has claimed', async () => {
    const queue = makeQueue()
    const results = new ResultStore(LineBackend.of(queue), 1_000)
    const { id: jobId = '' } = await queue.add('report', { of: 'delta' })
    const client = fixture.redis()
    const run = async (lock: string): Promise<{ jobId: string; lock: string }> => {
      await client.set(`bull:${queue.name}:${jobId}:lock`, lock)
      return { jobId, lock }
    }
    const older = await run('older')
    await results.claimAll('store', older, 60_000)
    await results.keep('store', older, 60_000, 'old', 'step')
    const later = await run('later')
    expect((await results.claimAll('store', later, 60_000)).get('step')).toBe('old')
    await expect(results.keep('store', older, 60_000, 'stale', 'step')).rejects.toThrow(/was lost/)
    await expect(results.claimAll('store', older, 60_000)).rejects.toThrow(/was lost/)
    await results.keep('store', later, 60_000, 'new', 'step')
    expect((await results.claimAll('store', later, 60_000)).get('step')).toBe('new')
  })

  test('a job that is retried on another slot goes on where it stopped', async () => {
    const queue = makeQueue(2)
    const ran: string[] = []
    const tokens: number[] = []
    const redlock = await fixture.redlock()
    work(
      redlock,
      async (job, lease) => {
        tokens.push(lease.fencingToken)
        await lease.step('load', () => ran.push('load'))
        if (job.attemptsMade === 0) throw new Error('once more')
        await lease.step('charge', () => ran.push('charge'))
      },
      { checkpoints: true, slots: 2 },
    )
    // The counter of one slot is far ahead of the other.
    for (let index = 0; index < 5; index++) {
      const lease = await redlock.acquire('report:delta', { slots: 2, waitMs: 2_000 })
      await lease.release()
    }
    await queue.addBulk(many(6, { attempts: 2 }))
    await allDone(queue, 6)
    expect(ran.filter((step) => step === 'load')).toHaveLength(6)
    expect(ran.filter((step) => step === 'charge')).toHaveLength(6)
  })
})

describe('slots', () => {
  test('a result is shared by the jobs of all slots, also while all slots are held', async () => {
    const queue = makeQueue(2)
    const redlock = await fixture.redlock()
    let computed = 0
    const processor = (): Promise<number> => Promise.resolve(++computed)
    work(redlock, processor, { slots: 2, dedupe: SHARED })
    await queue.addBulk(many(1))
    await allDone(queue, 1)
    const held = await Promise.all(
      [1, 2].map(() => redlock.acquire('report:delta', { slots: 2, waitMs: 2_000 })),
    )
    await queue.addBulk(many(1))
    await allDone(queue, 2)
    expect(computed).toBe(1)
    await Promise.all(held.map((lease) => lease.release()))
  })
})

describe('the breaker', () => {
  /** A worker that has a quorum, and what its breaker has told. */
  async function warm(limits: Partial<RedlockOptions> = SHORT) {
    const queue = makeQueue()
    const worker = work(await fixture.redlock(limits), () => Promise.resolve('ok'))
    const states: string[] = []
    worker.on('breaker', (state) => states.push(state))
    await queue.add('report', { of: 'warm-up' })
    await allDone(queue, 1)
    return { queue, worker, states }
  }

  test('stops fetching without a quorum and continues by itself when it is back', async () => {
    // On a busy machine a master that lives may answer late.
    const limits = { leaseMs: 2_000, masterTimeoutMs: 2_000, maxLeaseMs: 2_000 }
    const { queue, worker, states } = await warm(limits)
    let requeues = 0
    worker.on('requeued', () => requeues++)
    const down = fixture.fleet.masters.slice(0, 3)
    for (const server of down) await server.kill()
    await queue.addBulk(
      Array.from({ length: 60 }, (_, nr) => ({ name: 'report', data: { of: `airline${nr}` } })),
    )
    await until('it is open', () => states.includes('open'))
    await pause(500)
    // Those that were already under way, not all sixty.
    expect(requeues).toBeLessThan(40)
    const waiting = await queue.getWaitingCount()
    expect(waiting).toBeGreaterThan(10)
    for (const server of down) await server.restart({ keepData: false })
    await allDone(queue, 61)
    expect(states).toEqual(['open', 'closed'])
    const jobs = await queue.getCompleted()
    expect(jobs.every((job) => job.attemptsMade === 1)).toBe(true)
  })

  test('masters that refused a moment ago are no fault when it continues', async () => {
    const { queue, worker, states } = await warm()
    const errors: string[] = []
    worker.on('error', ({ message }) => errors.push(message))
    const full = fixture.fleet.masters.slice(0, 3).map((master) => fixture.redis(master))
    for (const redis of full) await redis.config('SET', 'maxmemory', '1')
    await queue.add('report', { of: 'delta' })
    await until('it is open', () => states.includes('open'))
    await pause(1_000)
    for (const redis of full) await redis.config('SET', 'maxmemory', '0')
    await allDone(queue, 2)
    expect(states).toEqual(['open', 'closed'])
    expect(errors).toEqual([])
  })

  test('is open, and a pause waits for the jobs that run', async () => {
    const queue = makeQueue()
    const end = fixture.gate()
    let runs = 0
    const worker = work(await fixture.redlock(), async () => {
      runs++
      await end.passed
      runs--
    })
    await queue.add('report', { of: 'alpha' })
    await until('it runs', () => runs === 1)
    const opened = once(worker, 'breaker')
    const { masters } = fixture.fleet
    await Promise.all(masters.map((master) => master.freeze()))
    await queue.add('report', { of: 'delta' })
    await opened
    const atPause = worker.pause().then(() => runs)
    await Promise.all(masters.map((master) => master.thaw()))
    await pause(500)
    end.open()
    expect(await atPause).toBe(0)
  })

  test('does not resume a worker that its user paused', async () => {
    const { queue, worker, states } = await warm()
    const down = fixture.fleet.masters.slice(0, 3)
    for (const server of down) await server.kill()
    await queue.add('report', { of: 'delta' })
    await until('it is open', () => states.includes('open'))
    await worker.pause(true)
    for (const server of down) await server.restart({ keepData: false })
    await until('it is closed', () => states.includes('closed'))
    expect(worker.isPaused()).toBe(true)
    await worker.resume()
    await allDone(queue, 2)
  })
})

describe('drain', () => {
  test('stops them at its limit and requeues them in their place, without an attempt', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const started: number[] = []
    const endless = work(redlock, async (job, lease) => {
      started.push(job.data.nr ?? -1)
      await lease.step('forever', async ({ signal }) => {
        throw (await aborted(signal)) as Error
      })
    })
    await queue.addBulk(many(3, { attempts: 1 }))
    await until('the first runs', () => started.length === 1)
    await endless.drain({ timeoutMs: 50 })
    expect(redlock.status().leases).toBe(0)
    work(redlock, (job) => {
      started.push(job.data.nr ?? -1)
      return Promise.resolve('ok')
    })
    await allDone(queue, 3)
    expect(started).toEqual([0, 0, 1, 2])
    expect(await queue.getFailedCount()).toBe(0)
  })

  test.each([0, 5_000])(
    'requeues a job that still asks the lock masters (%i)',
    async (timeoutMs) => {
      const queue = makeQueue()
      const redlock = await fixture.redlock({ masterTimeoutMs: 2_000 })
      let started = false
      let asks = false
      const worker = work(redlock, () => {
        started = true
        return Promise.resolve('ok')
      })
      worker.on('active', () => (asks = true))
      await worker.waitUntilReady()
      await Promise.all(fixture.fleet.masters.map((master) => master.freeze()))
      const job = await queue.add('report', { of: 'delta' })
      await until('it asks', () => asks)
      const drained = worker.drain({ timeoutMs })
      await pause(50)
      await Promise.all(fixture.fleet.masters.map((master) => master.thaw()))
      await drained
      expect(started).toBe(false)
      expect(['delayed', 'waiting']).toContain(await job.getState())
      expect(redlock.status().leases).toBe(0)
    },
  )
})
