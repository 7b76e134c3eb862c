/** Opens its queue, waits for `go`, and then adds jobs as fast as it can until it is killed. */
import type { KeyedJob, ProducerOrders } from './job.ts'
import { openQueue } from './open-queue.ts'

/** Longer than it takes to add a job, so that lines are busy. */
const WORK_MS = 3

const orders = JSON.parse(process.argv[2] ?? '{}') as ProducerOrders
const { contender, keys, atOnce } = orders
const queue = openQueue(contender, orders)
let nr = orders.firstNr

function next(): KeyedJob {
  const key = keys[nr % keys.length] ?? ''
  return { key, nr: nr++, workMs: WORK_MS }
}

async function addForever(): Promise<never> {
  for (;;) {
    if (atOnce === 1) await queue.add('job', next())
    else await queue.addBulk(Array.from({ length: atOnce }, () => ({ name: 'job', data: next() })))
  }
}

process.on('SIGINT', () => undefined) // Ctrl-C is for the benchmark, which then ends this process.
process.on('disconnect', () => process.exit())
process.once('message', () => {
  void addForever()
})
await queue.waitUntilReady()
process.send?.('ready')
