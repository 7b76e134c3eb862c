/** Opens the scratch queue, waits for `go`, and then adds jobs until it is killed. */
import type { ProducerSetup } from './producer-setup.ts'
import { openScratch } from './scratch-queue.ts'

const setup = JSON.parse(process.argv[2] ?? '{}') as ProducerSetup
const queue = openScratch(setup)
queue.on('error', () => undefined) // Its server is down on purpose at times.
let added = 0

async function addForever(): Promise<never> {
  const next = (): { customer: string } => ({
    customer: setup.customers[added++ % setup.customers.length] ?? '',
  })
  for (;;) {
    try {
      if (setup.atOnce === 1) await queue.add('scratch', next())
      else {
        const batch = Array.from({ length: setup.atOnce }, next)
        await queue.addBulk(batch.map((data) => ({ name: 'scratch', data })))
      }
    } catch {
      // Its connection was killed: the next call has a new one.
    }
  }
}

process.on('SIGINT', () => undefined) // Ctrl-C is for the parent, which then ends this process.
process.on('disconnect', () => process.exit())
process.once('message', () => {
  void addForever()
})
process.send?.('ready')
