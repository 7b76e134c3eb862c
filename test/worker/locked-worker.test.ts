import type { Job, Queue } from 'bullmq'
import { DelayedError, WaitingError, Worker, type JobsOptions, type WorkerOptions } from 'bullmq'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import type { LockedWorker } from '../../src/index.ts'
import {
  type LeaseLostError,
  JobLockLostError,
  lockedProcessor,
  type JobLease,
  type LeasedProcessor,
  type LockedWorkerOptions,
  type Redlock,
} from '../../src/index.ts'
import { jobRuns } from '../../src/worker/locked-processor.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import { messageOf } from '../../src/message-of.ts'
import { aborted, granted, until, useFleet } from '../fixtures.ts'

interface Charge {
  readonly customer: number
}
type ChargeQueue = Queue<Charge, unknown>

const fixture = useFleet({ masters: 5 })
/** For masters that come back empty, and vote one such lease later. */
const SHORT = { leaseMs: 1_000, maxLeaseMs: 1_000, masterTimeoutMs: 1_000 }
const resource = (job: { data: Charge }): string => `customer:${job.data.customer}`

function makeQueue(): ChargeQueue {
  return fixture.plainQueue()
}

function work(
  redlock: Redlock,
  processor: LeasedProcessor<Charge, unknown>,
  options: Partial<LockedWorkerOptions<Charge>> = {},
): LockedWorker<Charge> {
  return fixture.lockedWorker<Charge>(processor, { redlock, resource, ...options })
}

async function add(
  queue: ChargeQueue,
  customer: number,
  options: JobsOptions = {},
): Promise<string> {
  const { id } = await queue.add('charge', { customer }, options)
  if (id === undefined) throw new Error('a job without an id')
  return id
}

async function ended(queue: ChargeQueue, id: string): Promise<string> {
  let state = ''
  await until(`job ${id} has ended`, async () => {
    state = await queue.getJobState(id)
    return state === 'completed' || state === 'failed'
  })
  return state
}

async function failure(queue: ChargeQueue, id: string): Promise<string> {
  expect(await ended(queue, id)).toBe('failed')
  return (await queue.getJob(id))?.failedReason ?? ''
}

/** Deletes a lease's keys behind its holder's back. */
async function forget(name: string): Promise<void> {
  for (const server of fixture.fleet.masters) {
    await fixture.redis(server).del(`${fixture.namespace}:lease:${name}`)
  }
}

describe('jobs of one resource', () => {
  test('run one at a time on several workers; others run beside them; none is lost', async () => {
    const queue = makeQueue()
    const inside = new Map<number, number>()
    let together = 0
    let atOnce = 0
    const processor = async ({ data }: { data: Charge }, lease: JobLease): Promise<string> => {
      inside.set(data.customer, (inside.get(data.customer) ?? 0) + 1)
      together = Math.max(together, inside.get(data.customer) ?? 0)
      atOnce = Math.max(
        atOnce,
        [...inside.values()].reduce((sum, n) => sum + n, 0),
      )
      await lease.step('load', () => pause(5))
      await lease.step('charge', () => pause(5))
      inside.set(data.customer, (inside.get(data.customer) ?? 0) - 1)
      return `${lease.resource} ${lease.fencingToken}`
    }
    const options = { concurrency: 6 }
    for (let index = 0; index < 3; index++) work(await fixture.redlock(), processor, options)
    await queue.addBulk(
      Array.from({ length: 60 }, (_, index) => ({ name: 'c', data: { customer: index % 6 } })),
    )
    await until('all are done', async () => (await queue.getCompletedCount()) === 60)
    expect(together).toBe(1)
    expect(atOnce).toBeGreaterThan(1)
    expect(await queue.getFailedCount()).toBe(0)
    const jobs = await queue.getCompleted()
    expect(new Set(jobs.map((job) => job.returnvalue)).size).toBe(60)
    expect(jobs.every((job) => job.attemptsMade === 1)).toBe(true)
  })

  test('wait without an attempt, and name the holder in their log', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock({ owner: 'somebody:1' })
    const lease = await granted(redlock, 'customer:1', { autoExtend: true })
    const requeues: string[] = []
    const worker = work(redlock, () => Promise.resolve('charged'))
    worker.on('requeued', (_job, requeue) => requeues.push(requeue.status))
    const id = await add(queue, 1, { attempts: 1 })
    await until('it was given back a few times', () => requeues.length >= 3)
    expect(new Set(requeues)).toEqual(new Set(['taken']))
    await lease.release()
    expect(await ended(queue, id)).toBe('completed')
    const job = await queue.getJob(id)
    expect(job?.attemptsMade).toBe(1)
    const { logs } = await queue.getJobLogs(id)
    expect(logs[0]).toMatch(/waits \d+ ms: `customer:1` is held by somebody:1/)
    // An option of `acquire`, which a worker does not have.
    expect(logs.join('\n')).not.toContain('waitMs')
    expect(logs.length).toBeLessThan(requeues.length + 1)
  })

  test('wait while the masters have no quorum, and continue when it is back', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock(SHORT)
    const reasons: string[] = []
    const worker = work(redlock, () => Promise.resolve('charged'))
    worker.on('requeued', (_job, requeue) => reasons.push(`${requeue.status} ${requeue.reason}`))
    await ended(queue, await add(queue, 1))
    const down = fixture.fleet.masters.slice(0, 3)
    for (const server of down) await server.kill()
    const id = await add(queue, 1, { attempts: 1 })
    await until('it was given back', () => reasons.length > 0)
    expect(reasons[0]).toMatch(/^unreachable .*Fewer than 3 of 5/)
    for (const server of down) await server.restart({ keepData: false })
    expect(await ended(queue, id)).toBe('completed')
  })
})

describe('a step', () => {
  test('extends the lease, passes the signal and the fencing token, and returns the result', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock({ leaseMs: 3_000 })
    const ends: number[] = []
    work(redlock, async (_job, lease) => {
      ends.push(lease.trustedUntil)
      await pause(0.2 * 3_000)
      return lease.step('charge', ({ signal, fencingToken }) => {
        ends.push(lease.trustedUntil)
        return [signal === lease.signal, fencingToken === lease.fencingToken, lease.currentStep]
      })
    })
    const id = await add(queue, 1)
    expect(await ended(queue, id)).toBe('completed')
    expect((await queue.getJob(id))?.returnvalue).toEqual([true, true, 'charge'])
    expect(ends[1]).toBeGreaterThan(ends[0] ?? Infinity)
  })

  test('does not start, and its result is not used, once the lease is lost', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const steps: string[] = []
    const lost: string[] = []
    const worker = work(redlock, async (job, lease) => {
      await lease.step('load', async ({ signal }) => {
        steps.push('load')
        await forget(resource(job))
        await aborted(signal)
      })
      await lease.step('charge', () => steps.push('charge'))
    })
    worker.on('leaseLost', (job, error) => lost.push(`${job.id ?? ''} ${error.code}`))
    const id = await add(queue, 1)
    expect(await failure(queue, id)).toMatch(/lease on `customer:1` .* is lost/)
    expect(steps).toEqual(['load'])
    expect(lost).toEqual([`${id} LEASE_LOST`])
  })
})

describe('the end of a job', () => {
  test('releases the lease on success and on failure, and keeps the error and the attempts', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock({ leaseMs: 20_000, maxLeaseMs: 20_000 })
    work(redlock, (job) =>
      job.attemptsMade === 0
        ? Promise.reject(new Error('card declined'))
        : Promise.resolve('charged'),
    )
    const retried = await add(queue, 1, { attempts: 2 })
    expect(await ended(queue, retried)).toBe('completed')
    const failed = await add(queue, 2)
    expect(await failure(queue, failed)).toBe('card declined')
    // Far less than what is left of a lease that was not released.
    await (await redlock.acquire('customer:1', { waitMs: 5_000 })).release()
    await (await redlock.acquire('customer:2', { waitMs: 5_000 })).release()
  })

  test('finished work stays finished when its lease was lost meanwhile, and the loss is reported', async () => {
    const queue = fixture.lockedQueue<Charge>({
      resource: ({ customer }) => `customer:${customer}`,
    })
    const redlock = await fixture.redlock({ leaseMs: 3_000 })
    const lost: (string | undefined)[] = []
    const tokens: number[] = []
    const worker = work(redlock, async (job, lease) => {
      tokens.push(lease.fencingToken)
      if (tokens.length === 1) {
        await forget(resource(job))
        await aborted(lease.signal)
      }
      return 'charged'
    })
    worker.on('leaseLost', (job) => lost.push(job.id))
    const first = await add(queue, 1, { attempts: 1 })
    const second = await add(queue, 1)
    expect(await ended(queue, second)).toBe('completed')
    const job = await queue.getJob(first)
    expect([job?.returnvalue, job?.failedReason, job?.attemptsMade]).toEqual([
      'charged',
      undefined,
      1,
    ])
    expect(lost).toEqual([first])
    expect(tokens[1]).toBeGreaterThan(tokens[0] ?? Infinity)
  })
})

describe('one signal', () => {
  test.each(['cancelJob', 'cancelAllJobs'] as const)(
    'aborts when a job that still asks the lock masters is cancelled: %s',
    async (how) => {
      const queue = makeQueue()
      const redlock = await fixture.redlock({ masterTimeoutMs: 2_000 })
      let asks = false
      const worker = work(redlock, (_job, lease) => {
        lease.signal.throwIfAborted()
        return Promise.resolve('charged')
      })
      worker.on('active', () => (asks = true))
      await worker.waitUntilReady()
      await Promise.all(fixture.fleet.masters.map((master) => master.freeze()))
      const id = await add(queue, 1)
      await until('it asks', () => asks)
      await pause(10)
      if (how === 'cancelAllJobs') worker.cancelAllJobs('customer left')
      else expect(worker.cancelJob(id, 'customer left')).toBe(true)
      await Promise.all(fixture.fleet.masters.map((master) => master.thaw()))
      expect(await failure(queue, id)).toBe('The job was cancelled: customer left')
      await until('it has ended', () => !worker.cancelJob(id))
    },
  )

  test.each(['its lease', 'a shared result'])(
    'ends a job that waits for %s: it does not go back, and run later',
    async (what) => {
      const queue = makeQueue()
      const redlock = await fixture.redlock()
      const gate = fixture.gate()
      const ran: string[] = []
      const processor = async (job: Job): Promise<void> => {
        ran.push(job.id ?? '')
        await gate.passed
      }
      const worker = work(redlock, processor, {
        ...{ concurrency: 2, burstMs: 10_000 },
        ...(what !== 'its lease' && { dedupe: { resultTtlMs: 60_000, key: () => 'one' } }),
      })
      let first: string | undefined
      if (what === 'its lease') await granted(await fixture.redlock(), 'customer:2')
      else first = await add(queue, 1)
      await until('it runs', () => first === undefined || ran.length === 1)
      const id = await add(queue, 2)
      await until('it waits', async () => (await queue.getJobState(id)) === 'active')
      await pause(50)
      expect(worker.cancelJob(id, 'customer left')).toBe(true)
      expect(await failure(queue, id)).toBe('The job was cancelled: customer left')
      gate.open()
      expect(ran).not.toContain(id)
    },
  )

  test('starts no job that is cancelled while it asks for its lease', async () => {
    const queue = makeQueue()
    let runs = 0
    const worker = work(await fixture.redlock(), () => Promise.resolve(runs++))
    await worker.waitUntilReady()
    const { masters } = fixture.fleet
    await Promise.all(masters.map((master) => master.freeze()))
    const id = await add(queue, 1)
    await until('it is here', () => worker.cancelJob(id, 'customer left'))
    await pause(50)
    await Promise.all(masters.map((master) => master.thaw()))
    expect(await failure(queue, id)).toBe('The job was cancelled: customer left')
    expect(runs).toBe(0)
  })

  test('reaches a run that goes on when its lock is lost, while another run of its job starts and ends', async () => {
    const queue = makeQueue()
    const id = await add(queue, 1)
    const { connection } = fixture
    const worker = fixture.closing(new Worker<Charge>(queue.name, null, { connection }))
    const job = await worker.getNextJob('token')
    const signals: AbortSignal[] = []
    const gate = fixture.gate()
    const runs = jobRuns<Charge, unknown, string>(
      await fixture.redlock(),
      { resource },
      async (_job, lease) => {
        signals.push(lease.signal)
        const reason = await aborted(lease.signal)
        await gate.passed
        throw reason
      },
    )
    const first = runs.run(job, 'token')
    await until('it runs', () => signals.length === 1)
    await expect(runs.run(job, 'token')).rejects.toThrow(DelayedError)
    expect(runs.options.visits.running.size).toBe(1)
    expect(runs.options.visits.cancel(id, 'customer left')).toBe(true)
    gate.open()
    await expect(first).rejects.toThrow(JobLockLostError)
    expect(runs.options.visits.running.size).toBe(0)
  })

  test("aborts when BullMQ's lock on the job is lost, in a LockedWorker and in a plain Worker", async () => {
    const redlock = await fixture.redlock()
    for (const kind of ['LockedWorker', 'plain']) {
      const name = `${fixture.namespace}-${kind}`
      const queue: ChargeQueue = fixture.plainQueue(name)
      const reasons: unknown[] = []
      const processor = async (_job: unknown, lease: JobLease): Promise<void> => {
        reasons.push(await aborted(lease.signal))
      }
      const options = { connection: fixture.connection, lockDuration: 400, skipStalledCheck: true }
      let worker: Worker<Charge, unknown>
      if (kind === 'plain') {
        const locked = lockedProcessor<Charge>(redlock, { resource }, processor)
        expect(locked.length).toBe(3)
        worker = fixture.closing(new Worker<Charge, unknown>(name, locked, options))
        locked.watch(worker)
      } else {
        worker = fixture.lockedWorker<Charge>(processor, { ...options, redlock, resource }, name)
      }
      worker.on('error', () => undefined)
      const id = await add(queue, 1)
      const client = fixture.redis()
      const lock = queue.toKey(`${id}:lock`)
      await until('the job is locked', async () => (await client.exists(lock)) === 1)
      await client.set(lock, 'another worker', 'PX', 60_000)
      await until('the job was stopped', () => reasons.length > 0)
      expect(reasons[0]).toBeInstanceOf(JobLockLostError)
    }
  })

  test('stops no job where another queue has one with the same id and the same processor', async () => {
    const redlock = await fixture.redlock()
    const end = fixture.gate()
    const signals: AbortSignal[] = []
    const processor = lockedProcessor<Charge>(redlock, { resource }, async (_, { signal }) => {
      signals.push(signal)
      await end.passed
    })
    const { connection, namespace } = fixture
    const ids: string[] = []
    for (const nr of [1, 2]) {
      const name = `${namespace}-${nr}`
      const queue: ChargeQueue = fixture.plainQueue(name)
      const worker = fixture.closing(new Worker<Charge>(name, processor, { connection }))
      processor.watch(worker)
      ids.push(await add(queue, nr))
      await until('it runs', () => signals.length === nr)
      // BullMQ tells it of a lock that is lost.
      if (nr === 2) worker.emit('lockRenewalFailed', ids)
    }
    expect(ids).toEqual(['1', '1'])
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true])
  })

  test('a plain worker that stood still does not repeat what another one has done', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const runs: string[] = []
    const workerOf = (worker: string, options: Partial<WorkerOptions>): Worker<Charge> => {
      const processor = lockedProcessor<Charge>(redlock, { resource }, () => {
        runs.push(worker)
        return Promise.resolve()
      })
      const times = { lockDuration: 500, stalledInterval: 200, ...options }
      const { connection, namespace } = fixture
      const made = new Worker<Charge>(namespace, processor, { connection, ...times })
      return fixture.closing(made.on('error', () => undefined))
    }
    const id = await add(queue, 1)
    const slow = workerOf('slow', { autorun: false, skipStalledCheck: true })
    const job = await slow.getNextJob('token')
    workerOf('other', {})
    await until('the other one has done it', () =>
      queue.getJobState(id).then((state) => state === 'completed'),
    )
    await slow.processJob(job, 'token', () => false)
    expect(runs).toEqual(['other'])
  })

  test('a start in vain gives back no token of a time of the rate limit that has ended', async () => {
    const queue = makeQueue()
    const gate = fixture.gate()
    let runs = 0
    const processor = (): Promise<void> => (runs++, gate.passed)
    const limiter = { max: 10, duration: 1_000 }
    const worker = work(await fixture.redlock(), processor, { limiter, autorun: false })
    const fetch = async (customer: number): Promise<Job<Charge>> => {
      await add(queue, customer)
      return worker.getNextJob('token', { block: false })
    }
    const first = worker.processJob(await fetch(1), 'token', () => false)
    await until('it runs', () => runs === 1)
    const second = await fetch(1)
    await pause(1.1 * limiter.duration)
    await fetch(2)
    await worker.processJob(second, 'token', () => false)
    expect(await fixture.redis().get(queue.toKey('limiter'))).toBe('1')
    gate.open()
    await first
  })

  test('aborts when its own worker is given the job again', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const reasons: unknown[] = []
    let runs = 0
    const processor = async (_job: unknown, lease: JobLease): Promise<void> => {
      if (runs++ === 0) reasons.push(await aborted(lease.signal))
    }
    // BullMQ would renew its lock in 25 s.
    const options = { lockDuration: 60_000, lockRenewTime: 50_000, stalledInterval: 100 }
    work(redlock, processor, { ...options, concurrency: 2 })
    const id = await add(queue, 1)
    await until('it runs', () => runs === 1)
    await fixture.redis().del(`bull:${fixture.namespace}:${id}:lock`)
    await until('it has run again', async () => (await queue.getCompletedCount()) === 1)
    expect([runs, reasons]).toEqual([2, [expect.any(JobLockLostError)]])
  })

  test('keeps the lock of a later run when an earlier one ends, which has moved itself', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    const [gate, moved] = [fixture.gate(), fixture.gate()]
    const told: string[] = []
    let runs = 0
    const processor = async (job: Job<Charge>, lease: JobLease): Promise<void> => {
      if (runs++ === 0) {
        await job.moveToWait(job.token)
        moved.open()
        await gate.passed
        throw new WaitingError()
      }
      await pause(2_500)
      told.push(lease.signal.aborted ? 'aborted' : 'held')
    }
    const options = { lockDuration: 1_000, stalledInterval: 200, concurrency: 2 }
    const worker = work(redlock, processor, options)
    let fetched = 0
    worker.on('active', () => fetched++)
    worker.on('stalled', (id) => told.push(`${id} has stalled`))
    await add(queue, 1)
    await moved.passed
    await until('it is given again', () => fetched === 2)
    gate.open()
    await until('it is done', async () => (await queue.getCompletedCount()) === 1, 10_000)
    expect(told).toEqual(['held'])
  })

  test('leaves its lease to a later run that its own worker was given', async () => {
    await fixture.undisturbed(async () => {
      const queue = makeQueue()
      const redlock = await fixture.redlock()
      const gate = fixture.gate()
      const startedAt: number[] = []
      let endedAt = NaN
      const worker = work(
        redlock,
        async () => {
          startedAt.push(performance.now())
          if (startedAt.length > 1) return
          await gate.passed
          endedAt = performance.now()
        },
        { concurrency: 2 },
      )
      let fetched = 0
      worker.on('active', () => fetched++)
      const id = await add(queue, 1)
      await until('it runs', () => startedAt.length === 1)
      const job = await queue.getJob(id)
      await job?.moveToWait()
      await until('it is given again', () => fetched === 2)
      gate.open()
      await until('it has run again', () => startedAt.length === 2)
      // The trip that ends the first run may take a second.
      expect((startedAt[1] ?? NaN) - endedAt).toBeLessThan(500)
    })
  })

  test('says that the lease was lost when I/O only says "aborted"', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    work(redlock, async (job, lease) => {
      await forget(resource(job))
      await aborted(lease.signal)
      throw new DOMException('This operation was aborted', 'AbortError')
    })
    expect(await failure(queue, await add(queue, 1))).toMatch(/is lost/)
  })
})

describe('a LockedWorker is a BullMQ Worker', () => {
  test.each<[how: string, move: (job: Job<Charge>) => Promise<unknown>]>([
    ['waits', (job) => job.moveToWait('by hand')],
    ['is delayed', (job) => job.moveToDelayed(Date.now() + 60_000, 'by hand')],
    ['fails, and is tried again', (job) => job.moveToFailed(new Error('x'), 'by hand', false)],
  ])('a job that was fetched by hand and %s is not kept in mind', async (_how, move) => {
    const worker = work(await fixture.redlock(), () => Promise.resolve(), { autorun: false })
    await add(makeQueue(), 1, { attempts: 2 })
    await move(await worker.getNextJob('by hand'))
    expect(LineBackend.of(worker).settings.visits?.byId.size).toBe(0)
  })

  test('a job of a scheduler that is fetched by hand: what the server refuses is said', async () => {
    const worker = work(await fixture.redlock(), () => Promise.resolve(), { autorun: false })
    const template = { name: 'charge', data: { customer: 1 } }
    await makeQueue().upsertJobScheduler('hourly', { every: 3_600_000 }, template)
    const lines = LineBackend.of(worker)
    const send = lines.sendTo.bind(lines)
    vi.spyOn(lines, 'sendTo').mockImplementation((client, script, ...rest) => {
      if (script.name !== 'updateJobScheduler') return send(client, script, ...rest)
      return Promise.reject(new Error('READONLY it is a replica now'))
    })
    await expect(worker.getNextJob('by hand')).rejects.toThrow('READONLY it is a replica now')
  })

  test('starts by itself when the masters come up after it', async () => {
    const queue = makeQueue()
    const down = fixture.fleet.masters.slice(0, 3)
    for (const server of down) await server.kill()
    const early = await fixture.redlock(SHORT).catch((e: unknown) => e)
    expect(String(early)).toContain('Fewer than 3 of 5')
    for (const server of down) await server.restart({ keepData: false })
    const redlock = await fixture.redlock(SHORT)
    const errors: string[] = []
    for (const server of down) await server.kill()
    await until(
      'the client sees it',
      () => redlock.status().masters.filter(({ state }) => state === 'connecting').length === 3,
    )
    const worker = work(redlock, () => Promise.resolve('ok'))
    worker.on('error', (error) => errors.push(String(error)))
    const id = await add(queue, 1)
    await until('it says what is wrong', () =>
      errors.some((error) => error.includes('Fewer than 3 of 5')),
    )
    for (const server of down) await server.restart({ keepData: false })
    expect(await ended(queue, id)).toBe('completed')
  })

  test('a lost lease counts as a failed attempt, and the job runs again', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    let runs = 0
    work(redlock, async (job, lease) => {
      runs++
      if (runs > 1) return 'second time'
      await forget(resource(job))
      throw (await aborted(lease.signal)) as LeaseLostError
    })
    const id = await add(queue, 1, { attempts: 2 })
    expect(await ended(queue, id)).toBe('completed')
    expect(runs).toBe(2)
  })
})

test('every command that a worker or a producer is told names the prefix of its queue', async () => {
  const prefix = 'other'
  const queue = fixture.lockedQueue<Charge>({
    ...{ prefix, maxLength: 1 },
    resource: (data) => resource({ data }),
  })
  await queue.pauseResource('customer:1')
  const { id = '' } = await queue.add('charge', { customer: 1 })
  const full = await queue.add('charge', { customer: 1 }).catch(messageOf)
  expect(full).toContain('`bullmq-redlock inspect --prefix other customer:1`')
  const redlock = await fixture.redlock()
  const worker = work(redlock, () => Promise.resolve(), { prefix, autorun: false })
  const resume = `\`bullmq-redlock resume --prefix other ${queue.name} customer:1\``
  expect(await worker.why(id)).toContain(resume)
  expect((await worker.inspect('customer:1')).line[0]?.waitsFor).toContain(resume)

  await queue.resumeResource('customer:1')
  await granted(redlock, 'customer:1')
  work(redlock, () => Promise.resolve(), { prefix, maxWaitMs: 200 })
  const plain = fixture.plainQueue<Charge>(queue.name, { prefix })
  await until('the job waited too long', async () => (await plain.getJobState(id)) === 'failed')
  const late = (await plain.getJob(id))?.failedReason
  expect(late).toContain('`bullmq-redlock inspect --prefix other customer:1`')
})

test('why() of a job that fails while it is asked says what it failed with', async () => {
  const queue = makeQueue()
  const declined = (): Promise<never> => Promise.reject(new Error('card declined'))
  const worker = work(await fixture.redlock(), declined, { autorun: false })
  const id = await add(queue, 1)
  const lines = LineBackend.of(worker)
  const getState = lines.getState.bind(lines)
  lines.getState = async (jobId) => {
    void worker.run()
    await failure(queue, id)
    return getState(jobId)
  }
  expect(await worker.why(id)).toContain(`Job ${id} has failed: card declined. To try it again`)
})
