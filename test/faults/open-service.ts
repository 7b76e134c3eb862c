/** The lock service that a process of a run is told to use. */
import { TICK_MS } from '../../scripts/lock-servers/zookeeper-server.ts'
import { Redlock, type Logger, type LockService } from '../../src/index.ts'
import { openLocks } from '../../src/tools/operator/open-locks.ts'

export interface ServiceOptions {
  readonly masters: readonly string[]
  /** The address of a service besides Redis; then `masters` is empty. */
  readonly locks?: string
  readonly namespace: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly masterTimeoutMs?: number
  readonly owner?: string
  readonly logger: Logger
}

export async function openService(options: ServiceOptions): Promise<LockService> {
  const { masters, locks, namespace, leaseMs, maxLeaseMs, masterTimeoutMs, owner, logger } = options
  const shared = { namespace, leaseMs, maxLeaseMs, logger, ...(owner !== undefined && { owner }) }
  if (locks !== undefined) return openLocks(locks, { ...shared, tickMs: TICK_MS })
  const timeout = masterTimeoutMs === undefined ? {} : { masterTimeoutMs }
  return new Redlock({ masters, ...shared, ...timeout })
}
