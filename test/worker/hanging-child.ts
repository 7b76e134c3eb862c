/** A worker process whose job never ends, whatever its signal says. It drains on SIGTERM. */
import { LockedWorker, Redlock } from '../../src/index.ts'

const [queue = '', url = '', namespace = '', ...masters] = process.argv.slice(2)
const redlock = new Redlock({ masters, namespace, leaseMs: 2_000, maxLeaseMs: 3_000 })
const worker = new LockedWorker(
  queue,
  async (_job, lease) => {
    console.log('entered')
    await lease.step('forever', () => new Promise(() => undefined))
  },
  { connection: { url }, redlock, resource: () => 'a' },
)
worker.on('error', (error) => {
  console.error(error)
})
process.once('SIGTERM', () => {
  void worker.drain({ timeoutMs: 0 }).then(() => redlock.close())
})
