/**
 * A program that starts a fleet and ends without closing it, in the way that argv asks for. With
 * `close` it closes it, and says how many timers are left. With `stay` it survives SIGINT, and says
 * so when servers that got the signal too would be gone.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { startFleet } from '../../src/testing/index.ts'

const SHUTDOWN_MS = 500
const ending = process.argv[2]

process.stdout.write('starting\n')
const fleet = await startFleet({ masters: 2, backend: 'processes' })
await fleet.masters[0]?.freeze()
process.stdout.write(`${JSON.stringify([...fleet.masters, fleet.queue].map(({ url }) => url))}\n`)

if (ending === 'throw') throw new Error('thrown on purpose')
if (ending === 'exit') process.exit(0)
if (ending === 'close') {
  await fleet.close()
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout')
  process.stdout.write(`${timers.length} timers\n`)
}
if (ending === 'stay') {
  process.once('SIGINT', () => {
    void delay(SHUTDOWN_MS).then(() => process.stdout.write('still here\n'))
  })
  process.stdout.write('waiting\n')
}
