import { setTimeout as delay } from 'node:timers/promises'
import { fail, milliseconds, pass, type Hazard } from '../hazard.ts'

const TTL_MS = 1_000
const SUSPENDED_MS = 2_500

export const suspendedHolder: Hazard = {
  name: 'suspended-holder',
  title: 'A holder that was suspended knows that its lease is over',
  scenario: `the holder of a lease of ${milliseconds(TTL_MS)} is stopped for ${milliseconds(SUSPENDED_MS)}, another client gets it, and the first goes on`,
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    const first = await client.acquire('r', TTL_MS, 3_000)
    if (first.status !== 'held') throw new Error(`not granted: ${first.status}`)
    client.suspend()
    await delay(SUSPENDED_MS)
    const second = await other.acquire('r', 10 * TTL_MS, 3_000)
    client.goOn()
    bench.happened('a lease that another client got', second.status === 'held' ? 1 : 0)
    const isHeld = await client.isHeld(first.held)
    const late = milliseconds(SUSPENDED_MS - TTL_MS)
    return isHeld
      ? fail(`it says that it holds it, ${late} after the end, while another client does`)
      : pass(`it says that the lease is over, ${late} after the end`)
  },
}
