/** How often each lock service acquires and releases a second; `--help` says more. */
import { Pool } from 'pg'
import { DEFAULT_TIMING, noEtcd, startEtcd } from '../scripts/lock-servers/etcd-server.ts'
import { noPostgres, startPostgres } from '../scripts/lock-servers/postgres-server.ts'
import { noZooKeeper, startZooKeeper } from '../scripts/lock-servers/zookeeper-server.ts'
import { readOptions } from '../scripts/read-options.ts'
import { Redlock, silentLogger, type LockService } from '../src/index.ts'
import { EtcdLocks } from '../src/services/etcd/index.ts'
import { PostgresLocks } from '../src/services/postgres/index.ts'
import { ZooKeeperLocks } from '../src/services/zookeeper/index.ts'
import { startFleet } from '../src/testing/index.ts'

const USAGE = `How often a second one process acquires and releases a free resource, with every lock service whose server is installed.

  npm run bench:services

Exit code: 0 measured, 2 bad arguments.`

readOptions(USAGE, {})
const OPTIONS = { logger: silentLogger, leaseMs: 8_000, requestTimeoutMs: 5_000 }

async function rate(locks: LockService, callers: number, forMs: number): Promise<number> {
  let done = 0
  const end = performance.now() + forMs
  const call = async (caller: number): Promise<void> => {
    for (let round = 0; performance.now() < end; round++) {
      const outcome = await locks.tryAcquire(`bench:${caller}:${round % 10}`)
      if (outcome.status !== 'granted') continue
      await outcome.lease.release()
      done++
    }
  }
  await Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)))
  return Math.round((done * 1_000) / forMs)
}

async function measure(name: string, locks: LockService): Promise<void> {
  await locks.ready()
  await rate(locks, 64, 700) // A warm-up.
  const alone = await rate(locks, 1, 2_000)
  const many = await rate(locks, 64, 2_000)
  console.log(`${name}: ${alone}/s at 1, ${many}/s at 64`)
  await locks.close()
}

for (const masters of [1, 5]) {
  await using fleet = await startFleet({ masters })
  const redlock = new Redlock({ masters: fleet.urls, logger: silentLogger })
  await redlock.bootstrap({ newFleet: true, confirmed: true })
  await measure(`Redlock, ${masters} masters`, redlock)
}
if (!noPostgres) {
  await using server = await startPostgres(['fsync=on'])
  const pool = new Pool({ connectionString: server.url, max: 16 })
  await measure('PostgresLocks', new PostgresLocks({ ...OPTIONS, pool }))
  await pool.end()
}
for (const members of noEtcd ? [] : [1, 3]) {
  await using cluster = await startEtcd(members, DEFAULT_TIMING)
  const locks = new EtcdLocks({ ...OPTIONS, endpoints: cluster.urls })
  await measure(`EtcdLocks, ${members} members without fsync`, locks)
}
for (const members of noZooKeeper ? [] : [1, 3]) {
  await using ensemble = await startZooKeeper(members)
  const locks = new ZooKeeperLocks({ ...OPTIONS, servers: ensemble.servers })
  await measure(`ZooKeeperLocks, ${members} servers without fsync`, locks)
}
