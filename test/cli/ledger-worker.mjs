/** A worker module for the tests of `work`: JavaScript, as users run it, on the source of this checkout. */
import { LockedWorker } from '../../src/index.ts'

export default ({ redlock, connection, prefix }) =>
  new LockedWorker(
    process.env.QUEUE,
    async (job, lease) => {
      const { signal, fencingToken } = lease
      process.stdout.write(`started ${job.id} ${fencingToken}\n`)
      if (job.data.untilStopped) {
        await new Promise((resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason), { once: true })
        })
      }
      process.stdout.write(`finished ${job.id}\n`)
    },
    { connection, prefix, redlock, resource: ({ data }) => `customer:${data.customerId}` },
  )
