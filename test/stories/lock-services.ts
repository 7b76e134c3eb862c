/** How the processes of a story open a lock service: its servers stand on this machine. */
import { TICK_MS } from '../../scripts/lock-servers/zookeeper-server.ts'
import { silentLogger, type LockService } from '../../src/index.ts'
import { openLocks } from '../../src/tools/operator/open-locks.ts'

export async function openStory(address: string): Promise<LockService> {
  const locks = await openLocks(address, { leaseMs: 4_000, tickMs: TICK_MS, logger: silentLogger })
  await locks.ready()
  return locks
}
