/**
 * Every outage × what a worker does meanwhile: it starts, it has a running job and a waiting one,
 * it drains, it closes. Each ends within its limit, and no outage uses an attempt of a job.
 */
import { expect, it, vi } from 'vitest'
import { Job, Queue, type Worker } from 'bullmq'
import { systemClock, withinMs } from '../../src/clock.ts'
import { LockedQueue, LockedWorker, Redlock, silentLogger, type JobLease } from '../../src/index.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { hasQuorum, OUTAGES, strike, type Outage } from './outages.ts'

vi.setConfig({ testTimeout: 180_000 })

assertNoLeaks()
const fixture = useFleet({ masters: 5 })

/** Longer than the outage: a lease that is lost while its job runs uses an attempt. */
const LEASE_MS = 8_000
const DRAIN_MS = 300
/** What `bullmq-redlock work` allows on top of its `--drain-ms`. */
const GRACE_MS = 10_000
/** Long enough for a worker to start a job that it should not have started. */
const LOOK_MS = 1_000

interface Data {
  readonly resource: string
}

type Work = (job: Job<Data>, lease: JobLease) => Promise<void>

it.each(Object.entries<Outage>(OUTAGES))('%s', async (_name, outage) => {
  const { fleet, namespace } = fixture
  const connection = { url: fleet.queue.url }
  const queueNames = ['drained', 'closed', 'started'].map((each) => `${each}-${namespace}`)
  const [drainedQueue = '', closedQueue = '', startedQueue = ''] = queueNames
  const locks = { masters: fleet.urls, namespace, leaseMs: LEASE_MS, maxLeaseMs: LEASE_MS }
  const lockSettings = { ...locks, logger: silentLogger }
  const work = (queue: string, redlock: Redlock, processor: Work): LockedWorker<Data> => {
    const worker = new LockedWorker<Data>(queue, processor, {
      ...{ connection, redlock, logger: silentLogger },
      resource: ({ data }) => data.resource,
    })
    worker.on('error', () => undefined)
    fixture.defer(() => worker.close(true))
    return worker
  }
  const founder = await fixture.redlock({ leaseMs: LEASE_MS, maxLeaseMs: LEASE_MS })
  for (const queue of queueNames) {
    const locked = new LockedQueue<Data>(queue, {
      connection,
      resource: ({ resource }) => resource,
    })
    const data = { resource: queue }
    await locked.addBulk([
      { name: 'work', data, opts: { jobId: 'first' } },
      { name: 'work', data, opts: { jobId: 'second' } },
    ])
    await locked.close()
  }
  const released = fixture.gate()
  const redlock = await fixture.redlock({ leaseMs: LEASE_MS, maxLeaseMs: LEASE_MS })
  const running: string[] = []
  const draining = work(drainedQueue, redlock, async ({ queueName }, { signal }) => {
    running.push(queueName)
    throw (await aborted(signal)) as Error
  })
  const closing = work(closedQueue, founder, async ({ queueName }) => {
    running.push(queueName)
    await released.passed
  })
  await until('both run a job', () => running.length === 2)

  const heal = await strike(fixture, outage)

  const ran: string[] = []
  const late = fixture.closing(new Redlock(lockSettings))
  const starting = work(startedQueue, late, ({ id = '' }) => {
    ran.push(id)
    return Promise.resolve()
  })
  if (hasQuorum(outage) && outage.queue === undefined) {
    await until('a worker that starts runs its jobs', () => ran.length === 2)
  } else {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    expect(ran).toEqual([])
  }
  expect(running).toHaveLength(2)
  released.open()
  const tooLate = await Promise.all([
    overLimit(
      'drain',
      draining.drain({ timeoutMs: DRAIN_MS }).then(() => undefined),
    ),
    overLimit('close', closing.close()),
    overLimit('close of an idle worker', starting.close()),
  ])
  const locksTooLate = await Promise.all(
    [redlock, founder, late].map((one) => overLimit('redlock.close', one.close())),
  )
  expect([...tooLate, ...locksTooLate].flat()).toEqual([])

  await heal()
  const rescuer = fixture.closing(new Redlock(lockSettings))
  const rescued = queueNames.map((queue) => work(queue, rescuer, () => Promise.resolve()))
  const jobs = async (): Promise<readonly (Job | undefined)[]> => {
    const queues = rescued.map(({ name: queue }) => new Queue(queue, { connection }))
    const found = await Promise.all(
      queues.flatMap((queue) => ['first', 'second'].map((id) => Job.fromId(queue, id))),
    )
    await Promise.all(queues.map((queue) => queue.close()))
    return found
  }
  await until(
    'all jobs have ended',
    async () => (await jobs()).every((job) => job?.finishedOn !== undefined),
    90_000,
  )
  const attempts = (await jobs()).map((job) => [job?.failedReason, job?.attemptsMade])
  expect(attempts).toEqual(Array(6).fill([undefined, 1]))
  await closeAll(rescued)
})

/** The name of what did not end within its limit. */
async function overLimit(name: string, end: Promise<void>): Promise<readonly string[]> {
  const ended = await withinMs(
    systemClock,
    DRAIN_MS + GRACE_MS,
    end.then(() => true),
  )
  return ended === true ? [] : [name]
}

async function closeAll(workers: readonly Worker[]): Promise<void> {
  await Promise.all(workers.map((worker) => worker.close()))
}
