/**
 * The server of one shard hangs, refuses or dies for longer than BullMQ's locks last: no job that
 * is done is done again, none is lost, none overtakes another, and the other shards go on.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { LeasedProcessor, ShardedQueueOptions, ShardedWorkerOptions } from '../../src/index.ts'
import { until } from '../fixtures.ts'
import { tell } from '../support/ask.ts'
import { charges, CUSTOMERS, resourceOf, shardOfCustomer, type Charge } from './charge.ts'
import { HANGS, IS_FULL, useCluster, type Trouble } from './cluster.ts'

const fixture = useCluster()
const LOCK_MS = 1_000
const OUTAGE_MS = 3 * LOCK_MS
const EACH = 20
const AWAY = shardOfCustomer('ann')
const isAway = ({ customer }: Charge): boolean => shardOfCustomer(customer) === AWAY
/** Redis has written what it has taken. */
const AOF = { appendonly: 'yes', appendfsync: 'always' }

const OUTAGES: Readonly<Record<string, Trouble>> = {
  hangs: HANGS,
  'is full': IS_FULL,
  'takes no writes': {
    begin: (node) => tell(node, 'CLIENT', 'PAUSE', String(10 * OUTAGE_MS), 'WRITE'),
    end: (node) => tell(node, 'CLIENT', 'UNPAUSE'),
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
  const node = fixture.nodeOf(AWAY)
  for (const setting of Object.entries(AOF)) await tell(node, 'CONFIG', 'SET', ...setting)
  await until('it writes', async () =>
    String(await tell(node, 'INFO', 'persistence')).includes('aof_rewrite_in_progress:0'),
  )
  const { ofQueue, ofWorker } = COMBINED[how] ?? {}
  const queue = fixture.queue(ofQueue)
  const ran: Charge[] = []
  const run: LeasedProcessor<Charge, unknown> = async ({ data }) => {
    await delay(50)
    ran.push(data)
  }
  const locks = { lockDuration: LOCK_MS, stalledInterval: LOCK_MS }
  const worker = await fixture.worker(run, { concurrency: 3, ...locks, ...ofWorker })
  await queue.addBulk(charges(EACH))
  const ended = (are: (charge: Charge) => boolean): number => ran.filter(are).length
  const others = (charge: Charge): boolean => !isAway(charge)
  await until('some of its jobs have run', () => ended(isAway) > 2)
  const goOn = await fixture.inTrouble(OUTAGES[outage] as Trouble, AWAY)
  const all = EACH * CUSTOMERS.filter((customer) => shardOfCustomer(customer) !== AWAY).length
  await Promise.all([delay(OUTAGE_MS), until('the others have run', () => ended(others) === all)])
  const next = CUSTOMERS.find((customer) => shardOfCustomer(customer) !== AWAY) ?? ''
  expect(await worker.inspect(resourceOf({ customer: next }))).toBeDefined()
  await goOn()
  // A node that has started again takes calls when it has met the others.
  const answers = async (): Promise<boolean> => (await queue.getCompletedCount()) > 0
  await until('it is found again', () => answers().catch(() => false))
  await queue.addBulk(charges(EACH, EACH))
  const total = 2 * EACH * CUSTOMERS.length
  await until('all are done', async () => (await queue.getCompletedCount()) === total)
  for (const customer of CUSTOMERS) {
    const own = ran.filter((each) => each.customer === customer).map(({ nr }) => nr)
    expect(own).toEqual(Array.from({ length: 2 * EACH }, (_, nr) => nr))
  }
  const jobs = await queue.getCompleted()
  expect(jobs.filter(({ attemptsMade }) => attemptsMade !== 1)).toEqual([])
})
