/** The process of one contender: loads its library and runs the loads that it is asked for. */
import { serve } from '../../test/support/remote-process.ts'
import { OURS } from '../peers/libraries.ts'
import { adapterOf, type LockClient } from './contender.ts'
import type { Calls } from './loads/calls.ts'
import { runFlow } from './loads/flow.ts'
import { hold, letGo } from './loads/holding.ts'
import { runTurns } from './loads/turns.ts'

const name = process.argv[2] ?? ''
const adapter = await adapterOf(name)
const clients: LockClient[] = []

if (name !== OURS) {
  // A library that lets a rejection escape is measured nevertheless.
  process.on('unhandledRejection', () => undefined)
  process.on('uncaughtException', () => undefined)
}

serve<Calls>({
  versions: () => adapter.versions,
  open: async (setup) => clients.push(await adapter.connect(setup)) - 1,
  async close(client) {
    await clientOf(client).close()
    return null
  },
  flow: (flow) => runFlow(clientOf(flow.client), flow),
  turns: (turns) => runTurns(clientOf(turns.client), turns),
  hold: (holding) => hold(clientOf(holding.client), holding),
  async letGo() {
    await letGo()
    return null
  },
})

function clientOf(index: number): LockClient {
  const client = clients[index]
  if (client === undefined) throw new Error(`There is no client ${index}`)
  return client
}
