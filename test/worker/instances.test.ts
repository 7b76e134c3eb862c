/** What is kept about a job is kept about one instance of it: ids are used again. */
import { type Job, type JobsOptions } from 'bullmq'
import { describe, expect, test } from 'vitest'
import { cancelRequests } from '../../src/line/cancel.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import { disconnectNow } from '../../src/line/queue-connection.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { chargesOf, type Charge } from '../support/locked-jobs.ts'

const fixture = useFleet({ masters: 3 })
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const { makeQueue, work } = chargesOf(fixture)

describe('checkpoints', () => {
  test.each<[string, JobsOptions]>([
    ['another time', {}],
    ['the same time', { timestamp: 1 }],
  ])('are not those of an earlier job with the same id and %s', async (_what, opts) => {
    const queue = makeQueue()
    const charged: string[] = []
    let isBroken = true
    await work(
      async ({ data }, lease) => {
        await lease.step('charge', () => charged.push(data.customer))
        if (isBroken) throw new Error('the printer is out of paper')
      },
      { checkpoints: true },
    )
    const add = (customer: string): Promise<Job<Charge>> =>
      queue.add('invoice', { customer }, { jobId: 'invoice', ...opts })
    const first = await add('a')
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    await first.remove()
    isBroken = false
    await add('b')
    await until('it is done', async () => (await queue.getCompletedCount()) === 1)
    expect(charged).toEqual(['a', 'b'])
  })

  test('are not those of an earlier job that still works without its lock', async () => {
    const queue = makeQueue()
    const ran: string[] = []
    const gate = fixture.gate()
    await work(
      async ({ data }, lease) => {
        await lease.step('load', () => ran.push(`load ${data.customer}`))
        if (data.customer === 'a') await gate.passed
        await lease.step('charge', () => ran.push(`charge ${data.customer}`))
        return 'done'
      },
      { checkpoints: true },
    )
    await queue.add('invoice', { customer: 'a' }, { jobId: 'invoice' })
    await until('it runs', () => ran.length === 1)
    // By hand: neither BullMQ nor ours removes a job that is locked.
    const key = `bull:${fixture.namespace}`
    await fixture.redis().del(`${key}:invoice:lock`, `${key}:invoice`)
    await fixture.redis().lrem(`${key}:active`, 0, 'invoice')
    await queue.add('invoice', { customer: 'b' }, { jobId: 'invoice' })
    await until('the other is done', async () => (await queue.getCompletedCount()) === 1)
    gate.open()
    await pause(100)
    expect(ran.filter((what) => what.endsWith('b'))).toEqual(['load b', 'charge b'])
  })
})

describe('the steps of a job', () => {
  const steps = (): Promise<string[]> =>
    fixture.redis().keys(`bull:${fixture.namespace}:redlock:::steps:*`)
  const charge = async (opts: JobsOptions, fails: boolean): Promise<Job<Charge> | undefined> => {
    const queue = makeQueue()
    const worker = await work(
      async (_, lease) => {
        await lease.step('charge', () => 'charged')
        if (fails) throw new Error('the printer is out of paper')
      },
      { checkpoints: true },
    )
    // No later trip could be made.
    worker.prependListener('completed', () => {
      disconnectNow(LineBackend.of(worker))
    })
    const { id = '' } = await queue.add('invoice', { customer: 'a' }, opts)
    const ended = async (): Promise<boolean> => {
      const counts = await queue.getJobCounts('completed', 'failed')
      return counts['completed'] === 1 || counts['failed'] === 1 || !(await queue.getJob(id))
    }
    await until('it has ended', ended)
    return queue.getJob(id)
  }

  test('end in the trip that completes it: a crash leaves none for a retry', async () => {
    await charge({}, false)
    expect(await steps()).toEqual([])
  })

  test('end when it fails and is not kept', async () => {
    expect(await charge({ removeOnFail: true }, true)).toBeUndefined()
    expect(await steps()).toEqual([])
  })

  test.each(['trims it', 'is cleaned of it'])('end when the queue %s', async (how) => {
    const queue = makeQueue()
    const opts = how === 'trims it' ? { removeOnFail: { count: 1 } } : {}
    await work(
      async (_, lease) => {
        await lease.step('charge', () => 'charged')
        throw new Error('the printer is out of paper')
      },
      { checkpoints: true },
    )
    const first = await queue.add('invoice', { customer: 'a' }, opts)
    await until('it has failed', () => first.isFailed())
    if (how !== 'trims it') await queue.clean(0, 10, 'failed')
    const second = await queue.add('invoice', { customer: 'a' }, opts)
    await until('the other has failed', () => second.isFailed())
    expect(await queue.getJob(first.id ?? '')).toBeUndefined()
    expect(await steps()).toEqual([expect.stringMatching(`:${second.id ?? ''}$`)])
  })

  test('stay when it fails, and end when it is removed', async () => {
    const failed = await charge({}, true)
    expect(await steps()).toHaveLength(1)
    await failed?.remove()
    expect(await steps()).toEqual([])
  })
})

describe('a job that another program deletes while it runs', () => {
  test('keeps no steps, and comes back as nothing', async () => {
    const queue = makeQueue()
    const errors: unknown[] = []
    const ended: string[] = []
    let runs = 0
    const key = (id = ''): string => `bull:${fixture.namespace}:${id}`
    const worker = await work(
      async ({ id }, lease) => {
        runs += 1
        await fixture.redis().del(key(id))
        await lease
          .step('charge', () => ended.push('a step'))
          .catch((error: unknown) => errors.push(error))
      },
      { checkpoints: true },
    )
    worker.on('error', () => ended.push('its run'))
    const { id } = await queue.add('invoice', { customer: 'a' })
    await until('it ended', () => ended.length > 0)
    expect(errors).toMatchObject([{ name: 'JobLockLostError' }])
    // What it reports of its run may come twice.
    expect(ended).not.toContain('a step')
    expect(runs).toBe(1)
    expect(await fixture.redis().exists(key(id))).toBe(0)
  })
})

describe('a request to cancel', () => {
  test('ends with the run that it was for', async () => {
    const queue = makeQueue()
    let runs = 0
    const stopped: unknown[] = []
    await work(async (_job, lease) => {
      void aborted(lease.signal).then((reason) => stopped.push(reason))
      // It fails before it is asked to stop.
      if (++runs === 1) await until('it is cancelled', isRequested).then(fail)
      await pause(1_200)
    })
    const fail = (): never => {
      throw new Error('declined')
    }
    const isRequested = async (): Promise<boolean> =>
      (await fixture.redis().exists(`bull:${fixture.namespace}:redlock:::cancelled`)) === 1
    const job = await queue.add('invoice', { customer: 'a' })
    await until('it runs', () => runs === 1)
    expect(await queue.cancel(job.id ?? '', { timeoutMs: 0 })).toMatchObject([
      { outcome: 'running' },
    ])
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    stopped.length = 0
    await job.retry('failed', { resetAttemptsMade: true, resetAttemptsStarted: true })
    await until('it is done', async () => (await queue.getCompletedCount()) === 1)
    expect(stopped).toEqual([])
  })

  test('is one of several at once, each with its own answer', async () => {
    const queue = makeQueue()
    const job = await queue.add('invoice', { customer: 'a' }, { delay: 60_000 })
    const answers = await Promise.all([1, 2, 3].map(() => queue.cancel(job.id ?? '')))
    const outcomes = answers.map(([answer]) => answer?.outcome).sort()
    expect(outcomes).toEqual(['failed', 'finished', 'finished'])
  })

  test('reaches a worker of more jobs than a script can name at once, and goes with its run', async () => {
    const queue = makeQueue()
    await work(async (_job, lease) => {
      throw (await aborted(lease.signal)) as Error
    })
    const { id = '' } = await queue.add('invoice', { customer: 'a' })
    await until('it runs', async () => (await queue.getActiveCount()) === 1)
    const lines = LineBackend.of(queue)
    const isStopping = queue.cancel(id)
    const others = Array.from({ length: 9_000 }, (_, nr) => `other ${nr}`)
    await until('it is asked to stop', async () => {
      const requests = await cancelRequests(lines, [...others, id])
      return requests.some(([jobId]) => jobId === id)
    })
    expect(await isStopping).toMatchObject([{ outcome: 'stopped' }])
    expect(await fixture.redis().exists(`bull:${fixture.namespace}:redlock:::cancelled`)).toBe(0)
  })
})

describe('a job', () => {
  test('has its place though one of another queue with its id and time is removed', async () => {
    const queue = makeQueue()
    const opts = { jobId: 'second', timestamp: 1 }
    await queue.add('first', { customer: 'a' })
    await queue.add('second', { customer: 'a' }, opts)
    const parent = await queue.add('parent', { customer: 'b' })
    // Names that are as long.
    const name = `u${fixture.namespace.slice(1)}`
    const resource = ({ customer }: Charge): string => customer
    const children = fixture.lockedQueue<Charge>({ resource }, name)
    const to = { id: parent.id ?? '', queue: parent.queueQualifiedName }
    await children.add('child', { customer: 'a' }, { ...opts, parent: to })
    await parent.remove()
    expect(await children.getJob('second')).toBeUndefined()
    expect(await fixture.redis().keys(`bull:${name}:redlock:::line:*`)).toEqual([])
    const ran: string[] = []
    await work(({ name: ended }) => Promise.resolve(ran.push(ended)))
    await until('both ran', () => ran.length === 2, 5_000)
    expect(ran).toEqual(['first', 'second'])
  })

  test('has no place of an earlier one with its id', async () => {
    const queue = makeQueue()
    const ran: string[] = []
    const gate = fixture.gate()
    await work(async ({ name }) => {
      ran.push(name)
      if (name === 'first') await gate.passed
    })
    await queue.add('first', { customer: 'a' })
    await queue.add('second', { customer: 'a' }, { jobId: 'again' })
    await queue.add('third', { customer: 'a' })
    await until('the first runs', () => ran.length === 1)
    await fixture.redis().del(`bull:${fixture.namespace}:again`)
    await fixture.redis().zrem(`bull:${fixture.namespace}:delayed`, 'again')
    const plain = fixture.plainQueue<Charge>()
    await plain.add('fourth', { customer: 'a' }, { jobId: 'again' })
    await until('it is in line', async () => (await queue.position('again')) !== undefined)
    gate.open()
    await until('all are done', async () => (await queue.getCompletedCount()) === 3)
    expect(ran).toEqual(['first', 'third', 'fourth'])
  })

  test.each<[string, unknown]>([
    ['a fraction', performance.timeOrigin + performance.now()],
    ['a small fraction', 0.5],
    ['0', 0],
    ['a negative number', -1],
    ['a time in the future', Date.now() + 3_600_000],
    ['more digits than an integer has', 1.5e21],
    ['a text', '1764130000000'],
    ['a text that is no number', 'noon'],
  ])('whose `timestamp` is %s runs in its line', async (_what, timestamp) => {
    const opts = { timestamp: timestamp as number }
    const queue = makeQueue()
    const plain = fixture.plainQueue<Charge>()
    const ran: string[] = []
    await queue.add('first', { customer: 'a' }, opts)
    await plain.add('second', { customer: 'a' }, opts)
    await queue.add('third', { customer: 'a' }, opts)
    const requeued: string[] = []
    const worker = await work(({ name }) => Promise.resolve(ran.push(name)), { concurrency: 1 })
    worker.on('requeued', ({ name }) => requeued.push(name))
    await until('all are done', async () => (await queue.getCompletedCount()) === 3, 5_000)
    expect(ran[0]).toBe('first')
    expect(requeued.length).toBeLessThan(3)
  })

  test('whose data are gone is dealt with once, and does not wait for good', async () => {
    const queue = makeQueue()
    const jobs = await Promise.all(
      [1, 2, 3, 4].map((nr) => queue.add('invoice', { customer: `c${nr % 2}` })),
    )
    const keys = jobs.map(({ id }) => `bull:${fixture.namespace}:${id ?? ''}`)
    await fixture.redis().del(...keys)
    const starts = async (): Promise<number> => {
      const found = await Promise.all(keys.map((key) => fixture.redis().hget(key, 'ats')))
      return found.reduce((sum, ats) => sum + Number(ats), 0)
    }
    await work(() => Promise.resolve('done'), { resource: () => 'c1' })
    await until('none waits', async () => {
      const { waiting, active, delayed } = await queue.getJobCounts()
      return [waiting, active, delayed].every((count) => count === 0)
    })
    await pause(500)
    expect(await starts()).toBeLessThanOrEqual(4)
  })
})
