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
const groups: (readonly LockClient[])[] = []

if (name !== OURS) {
  // A library that lets a rejection escape is measured nevertheless.
  process.on('unhandledRejection', () => undefined)
  process.on('uncaughtException', () => undefined)
}

serve<Calls>({
  versions: () => adapter.versions,
  async open({ setup, clients }) {
    const group: LockClient[] = []
    for (let index = 0; index < clients; index++) {
      const fresh = setup.fresh === true && index === 0
      group.push(await adapter.connect({ ...setup, fresh }))
    }
    return groups.push(group) - 1
  },
  async close(group) {
    await Promise.all(clientsOf(group).map((client) => client.close()))
    groups[group] = []
    return null
  },
  flow: (flow) => runFlow(clientOf(flow.group), flow),
  turns: (turns) => runTurns(clientsOf(turns.group), turns),
  hold: (holding) => hold(clientOf(holding.group), holding),
  async letGo() {
    await letGo()
    return null
  },
})

function clientsOf(group: number): readonly LockClient[] {
  const clients = groups[group]
  if (clients === undefined) throw new Error(`There is no group ${group}`)
  return clients
}

function clientOf(group: number): LockClient {
  const [client] = clientsOf(group)
  if (client === undefined) throw new Error(`Group ${group} is closed`)
  return client
}
