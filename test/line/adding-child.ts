/** Adds numbered jobs in a process of its own, whose clock may be wrong: `URL NAMESPACE COUNT`. */
import { LockedQueue } from '../../src/index.ts'

const [url = '', namespace = '', count = '0'] = process.argv.slice(2)
const queue = new LockedQueue<{ nr: number }>(namespace, {
  connection: { url },
  resource: () => 'customer:1',
})
for (let nr = 0; nr < Number(count); nr++) await queue.add('charge', { nr })
await queue.close()
