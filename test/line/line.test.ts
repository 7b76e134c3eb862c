/** Lines on a real queue: places, dead places, turns, and what restarts a line. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Queue } from 'bullmq'
import {
  FlowProducer,
  WaitingChildrenError,
  Worker,
  type FlowJob,
  type Job,
  type KeepJobs,
  type QueueOptions,
} from 'bullmq'
import { Redis } from 'ioredis'
import { describe, expect, test, vi } from 'vitest'
import type { LockedQueue, LockedWorkerOptions } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { upTo, useCalls, type Call, type Seen } from './calls.ts'
import { givenOrder, misplacedBy } from '../support/given-order.ts'

type Customer = string | readonly string[]
type Charge = Call<Customer>

const fixture = useFleet({ masters: 3 })
const { makeQueue, work, jobs, turnSweepsOff } = useCalls<Customer>(fixture)

function plainQueue(options: Partial<QueueOptions> = {}, name = fixture.namespace): Queue<Charge> {
  return fixture.plainQueue<Charge>(name, options)
}

const linesLeft = (): Promise<string[]> =>
  fixture.redis().keys(`bull:${fixture.namespace}:redlock:::line:*`)

/** The first job of `a` runs until the gate opens. */
async function behindTheFirst() {
  const [queue, gate] = [makeQueue(), fixture.gate()]
  const seen = await work({}, ({ data }) => (data.nr === 1 ? gate.passed : pause(1)))
  await queue.addBulk(jobs('a', 1))
  await until('the first runs', () => seen.started.length === 1)
  return { ...seen, queue, gate }
}

/** Other clients hold the resources. `longer`: waits for them that are longer than two bursts. */
async function whereTaken(...resources: readonly string[]) {
  const holder = await fixture.redlock()
  for (const resource of resources) await holder.acquire(resource)
  const redlock = await fixture.redlock()
  const acquire = redlock.acquire.bind(redlock)
  const longer: { readonly signal?: AbortSignal; readonly atOnce: number; isOver: boolean }[] = []
  vi.spyOn(redlock, 'acquire').mockImplementation(async (resource, options = {}) => {
    const { waitMs = 0, signal } = options
    if (waitMs <= 100) return acquire(resource, options)
    const atOnce = 1 + longer.filter(({ isOver }) => !isOver).length
    const wait = { ...(signal && { signal }), atOnce, isOver: false }
    longer.push(wait)
    return acquire(resource, options).finally(() => (wait.isOver = true))
  })
  return { redlock, longer }
}

/** Takes the next mark by which an idle worker looks for jobs, as one that is killed then. */
async function takeNextMark(): Promise<() => boolean> {
  const thief = fixture.redis().duplicate()
  fixture.defer(() => {
    thief.disconnect()
  })
  let isTaken = false
  thief.bzpopmin(`bull:${fixture.namespace}:marker`, 0).then(
    () => (isTaken = true),
    () => undefined, // The test is over.
  )
  await until('it waits', async () =>
    /blocked_clients:[1-9]/.test(await fixture.redis().info('clients')),
  )
  return () => isTaken
}

describe('a mark that is lost is left again', () => {
  test.each([
    ['for a job that waits', {}, {}],
    ['for a delayed job that is due', {}, { delay: 100 }],
    ['for a job with a share', { weight: () => 1 }, {}],
  ])('%s', async (_, options, opts) => {
    const isTaken = await takeNextMark()
    const { order } = await work({ drainDelay: 60 })
    await makeQueue(options).add('call', { customer: 'a', nr: 1 }, opts)
    await until('the job ran', () => order.length === 1)
    expect(isTaken()).toBe(true)
  })
})

test('a fetch leaves a mark for idle workers only where another job waits', async () => {
  const marker = `bull:${fixture.namespace}:marker`
  const queue = makeQueue()
  await queue.addBulk(jobs('a', 1))
  await turnSweepsOff()
  await fixture.redis().del(marker) // A worker that begins looks without one.
  const left: number[] = []
  await work({ concurrency: 1 }, async () => {
    left.push(await fixture.redis().exists(marker))
    if (left.length > 1) return
    await queue.addBulk([...jobs('b', 2), ...jobs('c', 3)])
    await fixture.redis().del(marker)
  })
  await until('two have run', () => left.length > 1)
  expect(left.slice(0, 2)).toEqual([0, 1])
})

describe('a place is dead', () => {
  test('when its job was deleted without our scripts: the sweep restarts an idle line', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs('a', 1, 2))
    const head = (await queue.getJobs(['wait'], 0, 0, true))[0]
    await fixture.redis().del(`bull:${fixture.namespace}:${head?.id ?? ''}`)
    await fixture.redis().lrem(`bull:${fixture.namespace}:wait`, 0, head?.id ?? '')
    const { order } = await work()
    await until('the sleeping job ran', () => order.length === 1)
    expect(order).toEqual([2])
  })

  test('when its id belongs to another job now', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs('a', 1, 2, 3))
    await plainQueue().obliterate({ force: true })
    // The ids begin at 1 again: the places of `a` name jobs of `b`.
    await queue.addBulk(jobs('b', 4, 5))
    await queue.addBulk(jobs('a', 6))
    const { order } = await work()
    await until('all ran', () => order.length === 3)
    expect(order).toContain(6)
    expect(order.indexOf(4)).toBeLessThan(order.indexOf(5))
  })

  test('when a plain worker has finished its job', async () => {
    const queue = makeQueue()
    queue.on('error', () => undefined) // It reports the plain worker.
    await queue.addBulk(jobs('a', 1, 2))
    const plain = new Worker(fixture.namespace, () => pause(1), { connection: fixture.connection })
    await until('the first is done', async () => (await queue.getCompletedCount()) === 1)
    await plain.close()
    const { order } = await work()
    await until('the second ran', () => order.length === 1)
    expect(order).toEqual([2])
  })

  test.each([
    ['removed', (_: LockedQueue<Charge>, job?: Job) => job?.remove()],
    ['cancelled', (queue: LockedQueue<Charge>, job?: Job) => queue.cancel(job?.id ?? '')],
  ])('when it is %s: the next job is awake at once, and no worker is needed', async (_, end) => {
    const queue = makeQueue()
    const [first] = await queue.addBulk(jobs('a', 1, 2))
    expect(await plainQueue().getWaitingCount()).toBe(1)
    await end(queue, first)
    const waiting = await plainQueue().getWaiting()
    expect(waiting.map(({ data }) => data.nr)).toEqual([2])
  })

  test('when it is removed with its parent', async () => {
    const { queue, gate } = await behindTheFirst()
    const client = fixture.redis()
    const flows = fixture.closing(new FlowProducer({ connection: fixture.connection }))
    const node = (customer: string, nr: number): FlowJob => ({
      ...{ name: 'charge', queueName: fixture.namespace, data: { customer, nr } },
    })
    const { job } = await flows.add({ ...node('b', 2), children: [node('a', 3)] })
    const length = (): Promise<number> => client.zcard(`bull:${fixture.namespace}:redlock:::line:a`)
    await until('its child waits in line', async () => (await length()) === 2)
    await (await queue.getJob(job.id ?? ''))?.remove()
    expect(await length()).toBe(1)
    gate.open()
  })

  test('and wakes one job, also where the line has slots', async () => {
    await turnSweepsOff()
    const queue = makeQueue({ slots: 2 })
    const [first, wait] = [fixture.gate(), fixture.gate()]
    const { started } = await work({ slots: 2, concurrency: 2 }, ({ data }) =>
      data.nr === 1 ? first.passed : wait.passed,
    )
    const added = await queue.addBulk(jobs('a', 1, 2, 3, 4, 5, 6))
    await until('two run', () => started.length === 2)
    await fixture.redis().del(`bull:${fixture.namespace}:${added[2]?.id ?? ''}`)
    first.open()
    await until('the job behind the dead place runs', () => started.length === 3)
    expect(started.map(({ nr }) => nr)).toEqual([1, 2, 4])
    expect(await plainQueue().getWaitingCount()).toBe(0)
    wait.open()
  })

  test('and a thousand of them cost the next job of the line nothing', async () => {
    await turnSweepsOff()
    const { queue, gate, order } = await behindTheFirst()
    const added = await queue.addBulk(jobs('a', ...upTo(1_002).slice(2)))
    const client = fixture.redis()
    const ids = added.map(({ id }) => id ?? '')
    await client.del(ids.map((id) => `bull:${fixture.namespace}:${id}`))
    await client.zrem(`bull:${fixture.namespace}:delayed`, ...ids)
    await queue.addBulk(jobs('a', 5_000))
    gate.open()
    await until('the job behind them ran', () => order.length === 2)
    expect(order).toEqual([1, 5_000])
    await until('no line is left', async () => (await linesLeft()).length === 0)
  })
})

describe('turns', () => {
  test('puts a line that has used its burst behind jobs of other lines', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs('busy', ...upTo(30)))
    await queue.addBulk(jobs('light', 100))
    const { order } = await work({ concurrency: 1, burstMs: 50 }, () => pause(20))
    await until('the light one ran', () => order.includes(100))
    expect(order.indexOf(100)).toBeLessThanOrEqual(4)
  })

  test('what a line used beyond its burst counts against the next one', async () => {
    await fixture.undisturbed(async () => {
      const queue = makeQueue()
      // 180 ms leave 20 of the next burst of 100, so one job of 40 ms ends it.
      await queue.addBulk(jobs('a', 180, 40, 41, 42))
      await queue.addBulk(jobs('b', 120, 121))
      const { order } = await work({ concurrency: 1, burstMs: 100 }, ({ data }) => pause(data.nr))
      await until('all ran', () => order.length === 6)
      expect(order.slice(0, 4)).toEqual([180, 120, 40, 121])
    })
  })

  test('a job that wakes the next one of its line wakes no idle worker', async () => {
    const [queue, client] = [makeQueue(), fixture.redis()]
    await queue.addBulk(jobs('a', ...upTo(100)))
    await client.config('RESETSTAT')
    const { order } = await work({ burstMs: 60_000 })
    await until('all ran', () => order.length === 100)
    // A worker with an idle slot waits for a mark. It found nothing behind each of these jobs.
    const [, waits = '0'] =
      /cmdstat_bzpopmin:calls=(\d+)/.exec(await client.info('commandstats')) ?? []
    expect(Number(waits)).toBeLessThan(25)
  })

  test('the first job that ends leaves at once, and those that end in the same turn of the event loop in one call', async () => {
    const [queue, client] = [makeQueue(), fixture.redis()]
    const lines = Array.from({ length: 8 }, (_, nr) => `line ${nr}`)
    await queue.addBulk(lines.flatMap((line) => jobs(line, 1, 2)))
    const ends: (() => void)[] = []
    const { started } = await work({ concurrency: 8 }, () => {
      return new Promise<void>((end) => ends.push(end))
    })
    await until('all first jobs run', () => ends.length === 8)
    const calls = async (): Promise<number> => {
      const stats = await client.info('commandstats')
      // The first call of a script has its text.
      return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)]
        .map(([, count]) => Number(count))
        .reduce((sum, count) => sum + count, 0)
    }
    const before = await calls()
    for (const end of ends.splice(0)) setImmediate(end)
    await until('all second jobs run', () => started.length === 16)
    expect((await calls()) - before).toBe(2)
    for (const end of ends) end()
  })

  test.each([
    ['drain', (queue: Queue) => queue.drain()],
    ['clean', (queue: Queue) => queue.clean(0, 0, 'wait')],
  ])('%s needs one command more for each job that sleeps than plain BullMQ', async (_, remove) => {
    const JOBS = 500
    const [queue, client] = [makeQueue(), fixture.redis()]
    const plain = fixture.plainQueue(`${queue.name}-plain`, { connection: queue.opts.connection })
    const commands = async (of: Queue): Promise<number> => {
      await of.addBulk(jobs('a', ...upTo(JOBS)))
      await client.config('RESETSTAT')
      await remove(of)
      const stats = await client.info('commandstats')
      expect(await of.count()).toBe(0)
      const counts = [...stats.matchAll(/cmdstat_\w+:calls=(\d+)/g)].map(([, count]) =>
        Number(count),
      )
      return counts.reduce((sum, count) => sum + count, 0)
    }
    const more = (await commands(queue)) - (await commands(plain))
    expect(more / JOBS).toBeLessThan(1.1)
  })

  test('clean with a limit looks at no more of the jobs that sleep', async () => {
    const [queue, client] = [makeQueue(), fixture.redis()]
    await queue.addBulk(jobs('a', ...upTo(500)))
    await client.config('RESETSTAT')
    expect(await queue.clean(0, 10, 'wait')).toHaveLength(10)
    const [, deleted] = /cmdstat_del:calls=(\d+)/.exec(await client.info('commandstats')) ?? []
    expect(Number(deleted)).toBe(10)
    expect((await queue.getWaiting()).at(0)?.data.nr).toBe(10)
  })

  test('jobs that touch several resources never wait for each other', async () => {
    const queue = makeQueue()
    const pairs = [['a', 'b'], ['b', 'c'], ['c', 'a'], 'a', 'b', ['a', 'b', 'c']]
    for (let nr = 0; nr < 60; nr++) {
      await queue.addBulk(jobs(pairs[nr % pairs.length] ?? 'a', nr))
    }
    const { order } = await work()
    await until('all ran', () => order.length === 60)
    const ofA = order.filter((nr) => [pairs[nr % pairs.length]].flat(2).includes('a'))
    expect(ofA).toEqual([...ofA].sort((x, y) => x - y))
  })

  test('jobs of one resource in two queues run one at a time, in the order of their queue', async () => {
    const names = ['one', 'two'].map((name) => `${fixture.namespace}-${name}`)
    const numbers = upTo(20)
    const idle = makeQueue({}, `${fixture.namespace}-without-workers`)
    await idle.addBulk(jobs('a', ...numbers))
    let running = 0
    const orders = await Promise.all(
      names.map(async (name) => {
        await makeQueue({}, name).addBulk(jobs('a', ...numbers))
        const order: number[] = []
        await work(
          {},
          async ({ data }: Job<Charge>) => {
            expect(++running).toBe(1)
            await pause(2)
            running--
            order.push(data.nr)
          },
          name,
        )
        return order
      }),
    )
    await until('all ran', () => orders.every((order) => order.length === 20))
    expect(orders).toEqual([numbers, numbers])
  })

  test('two queues of one resource take turns, burst by burst', async () => {
    const numbers = upTo(40)
    const ran: string[] = []
    const names = ['one', 'two']
    for (const name of names) {
      const record = async (): Promise<void> => {
        await pause(5)
        ran.push(name)
      }
      const { worker } = await work({}, record, `${fixture.namespace}-${name}`)
      await worker.waitUntilReady()
    }
    // Both begin together, however long a worker takes to start.
    const add = (name: string) =>
      makeQueue({}, `${fixture.namespace}-${name}`).addBulk(jobs('a', ...numbers))
    await Promise.all(names.map(add))
    await until('all ran', () => ran.length === 80)
    // When the first queue has done all, the other one has done a good part.
    const rest = ran.length - 1 - ran.lastIndexOf(ran.at(-1) === 'one' ? 'two' : 'one')
    expect(rest).toBeLessThan(30)
  })

  test('a job of another queue waits for few jobs that are longer than a burst', async () => {
    const lines = ['a', 'b', 'c', 'd', 'e', 'f']
    const ran: string[] = []
    const record = async ({ data, queueName }: Job<Charge>): Promise<void> => {
      ran.push(`${queueName} ${String(data.customer)}`)
      await pause(600)
    }
    const other = `${fixture.namespace}-other`
    // A quarter of them may wait in place.
    for (const name of [fixture.namespace, other]) await work({ concurrency: 24 }, record, name)
    const queue = makeQueue()
    for (const line of lines) await queue.addBulk(jobs(line, ...upTo(9)))
    await until('each line runs', () => ran.length === lines.length)
    for (const line of lines) await makeQueue({}, other).addBulk(jobs(line, 1))
    const placeOf = (line: string): number =>
      ran.filter((each) => each.endsWith(line)).indexOf(`${other} ${line}`)
    await until('those of the other queue ran', () => lines.every((line) => placeOf(line) > 0))
    expect(Math.max(...lines.map(placeOf)), ran.join()).toBeLessThan(5)
  })

  test('of jobs whose resource is taken, a quarter of the slots wait longer at once', async () => {
    const lines = upTo(8).map(String)
    const { redlock, longer } = await whereTaken(...lines)
    const queue = makeQueue()
    for (const line of lines) await queue.addBulk(jobs(line, 1))
    const seen = await work({ redlock, concurrency: 8 })
    await until('each has come back', () => seen.requeued.length >= 6 * lines.length)
    expect(Math.max(...longer.map(({ atOnce }) => atOnce))).toBe(2)
  })

  test('one of few slots waits longer, and gives way to a job that could start', async () => {
    const { redlock, longer } = await whereTaken('a', 'b')
    const queue = makeQueue()
    await queue.addBulk([...jobs('a', 1), ...jobs('b', 2)])
    const { order } = await work({ redlock, concurrency: 2 })
    await until('one waits longer', () => longer.some(({ isOver }) => !isOver))
    expect(Math.max(...longer.map(({ atOnce }) => atOnce))).toBe(1)
    await Promise.all(upTo(30).map((nr) => queue.addBulk(jobs(`free-${nr}`, nr + 2))))
    await until('all that could start ran', () => order.length === 30)
    expect(longer.some(({ signal }) => signal?.aborted)).toBe(true)
  })

  test("some jobs wait for their resource in place with order: 'relaxed'", async () => {
    const msEach = async (
      queue: Queue<Charge>,
      options: Partial<LockedWorkerOptions<Charge>>,
      count: number,
    ): Promise<number> => {
      const seen = await work({ concurrency: 12, ...options }, () => pause(20), queue.name)
      const startedAt = performance.now()
      await queue.addBulk(jobs('a', ...upTo(count)))
      await until('all ran', () => seen.order.length === count)
      return (performance.now() - startedAt) / count
    }
    const inOrder = await msEach(makeQueue({}, `${fixture.namespace}-strict`), {}, 40)
    const relaxed = await msEach(plainQueue(), { order: 'relaxed' }, 100)
    // Of jobs that only sleep, most sleep while the resource is free.
    expect(relaxed / inOrder).toBeLessThan(1.65)
  })

  test.each([
    ['shorter', 100],
    ['longer', 10],
  ])('a line keeps its lease, jobs are %s than a burst, while nobody waits', async (_, burstMs) => {
    await makeQueue().addBulk(jobs('a', ...upTo(30)))
    const tokens: number[] = []
    await work({ burstMs }, async (_job, lease) => {
      tokens.push(lease.fencingToken)
      await pause(20)
    })
    await until('all ran', () => tokens.length === 30)
    // A lease that is passed on has the next token. There are six bursts or more, or thirty.
    const grants = tokens.filter((token, nr) => token !== (tokens[nr - 1] ?? NaN) + 1).length
    expect(grants, tokens.join()).toBeLessThan(3)
  })

  test('a job keeps the lease that it is left when an answer about waiters comes late', async () => {
    const tokens: number[] = []
    const seen = await work({ burstMs: 1_000 }, async ({ data }, { fencingToken }) => {
      tokens.push(fencingToken)
      await pause(1_200)
      if (data.nr > 1) return
      const { masters } = fixture.fleet
      await Promise.all(masters.map((master) => master.freeze()))
      setTimeout(() => void Promise.all(masters.map((master) => master.thaw())), 100)
    })
    const lost: string[] = []
    seen.worker.on('leaseLost', (job) => lost.push(String(job.id)))
    await makeQueue().addBulk(jobs('a', 1, 2))
    await until('both ran', () => seen.order.length === 2)
    expect(lost).toEqual([])
    expect(tokens).toEqual([tokens[0], Number(tokens[0]) + 1])
  })

  test('an idle worker is given lines of one that runs more, until both run as many', async () => {
    const lines = ['a', 'b', 'c', 'd', 'e', 'f']
    const numbers = upTo(1_000)
    const queue = makeQueue()
    for (const line of lines) await queue.addBulk(jobs(line, ...numbers))
    const ranBy = new Map<string, number>()
    let changes = 0
    const workAs = (worker: number): Promise<Seen<Customer>> =>
      work({ concurrency: 10, burstMs: 20, autorun: false }, async ({ data }) => {
        const line = String(data.customer)
        if (ranBy.get(line) !== worker) changes++
        ranBy.set(line, worker)
        await pause(5)
      })
    const linesOf = (worker: number): number =>
      [...ranBy.values()].filter((each) => each === worker).length
    const [first, second] = [await workAs(1), await workAs(2)]
    void first.worker.run()
    await until('one worker runs all lines', () => linesOf(1) === lines.length)
    void second.worker.run()
    await until('both run lines, and no burst ends in the other one any more', async () => {
      const before = changes
      await pause(100)
      return changes === before && linesOf(1) >= 2 && linesOf(2) >= 2
    })
    expect(first.order.length + second.order.length).toBeLessThan(lines.length * numbers.length)
  })

  test('with slots: as many at once, in order', async () => {
    const queue = makeQueue({ slots: 3 })
    await queue.addBulk(jobs('a', ...upTo(20)))
    expect(await plainQueue().getJobCounts('wait', 'delayed')).toEqual({ wait: 3, delayed: 17 })
    const three = fixture.gate()
    let started = 0
    const seen = await work({ slots: 3 }, async () => {
      if (++started === 3) three.open()
      await three.passed
      await pause(10)
    })
    await until('all ran', () => seen.order.length === 20)
    expect(seen.most).toBe(3)
    // Of those that stand next to each other, the one that a job wakes may be given first.
    const given = await givenOrder(fixture.fleet.queue.url, fixture.namespace)
    expect(Math.max(...misplacedBy(given)), given.join()).toBeLessThan(3)
    expect(given).toHaveLength(20)
  })
})

describe('the lines of a job', () => {
  test('stay those that it joined, also when its data change', async () => {
    await turnSweepsOff()
    const queue = makeQueue()
    await queue.addBulk(jobs('a', 1, 2))
    const { order } = await work({}, async (job) => {
      if (job.data.nr === 1) await job.updateData({ customer: 'b', nr: 1 })
    })
    await until('both ran', () => order.length === 2)
    await until('no line is left', async () => (await linesLeft()).length === 0)
  })

  test('a parent leaves them while it waits for children of the same resource', async () => {
    const queue = makeQueue()
    const wait = fixture.gate()
    const order: number[] = []
    let areAdded = false
    await work({}, async (job) => {
      const { nr } = job.data
      if (nr === 1 && job.attemptsStarted === 1) {
        const parent = { id: job.id ?? '', queue: job.queueQualifiedName }
        for (const child of [10, 11]) {
          await queue.add('child', { customer: 'a', nr: child }, { parent })
        }
        areAdded = true
        await wait.passed
        if (await job.moveToWaitingChildren(job.token ?? '')) throw new WaitingChildrenError()
      }
      order.push(nr)
    })
    await queue.addBulk(jobs('a', 1))
    await until('its children are added', () => areAdded)
    await queue.addBulk(jobs('a', 2))
    wait.open()
    await until('all ran', () => order.length === 4)
    // The parent has its old place again, ahead of the job that was added after it.
    expect(order).toEqual([10, 11, 1, 2])
  })
})

describe('onFailure: block', () => {
  const failing = ({ data }: Job<Charge>): Promise<void> =>
    data.nr === 1 ? Promise.reject(new Error('broken')) : Promise.resolve()

  test.each([{ lifo: true }, { priority: 1 }])(
    'holds the line also against a job that goes before others: %j',
    async (opts) => {
      const queue = makeQueue({ within: 'priority' })
      const first = { customer: 'a', nr: 1 }
      const failed = await queue.add('charge', first, 'lifo' in opts ? {} : { priority: 2 })
      const { order } = await work({ onFailure: 'block' }, failing)
      await until('it failed', async () => (await queue.getFailedCount()) === 1)
      await turnSweepsOff()
      await failed.changePriority({ priority: 9 })
      await queue.add('charge', { customer: 'a', nr: 2 }, opts)
      const other = await queue.add('charge', { customer: 'a', nr: 3 })
      await other.remove() // Whoever leaves a line wakes its first jobs.
      await pause(300)
      expect(order).toEqual([])
    },
  )

  test('holds the line until the failed job is removed', async () => {
    const queue = makeQueue()
    const [first] = await queue.addBulk(jobs('a', 1, 2))
    const { order, worker } = await work({ onFailure: 'block' }, failing)
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    await pause(1_500) // Longer than a sweep.
    expect(order).toEqual([])
    const { line } = await worker.inspect('a')
    expect(line.map(({ state }) => state)).toEqual(['failed', 'waiting'])
    await turnSweepsOff()
    await first?.remove()
    await until('the line goes on', () => order.length === 1)
  })

  test('holds the line also where jobs are added with `removeOnFail`', async () => {
    const holds = async (removeOnFail: boolean | number | KeepJobs, index: number) => {
      const name = `${fixture.namespace}-${index}`
      const customers = ['a', 'b', 'c'].map((customer) => `${customer}${index}`)
      const queue = makeQueue({}, name)
      const add = (customer: string, nr: number): Promise<Job<Charge>> =>
        queue.add('charge', { customer, nr }, { removeOnFail })
      for (const customer of customers) await add(customer, 1)
      const { order } = await work({ onFailure: 'block' }, failing, name)
      await until('they failed', async () => (await queue.getFailedCount()) === 3)
      for (const customer of customers) await add(customer, 2)
      const cancelled = await add(`d${index}`, 3)
      await queue.cancel(cancelled.id ?? '')
      await pause(1_500) // Longer than a sweep.
      const how = JSON.stringify(removeOnFail)
      expect([how, ...order.filter((nr) => nr !== 3)]).toEqual([how])
      expect(await queue.getFailedCount(), how).toBeGreaterThanOrEqual(3)
    }
    await Promise.all([true, { count: 1 }, { age: 0 }, 0].map(holds))
  })

  test.each(['that never ran', 'that waited for it'])(
    'holds the line of a parent %s, when its child of another queue fails',
    async (which) => {
      const queue = makeQueue()
      const name = `${fixture.namespace}-children`
      const child: FlowJob = {
        ...{ name: 'charge', queueName: name, data: { customer: 'b', nr: 1 } },
        opts: { failParentOnFailure: true },
      }
      const parent: FlowJob = {
        ...{ name: 'charge', queueName: fixture.namespace, data: { customer: 'a', nr: 2 } },
        children: which === 'that never ran' ? [child] : [],
      }
      const flows = fixture.closing(new FlowProducer({ connection: fixture.connection }))
      const children = plainQueue({}, name)
      const { order } = await work({ onFailure: 'block' }, async (job) => {
        if (job.data.nr !== 2) return
        const { id = '', queueQualifiedName } = job
        const opts = { parent: { id, queue: queueQualifiedName }, failParentOnFailure: true }
        await children.add('charge', { customer: 'b', nr: 1 }, opts)
        if (await job.moveToWaitingChildren(job.token ?? '')) throw new WaitingChildrenError()
      })
      const { job } = await flows.add(parent)
      await until('it waits', async () => (await job.getState()) === 'waiting-children')
      await work({}, failing, name)
      await until('it failed', async () => (await queue.getFailedCount()) === 1)
      await queue.addBulk(jobs('a', 3))
      await pause(300)
      expect(order).toEqual([])
      expect(await queue.skip(job.id ?? '')).toBe(true)
      await until('the line goes on', () => order.length === 1)
    },
  )

  test('skip lets the line continue, and a retried job joins the line at its end', async () => {
    const queue = makeQueue()
    const [first, second] = await queue.addBulk(jobs('a', 1, 2))
    let isBroken = true
    const wait = fixture.gate()
    const { order } = await work({ onFailure: 'block' }, async (job) => {
      if (isBroken) await failing(job)
      if (job.data.nr === 2) await wait.passed
    })
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    expect(await queue.skip(second?.id ?? '')).toBe(false)
    expect(await queue.skip(first?.id ?? '')).toBe(true)
    expect(await queue.skip(first?.id ?? '')).toBe(false)
    expect(await first?.getState()).toBe('failed')
    await queue.addBulk(jobs('a', 3))
    isBroken = false
    await first?.retry()
    wait.open()
    await until('all ran', () => order.length === 3)
    expect(order).toEqual([2, 3, 1])
  })

  test("has no line to hold with order: 'relaxed': a failed job that is retried runs", async () => {
    const queue = fixture.plainQueue<Charge>()
    const [first] = await queue.addBulk(jobs('a', 1))
    let isBroken = true
    const { order } = await work({ onFailure: 'block', order: 'relaxed' }, async (job) => {
      if (isBroken) await failing(job)
    })
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    isBroken = false
    await first?.retry()
    await until('it ran', () => order.length === 1)
  })

  test('no longer when a plain worker has finished a job that held it', async () => {
    const queue = makeQueue()
    queue.on('error', () => undefined) // It reports the plain worker.
    const [first] = await queue.addBulk(jobs('a', 1, 2))
    const { order, worker } = await work({ onFailure: 'block' }, failing)
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    await worker.close()
    await first?.retry()
    const plain = new Worker(fixture.namespace, () => pause(1), { connection: fixture.connection })
    await until('the first is done', async () => (await queue.getCompletedCount()) === 1)
    await plain.close()
    await work({ onFailure: 'block' })
    await until('the second is done', async () => (await queue.getCompletedCount()) === 2)
    expect(order).toEqual([])
  })

  test('and no job that runs is skipped, though it held its line before', async () => {
    const queue = makeQueue()
    const [first] = await queue.addBulk(jobs('a', 1, 2))
    let isBroken = true
    const wait = fixture.gate()
    const { order, started } = await work({ onFailure: 'block' }, async (job) => {
      if (isBroken) await failing(job)
      await wait.passed
    })
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    isBroken = false
    await first?.retry()
    await until('it runs again', () => started.length === 2)
    expect(await queue.skip(first?.id ?? '')).toBe(false)
    expect((await queue.position(first?.id ?? ''))?.ahead).toBe(0)
    wait.open()
    await until('both ran', () => order.length === 2)
    expect(order).toEqual([1, 2])
  })
})

test('the last job of a worker that closes wakes the next one when the server has no memory', async () => {
  const { queue, gate, worker } = await behindTheFirst()
  await queue.addBulk(jobs('a', 2))
  const client = fixture.redis()
  fixture.defer(() => client.config('SET', 'maxmemory', '0'))
  await client.config('SET', 'maxmemory', '1')
  const closed = worker.close()
  gate.open()
  await closed
  await client.config('SET', 'maxmemory', '0')
  expect(await queue.getCompletedCount()).toBe(1)
  expect(await plainQueue().getWaitingCount()).toBe(1)
})

describe('jobs that leave their lines', () => {
  test.each([
    ['drained', (queue: LockedQueue<Charge>) => queue.drain(true)],
    ['cleaned', (queue: LockedQueue<Charge>) => queue.clean(0, 10, 'wait')],
  ] satisfies [string, (queue: LockedQueue<Charge>) => Promise<unknown>][])(
    'have no place when they are %s',
    async (_, remove) => {
      const queue = makeQueue()
      await queue.addBulk(jobs('a', 1))
      await remove(queue)
      expect(await linesLeft()).toEqual([])
    },
  )

  test('have no place when their scheduler is removed, or the parent that waits for them', async () => {
    await turnSweepsOff()
    const { queue, gate, order } = await behindTheFirst()
    const lineOf = (customer = 'a'): Promise<string[]> =>
      fixture.redis().zrange(`bull:${fixture.namespace}:redlock:::line:${customer}`, '0', '-1')
    // Until a known time, so its first job counts as delayed. One that sleeps in line would stay.
    await queue.pauseResource('c', { until: Date.now() + 3_600_000 })
    const [limits] = await lineOf('c')
    await queue.upsertJobScheduler('s', { every: 60_000 }, { data: { customer: 'c', nr: 2 } })
    await until('its job waits in line', async () => (await lineOf('c')).length === 2)
    await queue.removeJobScheduler('s')
    expect(await lineOf('c')).toEqual([limits])
    const flows = fixture.closing(new FlowProducer({ connection: fixture.connection }))
    const { job: parent } = await flows.add({
      ...{ name: 'parent', queueName: fixture.namespace, data: { customer: 'b', nr: 3 } },
      children: [{ name: 'child', queueName: fixture.namespace, data: { customer: 'a', nr: 4 } }],
    })
    await until('the child waits in line', async () => (await lineOf()).length === 2)
    await (await queue.getJob(parent.id ?? ''))?.removeUnprocessedChildren()
    expect(await lineOf()).toHaveLength(1)
    gate.open()
    await until('the first and the parent ran', () => order.length === 2)
    expect(order.toSorted()).toEqual([1, 3])
  })

  test('have no place when they are cleaned after they failed and held it', async () => {
    const queue = makeQueue()
    const { worker } = await work({ onFailure: 'block' }, () => {
      throw new Error('broken')
    })
    await queue.addBulk(jobs('a', 1))
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    await worker.close()
    await queue.clean(0, 10, 'failed')
    expect(await linesLeft()).toEqual([])
  })

  test('are cleaned although nothing says when they were created', async () => {
    const queue = makeQueue()
    const { worker } = await work({}, () => {
      throw new Error('broken')
    })
    const [job] = await queue.addBulk(jobs('a', 1, 2))
    await until('both failed', async () => (await queue.getFailedCount()) === 2)
    await worker.close()
    await fixture.redis().hdel(`bull:${fixture.namespace}:${job?.id ?? ''}`, 'timestamp')
    expect(await queue.clean(0, 10, 'failed')).toHaveLength(2)
  })

  test.each(['leave their lines', 'are removed', 'are drained', 'are cancelled'])(
    'wait for neither a share nor a deadline any more when they %s',
    async (how) => {
      const queue = makeQueue({ weight: () => 1, maxWaitMs: 60_000 })
      // The first one is ready, and the second one has a deadline.
      const added = await queue.addBulk(jobs('a', 1, 2))
      if (how === 'are removed') for (const job of added) await job.remove()
      else if (how === 'are drained') await queue.drain()
      else if (how === 'are cancelled') {
        for (const { id = '' } of added.toReversed()) await queue.cancel(id)
      } else expect(await queue.leaveLines()).toBe(2)
      const key = `bull:${fixture.namespace}:redlock:::`
      expect(await fixture.redis().keys(`${key}ready*`)).toEqual([])
      expect(await fixture.redis().keys(`${key}deadlines`)).toEqual([])
    },
  )

  test.each([{}, { tenant: () => 'acme' }])(
    'wait as a plain queue knows it: %o',
    async (options) => {
      const queue = makeQueue({ within: 'priority', ...options })
      const data = (nr: number): Charge => ({ customer: 'a', nr })
      const jobs = [0, 1, 2, 3].map((nr) => ({
        ...{ name: 'charge', data: data(nr) },
        ...(nr === 3 && { opts: { priority: 5 } }),
      }))
      await queue.addBulk(jobs)
      await queue.add('charge', data(4), { delay: 600_000 })
      // Ids whose jobs were deleted by hand, as many as one script looks at.
      const gone = Array.from({ length: 1_000 }, (_, nr) => [2 ** 54, `gone ${nr}`]).flat()
      await fixture.redis().zadd(`bull:${fixture.namespace}:delayed`, ...gone)
      expect(await queue.leaveLines()).toBe(Object.keys(options).length === 0 ? 3 : 4)
      const plain = plainQueue()
      const counts = await plain.getJobCounts('wait', 'prioritized', 'delayed')
      expect(counts).toEqual({ wait: 3, prioritized: 1, delayed: 1 })
      const order: number[] = []
      const { namespace } = fixture
      const started = ({ data: { nr } }: Job<Charge>): Promise<unknown> =>
        Promise.resolve(order.push(nr))
      const worker = new Worker<Charge>(namespace, started, { connection: fixture.connection })
      fixture.defer(() => worker.close())
      await until('all have run', () => order.length === 4)
      expect(order).toEqual([0, 1, 2, 3])
      expect(await queue.leaveLines()).toBe(0)
    },
  )
})

describe('the first job of a line that a limit holds until a known time', () => {
  const inAnHour = (): number => Date.now() + 3_600_000
  const holds: [string, (queue: LockedQueue) => Promise<void>][] = [
    ['a pause', (queue) => queue.pauseResource('a', { until: inAnHour() })],
    ['a rate', (queue) => queue.setRate('a', { limit: 0.001, perMs: 3_600_000 })],
  ]

  test.each(holds)('leaves its line as the others do: %s', async (_, hold) => {
    const queue = makeQueue()
    await hold(queue)
    await fixture.redis().set(`bull:${fixture.namespace}:redlock:::rate:a`, String(inAnHour()))
    await queue.add('charge', { customer: 'b', nr: 9 }, { delay: 600_000 })
    await queue.addBulk(jobs('a', 1, 2, 3))
    expect(await queue.getDelayedCount()).toBe(2)
    expect(await queue.leaveLines()).toBe(3)
    const plain = plainQueue()
    expect(await plain.getJobCounts('wait', 'delayed')).toEqual({ wait: 3, delayed: 1 })
    const waiting = await plain.getWaiting()
    expect(waiting.map(({ data }) => data.nr)).toEqual([1, 2, 3])
  })

  test.each(holds)('is not replaced by a job with its deduplication id: %s', async (_, hold) => {
    const queue = makeQueue()
    await hold(queue)
    await fixture.redis().set(`bull:${fixture.namespace}:redlock:::rate:a`, String(inAnHour()))
    const deduplication = { id: 'once', replace: true }
    const first = await queue.add('charge', { customer: 'a', nr: 1 }, { deduplication })
    await queue.addBulk(jobs('a', 2))
    expect(await queue.getDelayedCount()).toBe(1)
    const again = await queue.add('charge', { customer: 'a', nr: 3 }, { deduplication })
    expect(again.id).toBe(first.id)
    expect((await queue.position(first.id ?? ''))?.ahead).toBe(0)
  })
})

describe('a job that comes before others by its priority starts while these wait for another line', () => {
  const cases: [string, number, boolean][] = [
    ['where it is added', 1, false],
    ['where it is added to a line of many slots', 3, false],
    ['where its priority changes', 1, true],
    ['where its priority changes in a line of many slots', 3, true],
  ]
  test.each(cases)('%s', async (_, slots, changes) => {
    await turnSweepsOff()
    const queue = makeQueue({ slots, within: 'priority' })
    const seen = await work({ slots })
    await queue.pauseResource('b')
    const add = (nr: number, customer: Customer, priority: number) =>
      queue.add('charge', { customer, nr }, { priority })
    for (const nr of upTo(slots + 1)) await add(nr, ['a', 'b'], 5)
    const job = await add(9, 'a', changes ? 6 : 1)
    if (changes) await job.changePriority({ priority: 1 })
    await until('it ran', () => seen.order.length === 1, 5_000)
    expect(seen.order).toEqual([9])
    await queue.resumeResource('b')
    await until('all ran', () => seen.order.length === slots + 2)
  })
})

test('with a rate too, a job that waits for another line leaves its slots to the others', async () => {
  await turnSweepsOff()
  const queue = makeQueue({ slots: 2, rate: () => ({ limit: 1_000, perMs: 1_000, burst: 10 }) })
  const gate = fixture.gate()
  const seen = await work({ slots: 2 }, ({ data }) => (data.nr < 2 ? gate.passed : pause(1)))
  await queue.pauseResource('b')
  await queue.addBulk([...jobs('a', 0, 1), ...jobs(['a', 'b'], 2), ...jobs('a', 3, 4)])
  await until('two run', () => seen.running === 2)
  gate.open()
  await until('the others ran', () => seen.order.length === 4, 5_000)
  await queue.resumeResource('b')
  await until('all ran', () => seen.order.length === 5)
  expect(seen.order.slice(2)).toEqual([3, 4, 2])
})

test.each([
  ['is added', false],
  ['has its priority raised', true],
])('a job that %s before one that waits for its next attempt starts', async (_, changes) => {
  await turnSweepsOff()
  const queue = makeQueue({ within: 'priority' })
  const seen = await work({}, ({ data }) =>
    data.nr === 0 ? Promise.reject(new Error('broken')) : pause(1),
  )
  const failing = { priority: 5, attempts: 2, backoff: 600_000 }
  await queue.add('charge', { customer: 'a', nr: 0 }, failing)
  await until('it waits again', async () => {
    return seen.started.length === 1 && (await queue.getDelayedCount()) === 1
  })
  const job = await queue.add('charge', { customer: 'a', nr: 1 }, { priority: changes ? 6 : 1 })
  if (changes) await job.changePriority({ priority: 1 })
  await until('the other one ran', () => seen.order.length === 1, 5_000)
})

test('a job whose priority is raised asks for no slot that is in use', async () => {
  await turnSweepsOff()
  const queue = makeQueue({ within: 'priority' })
  const gate = fixture.gate()
  const seen = await work({}, () => gate.passed)
  await queue.add('charge', { customer: 'a', nr: 0 }, { priority: 5 })
  await until('it runs', () => seen.running === 1)
  const job = await queue.add('charge', { customer: 'a', nr: 1 }, { priority: 5 })
  await job.changePriority({ priority: 1 })
  expect(await plainQueue().getDelayedCount()).toBe(1)
  gate.open()
  await until('both ran', () => seen.order.length === 2)
  expect(seen.requeued).toEqual([])
})

test('a queue that is drained keeps the jobs of schedulers, and no other', async () => {
  const queue = makeQueue()
  const gate = fixture.gate()
  const seen = await work({}, () => gate.passed)
  await queue.addBulk(jobs('a', 0))
  await until('it runs', () => seen.running === 1)
  const scheduled = (customer: Customer, nr: number) => ({ name: 'x', data: { customer, nr } })
  await queue.upsertJobScheduler('s', { every: 600_000 }, scheduled('a', 1))
  await until('its job sleeps', async () => (await queue.getWaitingCount()) === 1)
  await until('it sleeps', () => seen.requeued.length === 1)
  await queue.pause()
  await queue.upsertJobScheduler('t', { every: 600_000 }, scheduled('b', 2))
  await queue.addBulk([...jobs('b', 3), ...jobs('c', 4), ...jobs('a', 5)])
  await queue.drain()
  expect((await queue.getWaiting()).map(({ data }) => data.nr).sort()).toEqual([1, 2])
  await queue.resume()
  gate.open()
  await until('they ran', () => seen.order.length === 3)
  expect(await queue.getFailedCount()).toBe(0)
})

test('a job that is replaced while it waits for its next attempt lets its line go on', async () => {
  await turnSweepsOff()
  const queue = makeQueue()
  const deduplication = { id: 'once', replace: true }
  const delayed = { deduplication, delay: 1, attempts: 2, backoff: 600_000 }
  await queue.add('charge', { customer: 'a', nr: 1 }, delayed)
  const seen = await work({}, ({ data }) =>
    data.nr === 1 ? Promise.reject(new Error('broken')) : pause(1),
  )
  await until('it has failed', async () => {
    return seen.started.length === 1 && (await queue.getDelayedCount()) === 1
  })
  await queue.addBulk(jobs('a', 2))
  await queue.add('charge', { customer: 'a', nr: 3 }, { ...delayed, delay: 600_000 })
  await until('the next one runs', () => seen.order.length === 1, 5_000)
})

test('half a character in the message of an error harms no other job', async () => {
  const queue = makeQueue()
  await queue.addBulk([...jobs('a', 1), ...jobs('b', 2)])
  const [both, end] = [fixture.gate(), fixture.gate()]
  let started = 0
  // Null means none to BullMQ.
  await work({ concurrency: 2, limiter: null as never }, async ({ data }) => {
    if (++started === 2) both.open()
    await end.passed
    if (data.nr === 1) throw new Error('cut off: 🦩'.slice(0, -1))
  })
  await both.passed
  end.open()
  await until('both have ended', async () => (await queue.getJobCountByTypes('active')) === 0)
  expect(await queue.getJobCounts('completed', 'failed')).toEqual({ completed: 1, failed: 1 })
  expect((await queue.getFailed())[0]?.failedReason).toBe('cut off: \ufffd')
})

/** What a script that failed left is soon over. */
const lapsing = { leaseMs: 2_000, runRetryDelay: 20 }

test('a client hears an error that all jobs of a call have', async () => {
  const queue = makeQueue()
  await queue.addBulk(jobs('a', 1))
  const heard: unknown[] = []
  const reconnectOnError = (error: Error): false => {
    const { command } = error as Error & { readonly command?: { readonly args: unknown } }
    heard.push([error.message, JSON.stringify(command?.args)])
    return false
  }
  const [runs, end] = [fixture.gate(), fixture.gate()]
  const connected = { ...fixture.connection, reconnectOnError }
  await work({ ...lapsing, connection: connected }, async () => {
    runs.open()
    await end.passed
  })
  await runs.passed
  await fixture.redis().replicaof('127.0.0.1', 1)
  end.open()
  const ofFinish = expect.stringContaining('ends') as string
  const readonly = expect.stringContaining('READONLY') as string
  await until('it is heard', () => heard.length > 0)
  await fixture.redis().replicaof('NO', 'ONE')
  await until('it is done', async () => (await queue.getCompletedCount()) === 1)
  expect(heard).toContainEqual([readonly, ofFinish])
})

test('obliterate leaves no key', async () => {
  const queue = makeQueue()
  await queue.addBulk([...jobs('a', 1, 2, 3), ...jobs('b', 4)])
  await queue.setSlots('c', 2)
  await queue.pauseResource('a', { until: Date.now() + 60_000 })
  await queue.obliterate()
  expect(await fixture.redis().keys(`bull:${fixture.namespace}:*`)).toEqual([])
})

test('obliterate leaves no parent that waits for children of another queue', async () => {
  const queue = makeQueue()
  const other = fixture.plainQueue(`${fixture.namespace}-other`)
  await work({}, async (job, lease) => {
    const parent = { id: job.id ?? '', queue: job.queueQualifiedName }
    await other.add('child', {}, { parent })
    await job.moveToWaitingChildren(String(lease))
    throw new WaitingChildrenError()
  })
  await queue.add('charge', { customer: 'a', nr: 1 })
  await until('it waits', async () => (await queue.getWaitingChildrenCount()) === 1)
  await queue.obliterate()
  // A worker leaves them at any time.
  const left = await fixture.redis().keys(`bull:${fixture.namespace}:*`)
  expect(left.filter((key) => !/:(stalled-check|meta|redlock:::.*)$/.test(key))).toEqual([])
})

test('the error of one job harms no other that ends with it', async () => {
  const queue = makeQueue()
  await queue.addBulk([...jobs('a', 1), ...jobs('b', 2)])
  const [both, end] = [fixture.gate(), fixture.gate()]
  let started = 0
  const seen = await work({ ...lapsing, concurrency: 2 }, async () => {
    if (++started === 2) both.open()
    await end.passed
  })
  const errors: Error[] = []
  seen.worker.on('error', (error) => errors.push(error))
  let errorsBefore = 0
  seen.worker.once('completed', () => {
    errorsBefore = errors.length
  })
  await both.passed
  const line = `bull:${fixture.namespace}:redlock:::line:a`
  await fixture.redis().set(line, 'no line')
  end.open()
  await until('the other is done', async () => (await queue.getCompletedCount()) === 1)
  expect(await queue.getActiveCount()).toBe(1)
  await fixture.redis().del(line)
  await until('all are done', async () => (await queue.getCompletedCount()) === 2)
  expect(errorsBefore).toBeLessThan(2)
  expect(errors.join()).toContain('WRONGTYPE')
})

test('a job that was promoted behind one that runs is put back in line, and asks no master', async () => {
  const { queue, gate, worker, started, order } = await behindTheFirst()
  const statuses: string[] = []
  worker.on('requeued', (_job, { status }) => statuses.push(status))
  const job = await queue.add('charge', { customer: 'a', nr: 2 }, { delay: 60_000 })
  await job.promote()
  await until('the second was put back', () => statuses.length === 1)
  gate.open()
  await until('both are done', () => order.length === 2)
  expect(statuses).toEqual(['in-line'])
  expect(started.map(({ nr }) => nr)).toEqual([1, 2])
})

test('a script that is used for the first time joins no pipeline that was made before', async () => {
  const options = { maxRetriesPerRequest: null, enableAutoPipelining: true }
  const client = new Redis({ ...fixture.connection, ...options })
  fixture.defer(() => client.quit())
  const queue = makeQueue({ connection: client })
  await queue.waitUntilReady()
  const key = `${fixture.namespace}:one`
  await client.set(key, '1')
  const calls = [client.get(key), queue.getLimits('a'), client.get(key)]
  expect(await Promise.all(calls)).toEqual(['1', {}, '1'])
})
