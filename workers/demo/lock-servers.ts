/** The servers of the demo's locks: five Redis masters, or those of another lock service. */
import pRetry from 'p-retry'
import { LOCK_SERVERS, type Kind } from '../../scripts/lock-servers/lock-servers.ts'
import { TICK_MS } from '../../scripts/lock-servers/zookeeper-server.ts'
import { silentLogger } from '../../src/index.ts'
import { openLocks } from '../../src/tools/operator/open-locks.ts'
import { startNewFleet } from '../new-fleet.ts'
import type { Closing } from './stopping.ts'
import type { Plan } from './options.ts'

export interface LockServer {
  readonly name: string
  /** How clients see a master; undefined where they see only the service as a whole. */
  state?(): string | undefined
  kill(): Promise<void>
  restart(): Promise<void>
}

export interface LockServers {
  readonly masters: readonly string[]
  readonly address: string | undefined
  /** What the loss of one is called in the report. */
  readonly lossName: string
  states(): readonly string[]
  /** `random` is in [0, 1). */
  pick(random: number): LockServer
}

export function startLockServers(plan: Plan, closing: Closing): Promise<LockServers> {
  return plan.locks === undefined ? startMasters(plan, closing) : startOthers(plan.locks, closing)
}

async function startMasters({ leaseMs, maxLeaseMs }: Plan, closing: Closing): Promise<LockServers> {
  const { fleet, observer } = await startNewFleet(5, { leaseMs, maxLeaseMs }, closing)
  const states = (): readonly (string | undefined)[] =>
    observer.status().masters.map(({ state }) => state)
  return {
    ...{ masters: fleet.urls, address: undefined, lossName: 'master lost' },
    states: () => states().map((state, index) => `${index + 1} ${state ?? ''}`),
    pick: (random) => {
      const index = Math.floor(random * fleet.masters.length)
      const master = itemOf(fleet.masters, index)
      return {
        name: master.name,
        state: () => states()[index],
        kill: () => master.kill(),
        restart: () => master.restart({ keepData: false }),
      }
    },
  }
}

async function startOthers(kind: Kind, closing: Closing): Promise<LockServers> {
  const cluster = await LOCK_SERVERS[kind].start(3)
  closing.add(() => cluster.close())
  // Makes what the service needs on its servers, such as a table, before the workers come.
  const locks = await openLocks(cluster.address, { tickMs: TICK_MS, logger: silentLogger })
  // On a busy machine the first answers are late.
  await pRetry(() => locks.ready(), { retries: 9, minTimeout: 500, maxTimeout: 2_000 })
  await locks.close()
  const down = new Set<string>()
  return {
    ...{ masters: [], address: cluster.address, lossName: 'server lost' },
    states: () => cluster.members.map(({ name }) => `${name} ${down.has(name) ? 'down' : 'up'}`),
    pick: (random) => {
      const { name, process } = itemOf(cluster.members, Math.floor(random * cluster.members.length))
      return {
        name,
        kill: () => {
          down.add(name)
          return process.kill()
        },
        restart: async () => {
          await process.restart()
          down.delete(name)
        },
      }
    },
  }
}

function itemOf<Item>(items: readonly Item[], index: number): Item {
  const item = items[index]
  if (item === undefined) throw new Error('There is no server to pick')
  return item
}
