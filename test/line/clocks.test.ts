/** Clocks that are wrong change neither the order of a line nor who serves it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writeFileSync } from 'node:fs'
import { LockedQueue, LockedWorker, silentLogger } from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { Program } from '../workers/program.ts'
import { compileShim, type ClockShim } from '../faults/shimmed-clock.ts'
import { until, useFleet } from '../fixtures.ts'
import { ask } from '../testing/ask.ts'

const HOUR_MS = 3_600_000
const answer = await compileShim()
const reason = answer.status === 'absent' ? answer.reason : ''

describe.skipIf(answer.status === 'absent')(`with wrong clocks ${reason}`, () => {
  const fixture = useFleet({ masters: 1 })
  let server: TestServer
  let shim: ClockShim

  beforeAll(async () => {
    if (answer.status === 'absent') return
    shim = answer.shim
    server = await startServer({ name: 'queue-with-clock' })
  })
  afterAll(async () => {
    await server.close()
    shim.remove()
  })

  function makeQueue(): LockedQueue<{ nr: number }> {
    const queue = new LockedQueue<{ nr: number }>(fixture.namespace, {
      connection: { url: server.url },
      resource: () => 'customer:1',
    })
    fixture.defer(() => queue.close())
    return queue
  }

  /** The numbers of the jobs, in the order in which a worker ran them. */
  async function work(): Promise<readonly number[]> {
    const ran: number[] = []
    const worker = new LockedWorker<{ nr: number }>(
      fixture.namespace,
      ({ data }) => Promise.resolve(ran.push(data.nr)),
      {
        ...{ connection: { url: server.url }, redlock: await fixture.redlock(), concurrency: 5 },
        ...{ resource: () => 'customer:1', logger: silentLogger },
      },
    )
    fixture.defer(() => worker.close())
    return ran
  }

  test("the queue's Redis sets its clock back an hour: the order is that of adding", async () => {
    const queue = makeQueue()
    for (let nr = 0; nr < 7; nr++) {
      if (nr === 4) shim.clock(server.port).step(-HOUR_MS)
      await queue.add('charge', { nr })
    }
    const ran = await work()
    await until('all are done', () => ran.length === 7)
    expect(ran).toEqual([0, 1, 2, 3, 4, 5, 6])
    expect(shim.clock(server.port).looks).toBeGreaterThan(0)
  })

  test('a changed delay counts by the clock of the server', async () => {
    const queue = makeQueue()
    shim.clock(server.port).step(-HOUR_MS)
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
