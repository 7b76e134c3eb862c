/**
 * Adds jobs as fast as it can, until it is killed: with BullMQ's queue or with ours, one at a time
 * or in bulk.
 */
import { Queue } from 'bullmq'
import { LockedQueue } from '../../src/index.ts'
import type { Work } from './side.ts'

export interface ProducerSetup {
  readonly isOurs: boolean
  readonly bulk: boolean
  readonly queueName: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly namespace: string
  /** Numbers begin here. */
  readonly from: number
}

const CUSTOMERS = ['a', 'b', 'c', 'd']
const MOST = 100

const { isOurs, bulk, queueName, connection, from } = JSON.parse(
  process.argv[2] ?? '',
) as ProducerSetup

const queue = isOurs
  ? new LockedQueue<Work>(queueName, {
      connection,
      resource: ({ customer }) => `${queueName}:${customer}`,
    })
  : new Queue<Work>(queueName, { connection })
for (let nr = from; nr < from + MOST;) {
  const jobs = CUSTOMERS.map((customer) => ({ name: 'work', data: { customer, nr: nr++ } }))
  if (bulk) await queue.addBulk(jobs)
  else await Promise.all(jobs.map(({ name, data }) => queue.add(name, data)))
  if (nr === from + CUSTOMERS.length) process.stdout.write('begun\n')
}
