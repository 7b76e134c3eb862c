/** What starts while the server of the first shard refuses to be asked. */
import { expect, test } from 'vitest'
import type { ShardedQueueEvents, ShardedWorker } from '../../src/index.ts'
import { until } from '../fixtures.ts'
import { tell } from '../support/ask.ts'
import { watchLeaks } from '../support/leaks.ts'
import { charges, CUSTOMERS, type Charge } from './charge.ts'
import { IS_FULL, useShards } from './cluster.ts'

const fixture = useShards()

/** Jobs in all shards, and a server that is full. Returns how to make room. */
async function full(): Promise<() => Promise<unknown>> {
  const server = fixture.fleet.queue
  await fixture.queue().addBulk(charges(1))
  const makeRoom = (): Promise<unknown> => IS_FULL.end(server)
  fixture.defer(makeRoom)
  await IS_FULL.begin(server)
  return makeRoom
}

interface Started {
  readonly worker: ShardedWorker<Charge>
  readonly ran: string[]
  readonly errors: Error[]
}

async function started(shards = 4): Promise<Started> {
  const ran: string[] = []
  const errors: Error[] = []
  const worker = await fixture.worker(({ data }) => Promise.resolve(ran.push(data.customer)), {
    ...{ shards, concurrency: 4 },
  })
  worker.on('error', (error) => errors.push(error))
  return { worker, ran, errors }
}

test('it says so, and begins when it is answered', async () => {
  const makeRoom = await full()
  const { worker, ran, errors } = await started()
  expect([worker.isRunning(), worker.isStarting()]).toEqual([true, true])
  await until('it says so', () => errors.some(({ message }) => message.startsWith('OOM')))
  expect(ran).toEqual([])
  await makeRoom()
  await until('all ran', () => ran.length === CUSTOMERS.length)
  expect(worker.isStarting()).toBe(false)
})

test('pause, resume and close need no answer', async () => {
  const makeRoom = await full()
  const { worker, ran, errors } = await started()
  await until('it says so', () => errors.length > 0)
  await worker.pause()
  expect(worker.isPaused()).toBe(true)
  await worker.resume()
  expect(worker.isPaused()).toBe(false)
  const other = await started()
  await other.worker.close()
  await makeRoom()
  await until('all ran', () => ran.length === CUSTOMERS.length)
  expect(other.ran).toEqual([])
})

test('a worker that closes before its server has answered leaves no timer', async () => {
  const redlock = await fixture.redlock()
  const leaks = watchLeaks({ settleMs: 4_000 })
  const worker = await fixture.worker(() => Promise.resolve(), {
    ...{ connection: { port: 1 }, shards: 2, redlock },
  })
  let errors = 0
  worker.on('error', () => errors++)
  await until('it has tried', () => errors > 2)
  await worker.close()
  await redlock.close()
  await leaks.assertNone()
})

test('another number of shards is told once, also where it is resumed', async () => {
  const makeRoom = await full()
  const { worker, errors } = await started(2)
  await until('it says so', () => errors.length > 0)
  await makeRoom()
  const differ = (): number =>
    errors.filter((one) => 'code' in one && one.code === 'SHARDS_DIFFER').length
  await until('the difference is told', () => differ() > 0)
  await until('all shards have ended', () => !worker.isRunning())
  await worker.pause()
  await worker.resume()
  await until('it has ended', () => !worker.isRunning())
  expect(differ()).toBe(1)
})

test('events are heard when it answers', async () => {
  const server = fixture.fleet.queue
  const queue = fixture.queue()
  await queue.waitUntilReady()
  const allow = (): Promise<unknown> => tell(server, 'ACL', 'SETUSER', 'default', '+hget')
  fixture.defer(allow)
  await tell(server, 'ACL', 'SETUSER', 'default', '-hget')
  const errors: string[] = []
  const make = (): ShardedQueueEvents =>
    fixture.events().on('error', ({ message }) => errors.push(message))
  const [events, other] = [make(), make()]
  await until('both say so', () => errors.filter((one) => one.startsWith('NOPERM')).length === 2)
  await other.close()
  await allow()
  const heard = new Set<string>()
  events.on('waiting', ({ jobId }) => heard.add(jobId.slice(0, 1)))
  await until('all shards are heard', async () => {
    await queue.addBulk(charges(1))
    return heard.size === 4
  })
})
