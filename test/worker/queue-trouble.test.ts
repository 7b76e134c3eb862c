/**
 * The queue's Redis refuses, forgets or falls silent: no attempt is used, and a worker that stops
 * ends.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Worker, type Job } from 'bullmq'
import { Redis } from 'ioredis'
import { describe, expect, test, vi } from 'vitest'
import { systemClock, withinMs } from '../../src/clock.ts'
import type { LockedWorker } from '../../src/index.ts'
import {
  JobLockLostError,
  LockedQueue,
  QueueUnreachableError,
  ShardedQueueEvents,
  ShardedQueue,
} from '../../src/index.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { lockedJobs } from '../support/locked-jobs.ts'
import { watchLeaks } from '../support/leaks.ts'
import { Program } from '../workers/program.ts'
import { startProxy } from '../support/proxy.ts'

const fixture = useFleet({ masters: 3 })
interface Charge {
  readonly nr: number
}
const { makeQueue, work } = lockedJobs<Charge>(fixture, ({ nr }) => `customer:${nr % 10}`)

const CUT = ['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes']
/** How each refusal begins and ends. BullMQ gets jobs out in between, so that they meet it. */
const REFUSALS: Readonly<Record<string, readonly [begin: string[], end: string[]]>> = {
  NOPERM: [
    ['ACL', 'SETUSER', 'jobs', 'resetkeys', '~bull:*'],
    ['ACL', 'SETUSER', 'jobs', 'allkeys'],
  ],
  'maxmemory reached': [
    ['CONFIG', 'SET', 'maxmemory', '1'],
    ['CONFIG', 'SET', 'maxmemory', '0'],
  ],
  'a replica for a moment': [
    ['REPLICAOF', '127.0.0.1', '1'],
    ['REPLICAOF', 'NO', 'ONE'],
  ],
  'connections are cut': [CUT, CUT],
}

describe('before the processor is called, no attempt is used', () => {
  test.each(Object.entries(REFUSALS))('%s', async (_what, [begin, end]) => {
    const redis = fixture.redis()
    await redis.call('ACL', 'SETUSER', 'jobs', 'on', '>secret', 'allkeys', 'allchannels', '+@all')
    const queue = fixture.plainQueue<Charge>()
    const { host, port } = fixture.fleet.queue
    const connection = { host, port, username: 'jobs', password: 'secret' }
    await queue.addBulk(
      Array.from({ length: 200 }, (_, nr) => ({ name: 'charge', data: { nr }, opts: {} })),
    )
    const ran: string[] = []
    const process = ({ id = '' }: Job): Promise<void> => {
      ran.push(id)
      return Promise.resolve()
    }
    const dedupe = { resultTtlMs: 60_000, key: ({ id = '' }: Job) => id }
    const strike = async (): Promise<void> => {
      await redis.call(...(begin as [string]))
      await delay(100)
      await redis.call(...(end as [string]))
    }
    const worker = await work(process, {
      connection,
      concurrency: 20,
      dedupe,
    })
    for (let times = 0; times < 3; times++) {
      await worker.waitUntilReady()
      await strike()
      await delay(30)
    }
    await until(
      'all jobs have ended',
      async () => {
        const { failed = 0, completed = 0 } = await queue.getJobCounts('failed', 'completed')
        return failed + completed === 200
      },
      40_000,
    )
    const failed = await queue.getFailed()
    expect(failed.map(({ failedReason }) => failedReason)).toEqual([])
    const done = await queue.getCompleted()
    expect(done.filter(({ attemptsMade }) => attemptsMade !== 1)).toEqual([])
    expect([...new Set(ran)]).toHaveLength(200)
  })
})

/** How each refusal of a job's end begins and ends. */
const REFUSED_ENDS = {
  READONLY: REFUSALS['a replica for a moment'] ?? [[], []],
  NOREPLICAS: [
    ['CONFIG', 'SET', 'min-replicas-to-write', '1'],
    ['CONFIG', 'SET', 'min-replicas-to-write', '0'],
  ],
  NOPERM: [
    ['ACL', 'SETUSER', 'default', '-eval', '-evalsha'],
    ['ACL', 'SETUSER', 'default', '+eval', '+evalsha'],
  ],
} satisfies Readonly<Record<string, readonly [begin: string[], end: string[]]>>

describe.each(['completed', 'failed'] as const)('the end of a job that has %s', (state) => {
  const refusals = Object.entries(REFUSED_ENDS)
  test.each(refusals)(
    'is taken when the server takes it again: %s',
    async (_what, [begin, end]) => {
      const redis = fixture.redis()
      const gate = fixture.gate()
      let runs = 0
      await work(async () => {
        runs += 1
        await gate.passed
        if (state === 'failed') throw new Error('no money')
      })
      const queue = fixture.plainQueue<Charge>()
      const job = await queue.add('charge', { nr: 1 })
      await until('it runs', () => runs > 0)
      await redis.call(...(begin as [string]))
      gate.open()
      await delay(300)
      await redis.call(...(end as [string]))
      await until('it has ended', async () =>
        ['completed', 'failed'].includes(await job.getState()),
      )
      const ended = await queue.getJob(job.id ?? '')
      expect([await job.getState(), ended?.attemptsMade, runs]).toEqual([state, 1, 1])
      expect(ended?.failedReason).toBe(state === 'failed' ? 'no money' : undefined)
    },
  )
})

test('a job that is done ends on a full server, also where its lock has run out', async () => {
  const redis = fixture.redis()
  fixture.defer(() => redis.config('SET', 'maxmemory', '0'))
  let runs = 0
  const queue = fixture.plainQueue<Charge>()
  await work(
    async () => {
      runs += 1
      await redis.config('SET', 'maxmemory', '1')
      await delay(700)
    },
    { lockDuration: 300 },
  )
  const job = await queue.add('charge', { nr: 1 })
  await until('it is done', () => job.isCompleted())
  expect(await redis.config('GET', 'maxmemory')).toEqual(['maxmemory', '1'])
  expect(runs).toBe(1)
})

test('a worker whose every fetch is refused has time for all else, and closes', async () => {
  const redis = fixture.redis()
  // BullMQ asks for INFO before its first command.
  await redis.call('ACL', 'SETUSER', 'blind', 'on', '>secret', '~*', '&*', '+@all', '-info')
  await using program = new Program('test/worker/refused-child.ts', [
    ...[fixture.namespace, String(fixture.fleet.queue.port), 'blind', fixture.namespace],
    ...fixture.fleet.urls,
  ])
  await program.line(/NOPERM/)
  const [, errors] = await program.line(/^(\d+) errors in a second/)
  expect(Number(errors)).toBeGreaterThan(2)
  expect(Number(errors)).toBeLessThan(50)
  program.kill('SIGTERM')
  expect((await program.end()).code).toBe(0)
})

test('a user that is denied one command of the scripts: no half of one is run, and all goes on when it is allowed', async () => {
  const redis = fixture.redis()
  const set = (...rules: string[]): Promise<unknown> =>
    redis.call('ACL', 'SETUSER', 'clerk', ...rules)
  await set('reset', 'on', '>secret', '~*', '&*', '+@all', '-lpush', '-hincrby')
  const { host, port } = fixture.fleet.queue
  const connection = { host, port, username: 'clerk', password: 'secret' }
  const queue = makeQueue({ connection })
  const ran: number[] = []
  const worker = await work(({ data }) => Promise.resolve(ran.push(data.nr)), { connection })
  const errors: unknown[] = []
  worker.on('error', (error) => errors.push(error))
  const jobs = async (): Promise<readonly string[]> =>
    (await redis.keys(`bull:${fixture.namespace}:[1-9]*`)).sort()
  const denied = (...commands: string[]): unknown =>
    expect.objectContaining({ code: 'QUEUE_DENIED', queue: `bull:${fixture.namespace}`, commands })
  const add = (nr: number): Promise<unknown> => queue.add('charge', { nr })

  await expect(add(1)).rejects.toEqual(denied('HINCRBY', 'LPUSH'))
  await expect(queue.setRate('customer:1', { limit: 1, perMs: 1_000 })).rejects.toEqual(
    denied('LPUSH'),
  )
  const shards = fixture.closing(
    new ShardedQueue(`${fixture.namespace}-shards`, {
      ...{ connection, shards: 2, resource: () => 'customer:1' },
    }),
  )
  const queueOfShard = expect.stringMatching(/^\{bull-\d-\d+\}:/) as unknown
  await expect(shards.add('charge', {})).rejects.toMatchObject({
    ...{ code: 'QUEUE_DENIED', queue: queueOfShard },
  })
  await until('the worker fetches', () => errors.length > 1)
  expect(errors).toContainEqual(denied('HINCRBY', 'LPUSH'))
  expect(await jobs()).toEqual([])
  // What only reads asks for nothing.
  expect(await queue.getJobCounts('waiting')).toEqual({ waiting: 0 })
  await set('+lpush', '+hincrby')
  await add(1)
  await until('it runs', () => ran.length === 1)

  await set('-lpush')
  // The server tells a script of it when that calls the command.
  await expect(add(2)).rejects.toThrow(/can't run this command|ACL failure/)
  const left = await jobs()
  await expect(add(3)).rejects.toEqual(denied('LPUSH'))
  expect(await jobs()).toEqual(left)
  await set('+lpush')
  await add(3)
  await until('it runs', () => ran.includes(3))

  // After a failover another server may have other users.
  await set('-lpush')
  const isAway = once(LineBackend.of(queue), 'close')
  await redis.call('CLIENT', 'KILL', 'USER', 'clerk')
  await isAway
  const before = await jobs()
  await expect(add(4)).rejects.toEqual(denied('LPUSH'))
  expect(await jobs()).toEqual(before)
})

/** @param heard what a client has sent: it answers, or passes it on. */
async function relayed(
  heard: (sent: Buffer, client: Socket, server: Socket) => unknown,
): Promise<{ readonly host: string; readonly port: number }> {
  const { host, port } = fixture.fleet.queue
  const relay = createServer((client) => {
    const server = connect(port, host)
    const end = (): void => {
      client.destroy()
      server.destroy()
    }
    for (const side of [client, server]) side.on('error', end).on('close', end)
    server.pipe(client)
    client.on('data', (sent) => heard(sent, client, server))
  })
  await new Promise<void>((resolve) => relay.listen(0, host, resolve))
  fixture.defer(() => void relay.close())
  return { host, port: (relay.address() as AddressInfo).port }
}

test('a server that refuses while BullMQ asks for its version serves when it takes commands', async () => {
  let asked = 0
  const connection = await relayed((sent, client, server) => {
    // The client asks for INFO to see whether the server is ready, then BullMQ does.
    if (sent.includes('\r\ninfo\r\n')) asked++
    if (asked === 2) client.write('-LOADING Redis is loading the dataset in memory\r\n')
    else server.write(sent)
  })
  const queue = makeQueue({ connection })
  queue.on('error', () => undefined)
  await queue.add('charge', { nr: 1 })
  expect(asked).toBe(3)
  expect(await queue.getWaitingCount()).toBe(1)
})

test('a job whose end meets a server that takes no more clients is done once', async () => {
  let isFull = false
  const address = await relayed((sent, client, server) =>
    isFull ? client.end('-ERR max number of clients reached\r\n') : server.write(sent),
  )
  const gate = fixture.gate()
  let runs = 0
  // Else the client gives that reply to a command of its own.
  const connection = { ...address, disableClientInfo: true }
  const run = async (): Promise<void> => {
    runs++
    await gate.passed
  }
  const worker = await work(run, { connection })
  const errors: string[] = []
  worker.on('error', ({ message }) => errors.push(message))
  const queue = fixture.plainQueue<Charge>()
  const job = await queue.add('charge', { nr: 1 })
  await until('it runs', () => runs === 1)
  isFull = true
  gate.open()
  await until('it is refused', () => errors.some((said) => said.includes('max number of clients')))
  await delay(1_500)
  isFull = false
  await until('it has ended', async () => (await job.getState()) === 'completed')
  expect([runs, (await queue.getJob(job.id ?? ''))?.attemptsMade]).toEqual([1, 1])
})

test('a replica that refuses many calls at once is left once', async () => {
  const warnings: Error[] = []
  const warn = (warning: Error): unknown => warnings.push(warning)
  process.on('warning', warn)
  const [redis, queue] = [fixture.redis(), makeQueue()]
  await queue.waitUntilReady()
  await redis.replicaof('127.0.0.1', '1')
  fixture.defer(() => redis.replicaof('NO', 'ONE'))
  const names = Array.from({ length: 30 }, (_, nr) => `customer:${nr}`)
  const calls = await Promise.allSettled(names.map((name) => queue.resumeResource(name)))
  expect(calls.map(({ status }) => status)).toEqual(names.map(() => 'rejected'))
  await redis.replicaof('NO', 'ONE')
  const answers = (): Promise<boolean> =>
    queue.resumeResource('customer:1').then(
      () => true,
      () => false,
    )
  await until('it answers', answers)
  process.off('warning', warn)
  expect(warnings).toEqual([])
})

test('a queue that still loads its data: no attempt is used, and the jobs run when it has', async () => {
  const server = fixture.closing(await startServer())
  const connection = { host: server.host, port: server.port }
  const queue = fixture.plainQueue<Charge>(fixture.namespace, { connection })
  queue.on('error', () => undefined)
  await queue.addBulk(
    Array.from({ length: 20 }, (_, nr) => ({ name: 'charge', data: { nr }, opts: {} })),
  )
  await work(() => delay(100), { connection, concurrency: 2 })
  await until('some are done', async () => (await queue.getCompletedCount()) > 2)
  const redis = new Redis(server.url)
  await redis.save()
  await redis.quit()
  // Some twenty keys, each of which takes 50 ms to load.
  const slowly = { 'key-load-delay': '50000', 'loading-process-events-interval-bytes': '1024' }
  const restarted = server.restart({ config: slowly })
  const loading = new Redis({ ...connection, enableReadyCheck: false, retryStrategy: () => 20 })
  loading.on('error', () => undefined)
  fixture.defer(() => loading.quit())
  await until('it loads', () =>
    loading.get('x').then(
      () => false,
      (error: unknown) => String(error).includes('LOADING'),
    ),
  )
  await restarted
  await until('all are done', async () => (await queue.getCompletedCount()) === 20)
  const jobs = await queue.getJobs(['completed'])
  expect(jobs.filter(({ attemptsMade }) => attemptsMade !== 1)).toEqual([])
  expect(await queue.getFailedCount()).toBe(0)
})

/** What keeps a queue's server from answering, and what its worker says of it. */
const SILENCES: Readonly<Record<string, (server: TestServer, redis: Redis) => Promise<unknown>>> = {
  'connect ECONNREFUSED': (server) => server.kill(),
  'it is frozen, overloaded or cut off': (server) => server.freeze(),
  'ERR max number of clients reached': async (_server, redis) => {
    await redis.config('SET', 'maxclients', '1')
    await redis.call(...(CUT as [string]))
  },
  'LOADING Redis is loading the dataset': async (server, redis) => {
    // Of texts that no compression makes short, so that it answers while it loads.
    for (let nr = 0; nr < 200; nr++) await redis.set(`k${nr}`, randomBytes(1_500).toString('hex'))
    await redis.save()
    const slowly = { 'key-load-delay': '50000', 'loading-process-events-interval-bytes': '1024' }
    await server.kill()
    void server.restart({ config: slowly }).catch(() => undefined) // Closed while it loads.
  },
}

const hasSaid = async (why: string): Promise<void> => {
  const server = fixture.fleet.queue
  const redis = new Redis(server.url, { retryStrategy: () => null })
  redis.on('error', () => undefined)
  fixture.defer(() => {
    redis.disconnect()
  })
  const worker = await work(() => Promise.resolve())
  const errors: unknown[] = []
  worker.on('error', (error) => errors.push(error))
  await worker.waitUntilReady()
  await SILENCES[why]?.(server, redis)
  const said = (): unknown => errors.find((error) => error instanceof QueueUnreachableError)
  await until('it is told', () => said() !== undefined, 20_000)
  expect(String(said())).toMatch(new RegExp(`has not answered for \\d+ ms: ${why}`))
}
const reasons = Object.keys(SILENCES)
test.each(reasons)('a silent server, and why: %s', fixture.together(reasons, hasSaid))

/** Pauses and resumes while the server is away, begun so many milliseconds after it went. */
const PAUSES = [1, 2].flatMap((pauses) => [0, 200, 1_200].map((ms) => ({ pauses, ms })))

const OUTAGES = ['killed', 'refusing', 'silent'] as const
test.each(OUTAGES)(
  'a worker that is paused while its server is %s runs jobs when it is back',
  fixture.together(OUTAGES, async (how) => {
    const server = fixture.fleet.queue
    const proxy = fixture.closing(await startProxy(server.port))
    const [begin, end] = {
      killed: [() => server.kill(), () => server.restart()],
      refusing: [() => proxy.refuse(), () => proxy.pass()],
      silent: [() => server.freeze(), () => server.thaw()],
    }[how] as [() => Promise<void>, () => Promise<void>]
    const connection = { port: how === 'refusing' ? proxy.port : server.port }
    const redlock = await fixture.redlock()
    const ran = new Set<string>()
    const process = ({ name }: Job): Promise<unknown> => Promise.resolve(ran.add(name))
    const starting = PAUSES.map((_, nr) => work(process, { connection, redlock }, `queue-${nr}`))
    const workers = await Promise.all(starting)
    await Promise.all(workers.map((worker) => worker.waitUntilReady()))
    await until('they fetch', () => workers.every((each) => each.isRunning() && !each.isStarting()))
    await delay(200) // Now they wait for jobs.
    await begin()
    const pausing = PAUSES.map(async ({ pauses, ms }, index) => {
      await delay(ms)
      for (let times = 0; times < pauses; times++) {
        void workers[index]?.pause()
        await delay(100)
        await workers[index]?.resume()
      }
    })
    await Promise.all(pausing)
    await end()
    const names = PAUSES.map((_, index) => `queue-${index}`)
    for (const [nr, name] of names.entries()) {
      const queue = fixture.plainQueue<object>(name, { connection: { port: server.port } })
      await queue.add(name, { nr })
    }
    await until('all ran', () => ran.size === names.length, 10_000)
  }),
)

test('a worker that is resumed while it pauses looks for stalled jobs, and does not say that it has paused', async () => {
  const { connection } = fixture
  const dead = new Worker(fixture.namespace, null, { connection, lockDuration: 3_000 })
  fixture.defer(() => dead.close())
  await fixture.plainQueue().add('charge', { nr: 1 })
  await dead.getNextJob('token')
  await fixture.plainQueue().add('charge', { nr: 2 })
  const [ran, gate, slow] = [new Set<unknown>(), fixture.gate(), fixture.gate()]
  const run = async ({ id }: Job): Promise<void> => {
    ran.add(id)
    await gate.passed
  }
  const worker = await work(run, { stalledInterval: 200 })
  const told: string[] = []
  for (const event of ['paused', 'resumed'] as const) worker.on(event, () => told.push(event))
  await until('it runs', () => ran.size === 1)
  const lines = LineBackend.of(worker)
  const reconnect = lines.reconnectBlocking.bind(lines)
  // As while its server is slow.
  vi.spyOn(lines, 'reconnectBlocking').mockImplementationOnce(async () => {
    await reconnect()
    await slow.passed
  })
  void worker.pause()
  await delay(300) // It has disconnected.
  gate.open()
  await until('it runs no job', () => !worker.isRunning())
  await delay(300) // It has connected.
  await worker.resume()
  slow.open()
  await delay(500) // BullMQ's `pause` has ended.
  await until('it has run the job of the dead worker', () => ran.size === 2, 10_000)
  expect(told).toEqual(['resumed'])
})

async function closesWhileSilent(): Promise<void> {
  const { queue: server } = fixture.fleet
  const queue = new LockedQueue('calls', { connection: { port: server.port }, resource: () => 'a' })
  await queue.waitUntilReady()
  await server.freeze()
  const events = new ShardedQueueEvents('calls', { connection: { port: 1 }, shards: 2 })
  events.on('error', () => undefined)
  const closed = Promise.all([queue.close(), events.close()])
  expect(await withinMs(systemClock, 10_000, closed)).toBeDefined()
}

async function closesWhenSlowServerHasTaken(): Promise<void> {
  const proxy = fixture.closing(await startProxy(fixture.fleet.queue.port))
  const queue = new LockedQueue<Charge>(fixture.namespace, {
    connection: { url: proxy.url },
    resource: ({ nr }) => `customer:${nr}`,
  })
  await queue.waitUntilReady()
  let delayMs = 0
  proxy.delay({ repliesMs: () => (delayMs += 3_000) })
  const adds: Promise<unknown>[] = []
  for (let nr = 0; nr < 2; nr++) {
    adds.push(queue.add('charge', { nr }))
    await delay(100)
  }
  adds.push(queue.close())
  expect((await Promise.allSettled(adds)).map(({ status }) => status)).toEqual(
    adds.map(() => 'fulfilled'),
  )
}

/** Each waits for seconds. */
const PATIENT: Readonly<Record<string, () => Promise<void>>> = {
  'a queue closes while its server is silent, and a listener while there is none':
    closesWhileSilent,
  'a queue closes when its slow server has taken what was added': closesWhenSlowServerHasTaken,
}
const patient = Object.keys(PATIENT)
test.each(patient)(
  '%s',
  fixture.together(patient, async (title) => PATIENT[title]?.()),
)

test('a worker whose given client was closed says so, and goes on when it is connected again', async () => {
  const connection = new Redis(fixture.fleet.queue.url, { maxRetriesPerRequest: null })
  fixture.defer(() => {
    connection.disconnect()
  })
  let runs = 0
  // A fetch that met the closed client is tried again after `runRetryDelay`, 15 s by default.
  const retried = { runRetryDelay: 100 }
  const worker = await work(() => Promise.resolve((runs += 1)), { connection, ...retried })
  const errors: string[] = []
  worker.on('error', ({ message }) => errors.push(message))
  await worker.waitUntilReady()
  await connection.quit()
  await until('it says so', () => errors.some((each) => each.includes('connect it again')), 15_000)
  await connection.connect()
  await fixture.plainQueue<Charge>().add('charge', { nr: 1 })
  await until('the job runs', () => runs === 1, 10_000)
})

describe('a worker that stops', () => {
  test.each(['close', 'drain'] as const)(
    'by %s while it is paused and was never connected: ends its pause',
    async (how) => {
      const worker = await work(() => Promise.resolve(), { connection: { port: 1 } })
      await delay(300) // It waits for its next try.
      const ended = [worker.pause(), how === 'close' ? worker.close() : worker.drain()]
      expect(await withinMs(systemClock, 10_000, Promise.all(ended))).toBeDefined()
    },
  )

  const states = ['there', 'away', 'silent']
  test.each(states)(
    'after it was paused and resumed while its server was %s: leaves no connection',
    fixture.together(states, async (how) => {
      const proxy = fixture.closing(await startProxy(fixture.fleet.queue.port))
      const redlock = await fixture.redlock()
      const connection = { url: proxy.url }
      const start = (): Promise<LockedWorker> =>
        work(() => Promise.resolve(), { redlock, connection })
      const workers = await Promise.all(Array.from({ length: 10 }, start))
      await Promise.all(workers.map((worker) => worker.waitUntilReady()))
      await delay(300) // They wait for jobs.
      if (how !== 'there') await proxy.refuse()
      for (const worker of workers) {
        void worker.pause()
        await worker.resume()
      }
      if (how === 'silent') await proxy.drop()
      await delay(1_500) // They have tried again.
      await Promise.all(workers.map((worker) => worker.close(how === 'silent')))
      await delay(100)
      const { connections } = proxy.counters
      await proxy.pass()
      await delay(1_500)
      expect(proxy.counters).toMatchObject({ connections, open: 0 })
    }),
  )

  test('just after a check for stalled jobs has failed: leaves no timer', async () => {
    const redlock = await fixture.redlock()
    const redis = fixture.redis()
    await redis.ping()
    const [begin, end] = REFUSALS['a replica for a moment'] ?? [[], []]
    const leaks = watchLeaks({ settleMs: 2_000 })
    const worker = await work(() => Promise.resolve(), { redlock, stalledInterval: 50 })
    await redis.call(...(begin as [string]))
    fixture.defer(() => redis.call(...(end as [string])))
    await delay(500) // Ten checks.
    await redis.call(...(end as [string]))
    await Promise.all([worker.close(), redlock.close()])
    await leaks.assertNone()
  })

  test('while its client connects anew: leaves no connection', async () => {
    const worker = await work(() => Promise.resolve())
    await worker.waitUntilReady()
    const lines = LineBackend.of(worker)
    const client = (await lines.blockingConnection?.client) as unknown as Redis
    const closed = new Promise((resolve) => client.once('close', resolve))
    client.disconnect()
    await closed
    const connecting = lines.reconnectBlocking()
    lines.endBlocking() // As its close begins.
    await Promise.allSettled([connecting])
    await delay(300)
    expect(client.status).not.toBe('ready')
  })

  test('while it pauses because its connection has ended: closes at once', async () => {
    const connection = new Redis(fixture.fleet.queue.url, { maxRetriesPerRequest: null })
    await connection.quit()
    const worker = await work(() => Promise.resolve(), { connection })
    const delays = vi.spyOn(worker, 'delay')
    await until('it pauses', () => delays.mock.calls.some(([ms = 0]) => ms > 1_000))
    const closing = performance.now()
    await worker.close()
    expect(performance.now() - closing).toBeLessThan(1_000)
  })

  test('while its server is silent: leaves the client that it was given', async () => {
    const server = fixture.closing(await startServer())
    const connection = new Redis(server.url, { maxRetriesPerRequest: null })
    fixture.defer(() => {
      connection.disconnect()
    })
    const worker = await work(() => Promise.resolve(), { connection, autorun: false })
    await worker.waitUntilReady()
    await server.freeze()
    void worker.run()
    await until('it fetches', () => worker.isRunning() && !worker.isStarting())
    await worker.close()
    await server.thaw()
    expect(await connection.ping()).toBe('PONG')
  })

  test('with its Redlock, at the same moment: the signal aborts, and the job is requeued', async () => {
    const queue = fixture.plainQueue<Charge>()
    const reasons: unknown[] = []
    const redlock = await fixture.redlock()
    const worker = await work(
      async (_job, lease) => {
        reasons.push(undefined)
        reasons[0] = await aborted(lease.signal)
        throw reasons[0] as Error
      },
      { redlock },
    )
    const job = await queue.add('charge', { nr: 1 })
    await until('the job runs', () => reasons.length > 0)
    await Promise.all([worker.close(), redlock.close()])
    expect(reasons[0]).toMatchObject({ reason: expect.stringContaining('closed') as string })
    const given = await queue.getJob(job.id ?? '')
    expect([await given?.getState(), given?.attemptsMade]).toEqual(['delayed', 0])
    await work(() => Promise.resolve())
    await until('it is done', async () => job.isCompleted())
  })

  test('close and drain end when connections broke just now, or a moment before', async () => {
    const ended = [0, 200].flatMap((ms) =>
      (['close', 'drain'] as const).map(async (how) => {
        const proxy = fixture.closing(await startProxy(fixture.fleet.queue.port))
        const worker = await work(() => Promise.resolve(), { connection: { url: proxy.url } })
        await worker.waitUntilReady()
        await until('it fetches', () => worker.isRunning() && !worker.isStarting())
        proxy.reset()
        await delay(ms)
        await (how === 'close' ? worker.close() : worker.drain({ timeoutMs: 500 }))
      }),
    )
    expect(await withinMs(systemClock, 10_000, Promise.all(ended))).toHaveLength(4)
  })
})

test('a worker that is cut off from the queue alone stops its job when its lock has run out', async () => {
  const proxy = fixture.closing(await startProxy(fixture.fleet.queue.port))
  const queue = fixture.plainQueue<Charge>()
  let reason: unknown
  let isRunning = false
  const worker = await work(
    async (_job, lease) => {
      isRunning = true
      reason = await aborted(lease.signal)
      throw reason as Error
    },
    { connection: { url: proxy.url }, lockDuration: 1_000 },
  )
  await queue.add('charge', { nr: 1 })
  await until('the job runs', () => isRunning)
  await proxy.drop()
  const cutAt = performance.now()
  await until('its signal aborts', () => reason !== undefined)
  expect(performance.now() - cutAt).toBeLessThan(5_000)
  expect(reason).toBeInstanceOf(JobLockLostError)
  const other = await fixture.redlock()
  const lease = await other.acquire('customer:1', { waitMs: 5_000 })
  await lease.release()
  await proxy.pass()
  await worker.close(true)
})
