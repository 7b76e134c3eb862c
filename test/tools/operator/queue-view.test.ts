/** What an operator is shown of the queues of a server. */
import { Redis } from 'ioredis'
import { expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/clock.ts'
import { LockedQueue } from '../../../src/index.ts'
import { jobsUnder } from '../../../src/tools/operator/jobs.ts'
import { lineOf } from '../../../src/tools/operator/lines.ts'
import { FleetProbe } from '../../../src/tools/operator/fleet-probe.ts'
import { liveLeases } from '../../../src/tools/operator/live-leases.ts'
import { QueueView } from '../../../src/tools/operator/queue-view.ts'
import { standingJobs } from '../../../src/tools/operator/standing-jobs.ts'
import { useFleet } from '../../fixtures.ts'

const fixture = useFleet({ masters: 1 })

const free = (resource: string): Promise<{ resource: string; masters: [] }> =>
  Promise.resolve({ resource, masters: [] })

async function addOne(name: string, prefix: string): Promise<void> {
  const connection = { url: fixture.fleet.queue.url }
  const queue = new LockedQueue<object>(name, { connection, prefix, resource: () => 'order:meta' })
  fixture.defer(() => queue.close())
  await queue.add('charge', {})
}

test('a resource is found in each of its queues by one connection, and is no queue itself', async () => {
  const prefix = `p-${fixture.namespace}`
  const names = Array.from({ length: 60 }, (_, nr) => `q${nr + 10}`)
  for (const name of names) await addOne(name, prefix)
  await addOne('elsewhere', `${prefix}:nested`)
  const url = fixture.fleet.queue.url
  const view = fixture.closing(new QueueView(url, prefix, 5_000))
  const redis = new Redis(url)
  fixture.defer(() => redis.quit())
  const clients = async (): Promise<number> =>
    String(await redis.client('LIST'))
      .trim()
      .split('\n').length
  const before = await clients()

  expect(await view.places.names()).toEqual(names)
  const { entries } = await lineOf(view.places, 'order:meta', free)
  expect(entries.map(({ queue }) => queue)).toEqual(names)
  expect((await clients()) - before).toBe(1)
})

test('a lease names the job that has it, and not one of another queue that asks for it', async () => {
  const redlock = await fixture.redlock()
  const gate = fixture.gate()
  const [asking, having] = [`a-${fixture.namespace}`, `b-${fixture.namespace}`]
  for (const name of [having, asking]) {
    const queue = fixture.lockedQueue({ resource: () => 'r' }, name)
    const worker = fixture.lockedWorker(() => gate.passed, { redlock, resource: () => 'r' }, name)
    const active = new Promise((resolve) => worker.once('active', resolve))
    await queue.add('charge', {}, { jobId: 'first' })
    await active
  }
  const view = fixture.closing(new QueueView(fixture.fleet.queue.url, 'bull', 5_000))
  const { urls: masters } = fixture.fleet
  const fleet = new FleetProbe({ masters, namespace: fixture.namespace, timeoutMs: 5_000 })
  fixture.defer(() => {
    fleet.close()
  })
  for (let look = 0; look < 100; look++) {
    const { leases } = await liveLeases(fleet, { limit: 10 })
    const named = [...(await jobsUnder(view.places, leases)).values()].map(({ queue }) => queue)
    expect(named).toEqual([having])
  }
})

test("times are those of the queue's Redis, however wrong the operator's clock is", async () => {
  const queue = fixture.lockedQueue({ resource: () => 'r', maxLength: 1 })
  await queue.add('charge', {})
  await expect(queue.add('charge', {})).rejects.toThrow('is full')
  const plain = fixture.plainQueue()
  const { id = '' } = await plain.add('charge', {}, { delay: 600_000 })
  vi.spyOn(systemClock, 'wallNow').mockImplementation(() => Date.now() + 3_600_000)
  fixture.defer(() => {
    vi.restoreAllMocks()
  })
  const view = fixture.closing(new QueueView(fixture.fleet.queue.url, 'bull', 5_000))
  const { why } = (await view.explain(queue.name, id, free)) ?? {}
  expect(why).toContain(`Job ${id} (delayed) waits for its delay or backoff to end, at `)
  const { findings } = await standingJobs(view.places)
  const ofQueue = findings.filter(({ where }) => where === `queue ${queue.name}`)
  expect(ofQueue.map(({ code }) => code)).toContain('line-full')
})
