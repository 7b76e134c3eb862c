/** A worker that takes its first job and never ends it: `address redisUrl queue`. */
import { LockedWorker, silentLogger } from '../../src/index.ts'
import { openStory } from './lock-services.ts'

const [address = '', url = '', queue = ''] = process.argv.slice(2)
const redlock = await openStory(address)
const worker = new LockedWorker<{ customer: string; n: number }>(
  queue,
  async (job, lease) => {
    process.stdout.write(`${job.data.n} ${lease.fencingToken}\n`)
    await new Promise(() => undefined)
  },
  {
    connection: { url },
    redlock,
    logger: silentLogger,
    resource: ({ data }) => `customer:${data.customer}`,
  },
)
worker.on('error', () => undefined)
