/**
 * What a run stands on: real Redis servers, an embedded PostgreSQL, the queue, and the servers of
 * the locks.
 */
import { Queue } from 'bullmq'
import { LockedQueue } from '../../src/index.ts'
import { startServer } from '../../src/testing/index.ts'
import { LOCK_SERVERS } from '../../scripts/lock-servers/lock-servers.ts'
import { provisionServer } from '../../scripts/provision-server.ts'
import { startEmbeddedPostgres } from '../embedded-postgres.ts'
import { Ledger } from '../ledger.ts'
import type { Closing } from './stopping.ts'
import type { Strike } from '../strike.ts'
import { startLockServers, type LockServers } from './lock-servers.ts'
import type { Plan } from './options.ts'

export const QUEUE = 'bird-strikes'

export interface Servers {
  readonly locks: LockServers
  readonly queueUrl: string
  readonly databaseUrl: string
  readonly ledger: Ledger
  readonly queue: Queue
}

/**
 * Starts them all; what was started is closed by `closing`, also when a later one does not start.
 */
export async function startServers(
  plan: Plan,
  closing: Closing,
  say: (line: string) => void,
): Promise<Servers> {
  const missing = plan.locks && LOCK_SERVERS[plan.locks].missing
  if (missing !== undefined) throw new Error(missing)
  await provisionServer({ install: true, say })
  say(`starting ${describeLocks(plan)}, the queue and PostgreSQL`)
  const [locks, queueServer, postgres] = await Promise.all([
    startLockServers(plan, closing),
    startServer({ name: 'queue' }).then((started) => {
      closing.add(() => started.close())
      return started
    }),
    startEmbeddedPostgres().then((started) => {
      closing.add(() => started.close())
      return started
    }),
  ])
  const ledger = await Ledger.connect(postgres.url)
  closing.add(() => ledger.close())
  const connection = { url: queueServer.url }
  const queue: Queue =
    plan.without === 'lease'
      ? new Queue(QUEUE, { connection })
      : new LockedQueue<Strike>(QUEUE, {
          connection,
          resource: ({ customer }) => `customer:${customer}`,
        })
  closing.add(() => queue.close())
  // The queue's server stays up during the run; at its end it goes away under this connection.
  queue.on('error', () => undefined)
  return { locks, queueUrl: queueServer.url, databaseUrl: postgres.url, ledger, queue }
}

function describeLocks({ locks }: Plan): string {
  if (locks === undefined) return 'five lock masters'
  return locks === 'postgres' ? 'a PostgreSQL for the locks' : `three servers of ${locks}`
}
