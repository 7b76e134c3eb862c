import { describe, test } from 'vitest'
import { Redlock, silentLogger, type LockService } from '../../src/index.ts'
import { memoryLocks } from '../../src/testing/index.ts'
import { useFleet } from '../fixtures.ts'
import { lockServiceCases, type LockServiceCase } from '../services/lock-service-cases.ts'
import { networkOf, startProxy, type FaultProxy } from '../support/proxy.ts'

const LEASE_MS = 600
const fixture = useFleet()
const OPTIONS = {
  ...{ leaseMs: LEASE_MS, maxLeaseMs: 1_500, masterTimeoutMs: LEASE_MS },
  logger: silentLogger,
}

describe('the cases for lock services pass with', () => {
  let proxies: readonly FaultProxy[] = []
  const urls = async (): Promise<readonly string[]> => {
    if (proxies.length === 0) {
      proxies = await Promise.all(fixture.fleet.masters.map(({ port }) => startProxy(port)))
    }
    return proxies.map(({ url }) => url)
  }
  const pass = ({ name, run }: LockServiceCase): void => {
    // Leases are short: none outlasts a machine that stands still.
    test(name, () => fixture.undisturbed(run))
  }
  const ready = async (redlock: Redlock): Promise<Redlock> => {
    await redlock.ready()
    const isNew = redlock.status().masters.some(({ state }) => state === 'quarantined')
    if (isNew) await redlock.bootstrap({ newFleet: true, confirmed: true })
    return redlock
  }

  describe('a Redlock', () => {
    const open = async (): Promise<Redlock> =>
      ready(new Redlock({ ...OPTIONS, masters: await urls(), namespace: fixture.namespace }))
    lockServiceCases({ open, network: networkOf(() => proxies) }).forEach(pass)
  })

  describe('locks in memory', () => {
    const locks = memoryLocks()
    const open = (): Promise<LockService> =>
      locks.open({ leaseMs: LEASE_MS, requestTimeoutMs: LEASE_MS })
    lockServiceCases({ open, network: locks.network }).forEach(pass)
  })
})
