/** A program that starts a fleet and ends without closing it, in the way that argv asks for. */

import { startFleet } from '../../src/testing/index.ts'

process.stdout.write('starting\n')
const fleet = await startFleet({ masters: 2 })
await fleet.masters[0]?.freeze()
process.stdout.write(`${JSON.stringify([...fleet.masters, fleet.queue].map(({ url }) => url))}\n`)

const ending = process.argv[2]
if (ending === 'throw') throw new Error('thrown on purpose')
if (ending === 'exit') process.exit(0)
