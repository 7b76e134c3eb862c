/** Lock services in this process, for tests that need no server. */
import { systemClock } from '../clock.ts'
import { getOrInsert } from '../get-or-insert.ts'
import { LockClient } from '../services/lock-client.ts'
import { lockSettings, type LockOptions } from '../services/service-settings.ts'
import type { LockService } from '../lock/lock-service.ts'
import { silentLogger } from '../logger.ts'
import { knownOptions } from '../options.ts'
import type { FakeClock } from './fake-clock.ts'
import { MemoryNetwork, MemoryServer, type TestNetwork } from './memory-server.ts'

/** Whose time. */
export interface MemoryLocksOptions {
  /** Moves time in steps of the test's choice. Default: the system's clock */
  readonly clock?: FakeClock
}

/** A lock server in this process. */
export interface MemoryLocks extends AsyncDisposable {
  /** Another client of the server. Its log is silent unless a `logger` is given. */
  open(options?: LockOptions): Promise<LockService>
  /** Between all clients and the server. */
  readonly network: TestNetwork
  /** Closes every client. */
  close(): Promise<void>
}

const CLOSING_MS = 60_000

/**
 * A lock service that needs no server: trust, renewal, loss, waiting and slots are the real ones;
 * the server and its network are not. It shows what code does when a lease is refused, lost or
 * extended, and not whether a deployment is right: for that, use {@link startFleet}.
 *
 * @example
 * ```ts
 * const clock = new FakeClock()
 * await using locks = memoryLocks({ clock })
 * const locked = await locks.open({ leaseMs: 1_000 })
 * const lease = await locked.acquire('customer:42')
 * await clock.advance(1_000)
 * lease.signal.aborted // true
 * ```
 */
export function memoryLocks(options: MemoryLocksOptions = {}): MemoryLocks {
  knownOptions({ ...options }, { clock: true })
  const { clock } = options
  const network = new MemoryNetwork(clock ?? systemClock)
  const servers = new Map<string, MemoryServer>()
  const clients = new Set<LockClient>()
  const close = async (): Promise<void> => {
    await network.heal()
    const closing = Promise.all([...clients].map((client) => client.close()))
    await clock?.advance(CLOSING_MS) // A reply may be late, on this clock.
    await closing
  }
  return {
    network,
    close,
    [Symbol.asyncDispose]: close,
    open(options = {}) {
      const settings = lockSettings({ logger: silentLogger, ...options, clock: network.clock }, {})
      const { namespace } = settings
      const client = new LockClient(
        settings,
        getOrInsert(servers, namespace, () => new MemoryServer(network)),
      )
      clients.add(client)
      return Promise.resolve(client)
    },
  }
}
