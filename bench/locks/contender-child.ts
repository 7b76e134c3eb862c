/** The process of one contender: loads its library and runs the loads that it is asked for. */
import { OURS } from '../compare-safety/libraries.ts'
import { adapters, type LockClient } from './contender.ts'
import type { CallName, Calls, Request, Response } from './loads/calls.ts'
import { runExtensions } from './loads/extensions.ts'
import { runFlow } from './loads/flow.ts'
import { heapBytes, hold, letGo } from './loads/holding.ts'
import { runTurns } from './loads/turns.ts'

type Handlers = {
  readonly [Name in CallName]: (
    argument: Calls[Name]['argument'],
  ) => Promise<Calls[Name]['answer']> | Calls[Name]['answer']
}

const name = process.argv[2] ?? ''
const load = adapters[name]
if (load === undefined) throw new Error(`There is no contender ${name}`)
const { adapter } = await load()
const groups: (readonly LockClient[])[] = []

if (name !== OURS) {
  // A library that lets a rejection escape is measured nevertheless.
  process.on('unhandledRejection', () => undefined)
  process.on('uncaughtException', () => undefined)
}
process.on('SIGINT', () => undefined) // Ctrl-C is for the harness, which then ends its processes.
process.on('disconnect', () => process.exit())

const handlers: Handlers = {
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
  extensions: (extensions) => runExtensions(clientOf(extensions.group), extensions),
  hold: (holding) => hold(clientOf(holding.group), holding),
  async letGo() {
    await letGo()
    return null
  },
  heap: heapBytes,
}

process.on('message', (request: Request) => {
  void answer(request).then((response) => process.send?.(response))
})
process.send?.({ id: 0, ok: true, answer: null } satisfies Response)

async function answer({ id, name: call, argument }: Request): Promise<Response> {
  try {
    const handle = handlers[call] as (argument: unknown) => unknown
    return { id, ok: true, answer: (await handle(argument)) as Calls[CallName]['answer'] }
  } catch (error) {
    return { id, ok: false, message: error instanceof Error ? error.message : String(error) }
  }
}

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
