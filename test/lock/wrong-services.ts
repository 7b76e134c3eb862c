/** One wrong lock service for every case of the kit: the case must fail with it. */
import { setTimeout as delay } from 'node:timers/promises'
import { LockClient } from '../../src/services/lock-client.ts'
import { lockSettings } from '../../src/lock/lock-settings.ts'
import { silentLogger, type Lease, type LockService } from '../../src/index.ts'
import type { LockServiceUnderTest } from '../services/lock-service-cases.ts'
import type { LockDriver } from '../../src/services/lock-driver.ts'
import { MemoryNetwork, MemoryServer, type MemoryClaim } from '../../src/testing/memory-server.ts'

const LEASE_MS = 300

/** What one wrong server does otherwise. */
interface Wrong {
  readonly grantsAlways?: boolean
  /** Ends leases after this part of their time. */
  readonly endsAfter?: number
  readonly sameToken?: boolean
  readonly ignoresOwner?: boolean
  readonly grantsSome?: boolean
  /** The client's trust counts from the reply. */
  readonly fromReply?: boolean
}

function wrongDriver(
  server: MemoryServer,
  { grantsAlways, endsAfter = 1, sameToken, ignoresOwner, grantsSome, fromReply }: Wrong,
): LockDriver<MemoryClaim> {
  const held = new Map<string, MemoryClaim>()
  return but<LockDriver<MemoryClaim>>(server, {
    acquire: async (wish) => {
      const startedAt = performance.now()
      const { resources, leaseMs } = wish
      const answer = await server.acquire({ ...wish, leaseMs: leaseMs * endsAfter })
      const isGrant = grantsAlways === true || (grantsSome === true && resources.length > 1)
      if (answer.status !== 'granted' && !isGrant) return answer
      const fencingToken = answer.status === 'granted' ? answer.claim.fencingToken : 1
      const ageMs = fromReply === true ? startedAt - performance.now() : 0
      const token = sameToken === true ? 1 : fencingToken
      const claim = { wish, leaseMs, fencingToken: token, ageMs }
      for (const name of resources) held.set(name, claim)
      return { status: 'granted', claim }
    },
    release: async (claim) => {
      await server.release(claim)
      if (ignoresOwner !== true) return
      for (const name of claim.wish.resources) await server.release(held.get(name) ?? claim)
    },
  })
}

const opened: LockClient<MemoryClaim>[] = []

/** A wrong service may not close its client: its leases would be kept alive beside later tests. */
export async function closeMemoryServices(): Promise<void> {
  await Promise.all(opened.splice(0).map((client) => client.close()))
}

/** The same object with some of its members replaced. */
function but<Thing extends object>(thing: Thing, changed: Partial<Thing>): Thing {
  return new Proxy(thing, {
    get(target, name) {
      if (Object.hasOwn(changed, name)) return changed[name as keyof Thing]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

export function memoryService(
  wrong: Wrong = {},
  change: (client: LockClient<MemoryClaim>) => LockService = (client) => client,
): LockServiceUnderTest {
  const network = new MemoryNetwork()
  const driver = wrongDriver(new MemoryServer(network), wrong)
  return {
    network,
    open: () => {
      const settings = lockSettings(
        { leaseMs: LEASE_MS, requestTimeoutMs: LEASE_MS, logger: silentLogger },
        {},
      )
      const client = new LockClient(settings, driver)
      opened.push(client)
      return Promise.resolve(change(client))
    },
  }
}

/** A service whose leases are changed, however they were granted. */
function withLeases(change: (lease: Lease) => Lease): LockServiceUnderTest {
  return memoryService({}, (client) =>
    but<LockService>(client, {
      acquire: async (...call) => change(await client.acquire(...call)),
      tryAcquire: async (...call) => {
        const outcome = await client.tryAcquire(...call)
        return outcome.status === 'granted' ? { ...outcome, lease: change(outcome.lease) } : outcome
      },
    }),
  )
}

const withClient = (
  change: (client: LockClient<MemoryClaim>) => Partial<LockService>,
): LockServiceUnderTest => memoryService({}, (client) => but<LockService>(client, change(client)))

const neverAborts = (): AbortSignal => new AbortController().signal

export const WRONG: Readonly<Record<string, () => LockServiceUnderTest>> = {
  'one of many contenders is granted': () => memoryService({ grantsAlways: true }),
  'a lease that is not renewed ends, and not before its trust': () =>
    memoryService({ endsAfter: 0.5 }),
  'trust counts from before the request': () => memoryService({ fromReply: true }),
  'the end of trust is seen by a blocked event loop': () =>
    withLeases((lease) =>
      but(lease, {
        assertHeld: () => undefined,
        remainingMs: () => (lease.signal.aborted ? 0 : LEASE_MS),
      }),
    ),
  'the signal aborts at the end of trust, without the network': () =>
    withLeases((lease) => but(lease, { signal: neverAborts() })),
  'an extension keeps the lease': () =>
    withLeases((lease) =>
      but(lease, { extend: () => Promise.resolve({ status: 'extended', remainingMs: LEASE_MS }) }),
    ),
  'a lease that is over is not extended': () =>
    withLeases((lease) =>
      but(lease, { extend: () => Promise.resolve({ status: 'extended', remainingMs: LEASE_MS }) }),
    ),
  'a late grant is refused and leaves nothing behind': () =>
    withClient((client) => ({
      tryAcquire: async (name) => ({
        status: 'granted',
        lease: but(await client.acquire(name, { waitMs: 0 }).catch(() => ({}) as Lease), {
          remainingMs: () => LEASE_MS,
        }),
      }),
    })),
  'fencing tokens increase': () => memoryService({ sameToken: true }),
  'release is idempotent and spares the next holder': () => memoryService({ ignoresOwner: true }),
  'taken and unreachable differ': () =>
    withClient((client) => ({
      tryAcquire: async (...call) => {
        const outcome = await client.tryAcquire(...call)
        if (outcome.status !== 'unreachable') return outcome
        return { ...outcome, status: 'taken', holder: 'unknown' }
      },
    })),
  'several resources are granted together or not at all': () => memoryService({ grantsSome: true }),
  'a waiting acquire is granted after a release': () =>
    withClient((client) => ({
      acquire: (name, options) => client.acquire(name, { ...options, waitMs: 0 }),
    })),
  'a waiter for several resources holds none of them': () =>
    withClient((client) => ({
      acquire: async (name, options) => {
        const several = typeof name === 'string' ? [] : name
        await Promise.all(
          several.map((one) => client.tryAcquire(one, { autoExtend: true, maxHoldMs: 3_600_000 })),
        )
        return client.acquire(name, options)
      },
    })),
  'an aborted wait ends at once and keeps no client out': () =>
    withClient((client) => ({
      acquire: (name, { signal, ...options } = {}) =>
        client.acquire(name, signal === undefined ? options : { ...options, waitMs: LEASE_MS }),
    })),
  'a release wakes a waiter': () =>
    withClient((client) => ({
      acquire: async (name, options) => {
        const lease = await client.acquire(name, options)
        if ((options?.waitMs ?? 0) > LEASE_MS) await delay(LEASE_MS)
        return lease
      },
    })),
  'using keeps the lease alive and releases it': () =>
    withClient((client) => ({
      using: async (name, options, routine) => routine(await client.acquire(name, options)),
    })),
  'a limit ends the extensions': () =>
    withClient((client) => ({
      acquire: (name, { maxExtensions: _, ...options } = {}) => client.acquire(name, options),
    })),
  'a lease is handed over without a gap': () =>
    withClient((client) => ({
      handOver: (lease) => {
        void client.tryAcquire(lease.resources)
        return lease
      },
    })),
  'a resource with slots has as many holders': () =>
    withClient((client) => ({
      acquire: (name, { slots: _, ...options } = {}) => client.acquire(name, options),
    })),
  'close aborts what is held, releases it, and refuses calls': () =>
    withClient(() => ({ close: () => Promise.resolve() })),
}
