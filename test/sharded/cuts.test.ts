/**
 * The server of one shard hangs, refuses or dies for longer than BullMQ's locks last: no job that
 * is done is done again, none is lost, none overtakes another, and the other shards go on.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import type { LeasedProcessor, ShardedQueueOptions, ShardedWorkerOptions } from '../../src/index.ts'
import { shardOf } from '../../src/sharded/placement.ts'
import type { TestServer } from '../../src/testing/index.ts'
import { until } from '../fixtures.ts'
import { CUSTOMERS, resourceOf, type Charge } from './charge.ts'
import { useCluster } from './cluster.ts'

const fixture = useCluster()
const LOCK_MS = 1_000
const OUTAGE_MS = 3 * LOCK_MS
const EACH = 20
const shardOfCustomer = (customer: string): number => shardOf([`customer:${customer}`], 4)
const AWAY = shardOfCustomer('ann')
const isAway = ({ customer }: Charge): boolean => shardOfCustomer(customer) === AWAY
/** Redis has written what it has taken. */
const AOF = { appendonly: 'yes', appendfsync: 'always' }

interface Outage {
  readonly begin: (node: TestServer, redis: Redis) => Promise<unknown>
  readonly end: (node: TestServer, redis: Redis) => Promise<unknown>
}
const OUTAGES: Readonly<Record<string, Outage>> = {
  hangs: { begin: (node) => node.freeze(), end: (node) => node.thaw() },
  'is full': {
    begin: (_, redis) => redis.config('SET', 'maxmemory', '1'),
    end: (_, redis) => redis.config('SET', 'maxmemory', '0'),
  },
  'takes no writes': {
    begin: (_, redis) => redis.call('CLIENT', 'PAUSE', 10 * OUTAGE_MS, 'WRITE'),
    end: (_, redis) => redis.call('CLIENT', 'UNPAUSE'),
  },
  dies: { begin: (node) => node.kill(), end: (node) => node.restart({ config: AOF }) },
}

interface Combined {
  readonly ofQueue?: Partial<ShardedQueueOptions<Charge>>
  readonly ofWorker?: Partial<ShardedWorkerOptions<Charge>>
}
const names = ({ customer }: Charge): string[] => [
  `{customer:${customer}}:card`,
  `{customer:${customer}}:bill`,
]
const COMBINED: Readonly<Record<string, Combined>> = {
  'that hold their lines': { ofWorker: { onFailure: 'block' } },
  'of two resources': {
    ofQueue: { resource: names },
    ofWorker: { resource: ({ data }) => names(data) },
  },
  'of tenants with shared results': {
    ofQueue: { tenant: ({ customer }) => customer },
    ofWorker: { dedupe: { resultTtlMs: 60_000, key: ({ id = '' }) => id } },
  },
}

const cases = Object.keys(OUTAGES).flatMap((outage) =>
  Object.keys(COMBINED).map((how) => [outage, how] as const),
)
test.each(cases)('a node %s under jobs %s', async (outage, how) => {
  const { begin, end } = OUTAGES[outage] as Outage
  const node = fixture.nodes[AWAY] as TestServer
  const redis = new Redis(node.url)
  redis.on('error', () => undefined)
  fixture.defer(() => {
    redis.disconnect()
  })
  for (const [name, value] of Object.entries(AOF)) await redis.config('SET', name, value)
  await until('it writes', async () =>
    (await redis.info('persistence')).includes('aof_rewrite_in_progress:0'),
  )
  const { ofQueue, ofWorker } = COMBINED[how] ?? {}
  const queue = fixture.queue(ofQueue)
  const ran: Charge[] = []
  const run: LeasedProcessor<Charge, unknown> = async ({ data }) => {
    await delay(50)
    ran.push(data)
  }
  const redlock = await fixture.redlock({ masterTimeoutMs: 1_500 })
  const locks = { lockDuration: LOCK_MS, stalledInterval: LOCK_MS }
  const worker = await fixture.worker(run, { redlock, concurrency: 3, ...locks, ...ofWorker })
  const add = (first: number): Promise<unknown> =>
    queue.addBulk(
      Array.from({ length: EACH }, (_, nr) =>
        CUSTOMERS.map((customer) => ({ name: 'charge', data: { customer, nr: first + nr } })),
      ).flat(),
    )
  await add(0)
  const ended = (are: (charge: Charge) => boolean): number => ran.filter(are).length
  const others = (charge: Charge): boolean => !isAway(charge)
  await until('some of its jobs have run', () => ended(isAway) > 2)
  await begin(node, redis)
  let isOver = false
  const recover = async (): Promise<void> => {
    if (!isOver) await end(node, redis)
    isOver = true
  }
  fixture.defer(recover)
  try {
    const all =
      EACH *
      (CUSTOMERS.length - CUSTOMERS.filter((each) => isAway({ customer: each, nr: 0 })).length)
    await Promise.all([delay(OUTAGE_MS), until('the others have run', () => ended(others) === all)])
    const next = CUSTOMERS.find((customer) => others({ customer, nr: 0 })) ?? ''
    expect(await worker.inspect(resourceOf({ customer: next, nr: 0 }))).toBeDefined()
  } finally {
    await recover()
  }
  // A node that has started again takes calls when it has met the others.
  const answers = async (): Promise<boolean> => (await queue.getCompletedCount()) > 0
  await until('it is found again', () => answers().catch(() => false))
  await add(EACH)
  const total = 2 * EACH * CUSTOMERS.length
  await until('all are done', async () => (await queue.getCompletedCount()) === total)
  for (const customer of CUSTOMERS) {
    const own = ran.filter((each) => each.customer === customer).map(({ nr }) => nr)
    expect(own).toEqual(Array.from({ length: 2 * EACH }, (_, nr) => nr))
  }
  const jobs = await queue.getCompleted()
  expect(jobs.filter(({ attemptsMade }) => attemptsMade !== 1)).toEqual([])
})
