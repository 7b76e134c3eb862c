/** Clocks that are wrong change neither the order of a line nor who serves it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Worker, type Job } from 'bullmq'
import { writeFileSync } from 'node:fs'
import { LockedQueue, LockedWorker, ShardedQueue, silentLogger } from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { Program } from '../workers/program.ts'
import { compileShim, type ClockShim, type ShimmedClock } from '../faults/shimmed-clock.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { ask } from '../support/ask.ts'
import { cli } from '../tools/cli/run-cli.ts'
import { fleetEnv } from '../support/fleet-env.ts'

const HOUR_MS = 3_600_000
const answer = await compileShim()
const reason = answer.status === 'absent' ? answer.reason : ''

describe.skipIf(answer.status === 'absent')(`with wrong clocks ${reason}`, () => {
  const fixture = useFleet({ masters: 1 })
  let server: TestServer
  let shim: ClockShim
  /** Of the queue's server. */
  let clock: ShimmedClock

  beforeAll(async () => {
    if (answer.status === 'absent') return
    shim = answer.shim
    server = await startServer({ name: 'queue-with-clock' })
    clock = shim.clock(server.port)
  })
  afterAll(async () => {
    await server.close()
    shim.remove()
  })

  function makeQueue(
    resource: (data: { nr: number }) => string = () => 'customer:1',
  ): LockedQueue<{ nr: number }> {
    return fixture.lockedQueue<{ nr: number }>({ connection: { url: server.url }, resource })
  }

  /** The numbers of the jobs, in the order in which a worker ran them. */
  async function work(): Promise<readonly number[]> {
    const ran: number[] = []
    fixture.lockedWorker<{ nr: number }>(({ data }) => Promise.resolve(ran.push(data.nr)), {
      ...{ connection: { url: server.url }, redlock: await fixture.redlock(), concurrency: 5 },
      ...{ resource: () => 'customer:1', logger: silentLogger },
    })
    return ran
  }

  test("the queue's Redis sets its clock back an hour: the order is that of adding", async () => {
    const queue = makeQueue()
    for (let nr = 0; nr < 7; nr++) {
      if (nr === 4) clock.step(-HOUR_MS)
      await queue.add('charge', { nr })
    }
    const ran = await work()
    await until('all are done', () => ran.length === 7)
    expect(ran).toEqual([0, 1, 2, 3, 4, 5, 6])
    expect(clock.looks).toBeGreaterThan(0)
  })

  test('the same while a worker runs: it goes on to sweep, and finds jobs that stall', async () => {
    const resource = ({ nr }: { nr: number }): string => `customer:${Math.floor(nr / 2)}`
    const queue = makeQueue(resource)
    const gate = fixture.gate()
    const ran: number[] = []
    fixture.lockedWorker<{ nr: number }>(
      async ({ data: { nr } }) => {
        if (nr === 0) await gate.passed
        ran.push(nr)
      },
      {
        ...{ connection: { url: server.url }, redlock: await fixture.redlock() },
        ...{ resource: ({ data }) => resource(data), logger: silentLogger },
      },
    )
    const base = `bull:${fixture.namespace}:`
    const began = [`${base}stalled-check`, `${base}redlock:::sweeper`]
    await until('it has begun both', () =>
      ask(server.url, async (redis) => (await redis.exists(...began)) === 2),
    )
    clock.step(-HOUR_MS)
    await queue.add('charge', { nr: 0 })
    await until('it is busy', async () => (await queue.getActiveCount()) === 1)
    await queue.add('charge', { nr: 2 })
    const dead = new Worker(fixture.namespace, null, {
      ...{ connection: { url: server.url }, lockDuration: 500 },
    })
    fixture.defer(() => dead.close())
    const taken = (await dead.getNextJob('dead', { block: false })) as Job<{ nr: number }>
    expect(taken.data.nr).toBe(2)
    await until('it waits again', async () => (await taken.getState()) === 'waiting')
    const { id = '' } = await queue.add('charge', { nr: 4 })
    await queue.add('charge', { nr: 5 })
    // Deleted behind the back of all: only the sweep finds the next one.
    await ask(server.url, (redis) =>
      redis
        .multi()
        .del(base + id)
        .lrem(`${base}wait`, 0, id)
        .exec(),
    )
    gate.open()
    await until('the others are done', () => ran.length === 3)
    expect(ran.sort()).toEqual([0, 2, 5])
  })

  test('its clock goes forward an hour: only what still runs is done again, by the same attempt', async () => {
    const queue = makeQueue(({ nr }) => `customer:${nr}`)
    const [done, never] = [fixture.gate(), fixture.gate()]
    const ran: number[] = []
    const worker = new LockedWorker<{ nr: number }>(
      fixture.namespace,
      async ({ data: { nr } }, { signal }) => {
        ran.push(nr)
        if (ran.length > 2) return
        const stopped = aborted(signal).then((error) => Promise.reject(error as Error))
        await Promise.race([nr === 1 ? done.passed : never.passed, stopped])
      },
      {
        ...{ connection: { url: server.url }, redlock: await fixture.redlock(), concurrency: 2 },
        ...{ resource: ({ data }) => `customer:${data.nr}`, logger: silentLogger },
      },
    )
    worker.on('error', () => undefined)
    fixture.defer(() => worker.close(true))
    const jobs = [await queue.add('charge', { nr: 1 }), await queue.add('charge', { nr: 2 })]
    await until('both run', () => ran.length === 2)
    clock.step(HOUR_MS)
    fixture.defer(() => {
      clock.step(-HOUR_MS)
    })
    done.open()
    await until('both are done', async () => (await queue.getCompletedCount()) === 2)
    expect(ran.sort()).toEqual([1, 2, 2])
    const ended = await Promise.all(jobs.map(({ id = '' }) => queue.getJob(id)))
    expect(ended.map((job) => job?.attemptsMade)).toEqual([1, 1])
  })

  test('the same while a process dies that moves a scheduler: others go on without it', async () => {
    const queue = new ShardedQueue<{ nr: number }>(fixture.namespace, {
      ...{ connection: { url: server.url }, shards: 4, resource: ({ nr }) => `customer:${nr}` },
    })
    fixture.defer(() => queue.close())
    const move = (nr: number): Promise<unknown> =>
      queue.upsertJobScheduler('nightly', { every: 60_000 }, { data: { nr } })
    await move(1)
    // It was in another shard, and that process died before it had left it.
    for (const { opts } of queue.shards) {
      const shard = new LockedQueue<{ nr: number }>(fixture.namespace, {
        ...{ connection: { url: server.url }, prefix: opts.prefix ?? '', resource: () => 'a' },
      })
      fixture.defer(() => shard.close())
      await shard.upsertJobScheduler('nightly', { every: 60_000 }, { data: { nr: 0 } })
    }
    expect(await queue.getJobSchedulersCount()).toBe(4)
    clock.step(-HOUR_MS)
    await move(2)
    expect((await queue.getJobScheduler('nightly'))?.template?.data).toEqual({ nr: 2 })
    expect(await queue.getJobSchedulersCount()).toBe(1)
  })

  test('doctor tells how long a job has waited by the clock of the server', async () => {
    const queue = makeQueue()
    clock.step(-HOUR_MS)
    await queue.add('charge', { nr: 1 }, { delay: 1 })
    await (await queue.getDelayed())[0]?.promote()
    const { fleet, namespace } = fixture
    await fixture.redlock()
    const said = await cli(['doctor'], { env: fleetEnv(fleet.urls, namespace, server.url) })
    expect(said.out).toMatch(/1 job waits, and job \d+ has waited for [\d.]+ m?s: No worker/)
  })

  test('a changed delay counts by the clock of the server', async () => {
    const queue = makeQueue()
    clock.step(-HOUR_MS)
    const job = await queue.add('charge', { nr: 1 }, { delay: 60_000 })
    const ran = await work()
    await job.changeDelay(200)
    await until('it has run', () => ran.length === 1, 20_000)
  })

  test("a producer's clock is an hour ahead: its line is served, and restarted by the sweep", async () => {
    const { namespace } = fixture
    const env = shim.environment('producer')
    writeFileSync(env['CLOCK_SHIM'] ?? '', Buffer.alloc(32))
    shim.clock('producer').step(HOUR_MS)
    const producer = new Program('test/line/adding-child.ts', [server.url, namespace, '3'], env)
    expect((await producer.end()).code).toBe(0)
    const waiting = await makeQueue().getWaiting()
    const first = waiting.find(({ data }) => data.nr === 0)
    expect(first?.timestamp).toBeGreaterThan(Date.now() + HOUR_MS / 2)
    // Deleted behind the back of all: only the sweep finds the next one.
    const job = `bull:${namespace}:${first?.id ?? ''}`
    await ask(server.url, (redis) => redis.del(job))
    await ask(server.url, (redis) => redis.lrem(`bull:${namespace}:wait`, 0, first?.id ?? ''))
    const ran = await work()
    await until('the others are done', () => ran.length === 2)
    expect(ran).toEqual([1, 2])
  })
})
