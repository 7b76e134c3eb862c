/**
 * Adds every bird strike of the file as a job, in line for its operator. A second run adds nothing,
 * because a job that has the id already stays as it is.
 *
 * Exit codes: 0 all are added, 1 the queue's Redis is away, 2 none is given.
 *
 *   npx tsx workers/add-strikes.ts customer-ledger customer:
 *   npx tsx workers/add-strikes.ts reports report:
 *   npx tsx workers/add-strikes.ts customer-ledger customer: 100    # one every 100 ms
 */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { LockedQueue } from '../src/index.ts'
import { required, runProgram } from './run-program.ts'
import type { Strike } from './strike.ts'
import { readStrikes, REAL_STRIKES } from './strikes-file.ts'

await runProgram(async () => {
  const [queueName = 'customer-ledger', resourcePrefix = 'customer:', everyMs = '0'] =
    process.argv.slice(2)
  const url = required('BULLMQ_REDLOCK_QUEUE', "the URL of the queue's Redis")
  const strikes = await readStrikes(REAL_STRIKES)
  const queue = new LockedQueue<Strike>(queueName, {
    connection: { url },
    resource: ({ customer }) => resourcePrefix + customer,
  })
  // A queue waits for a server that is away; its first error ends this program.
  const failed = once(queue, 'error').then(([error]) => Promise.reject(error as Error))
  const jobs = strikes.map((data) => ({
    ...{ name: 'post', data, opts: { jobId: data.id, attempts: 5 } },
  }))
  const atOnce = everyMs === '0' ? jobs.length : 1
  const add = async (): Promise<void> => {
    for (let nr = 0; nr < jobs.length; nr += atOnce) {
      await queue.addBulk(jobs.slice(nr, nr + atOnce))
      await delay(Number(everyMs))
    }
  }
  await Promise.race([add(), failed])
  await queue.close()
  console.log(`${strikes.length} strikes are in the queue ${queueName}`)
  return 0
})
