/** Adds jobs as fast as it can until it is killed: first it opens its queue, then it waits for `go`. */
import type { KeyedJob, ProducerOrders } from './job.ts'
import { openQueue } from './open-queue.ts'

const orders = JSON.parse(process.argv[2] ?? '{}') as ProducerOrders
const { contender, keys, atOnce } = orders
const queue = openQueue(contender, orders)
let nr = orders.firstNr

function next(): KeyedJob {
  const key = keys[nr % keys.length] ?? ''
  return { key, nr: nr++, workMs: 0 }
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
