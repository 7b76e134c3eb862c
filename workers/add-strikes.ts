/**
 * Adds every bird strike of the file as a job, in line for its operator. A second run adds nothing,
 * because a job that has the id already stays as it is.
 *
 *   npx tsx workers/add-strikes.ts customer-ledger customer:
 *   npx tsx workers/add-strikes.ts reports report:
 */
import { LockedQueue } from '../src/index.ts'
import type { Strike } from './strike.ts'
import { readStrikes, REAL_STRIKES } from './strikes-file.ts'

const [queueName = 'customer-ledger', resourcePrefix = 'customer:'] = process.argv.slice(2)
const url = process.env['BULLMQ_REDLOCK_QUEUE']
if (url === undefined) throw new Error("Set BULLMQ_REDLOCK_QUEUE to the queue's Redis")
const queue = new LockedQueue<Strike>(queueName, {
  connection: { url },
  resource: ({ customer }) => resourcePrefix + customer,
})
const strikes = await readStrikes(REAL_STRIKES)
await queue.addBulk(
  strikes.map((data) => ({ name: 'post', data, opts: { jobId: data.id, attempts: 5 } })),
)
await queue.close()
console.log(`${strikes.length} strikes are in the queue ${queueName}`)
