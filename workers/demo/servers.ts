/** What a run stands on: real Redis servers, an embedded PostgreSQL, the queue and a view of the masters. */
import { Queue } from 'bullmq'
import { LockedQueue, Redlock, silentLogger } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { provisionServer } from '../../scripts/provision-server.ts'
import { startEmbeddedPostgres } from '../embedded-postgres.ts'
import { Ledger } from '../ledger.ts'
import type { Closing } from '../stopping.ts'
import type { Strike } from '../strike.ts'
import type { Plan } from './options.ts'

export const QUEUE = 'bird-strikes'

export interface Servers {
  readonly fleet: Fleet
  readonly databaseUrl: string
  readonly ledger: Ledger
  readonly queue: Queue
  readonly observer: Redlock
}

/** Starts them all; what was started is closed by `closing`, also when a later one does not start. */
export async function startServers(
  { leaseMs, maxLeaseMs, without }: Plan,
  closing: Closing,
  say: (line: string) => void,
): Promise<Servers> {
  await provisionServer({ install: true, say })
  say('starting five lock masters, the queue and PostgreSQL')
  const [fleet, postgres] = await Promise.all([
    startFleet({ masters: 5, queue: true }).then((started) => {
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
  const connection = { url: fleet.queue.url }
  const queue: Queue =
    without === 'lease'
      ? new Queue(QUEUE, { connection })
      : new LockedQueue<Strike>(QUEUE, {
          connection,
          resource: ({ customer }) => `customer:${customer}`,
        })
  closing.add(() => queue.close())
  // The queue's server stays up during the run; at its end it goes away under this connection.
  queue.on('error', () => undefined)
  const observer = new Redlock({ masters: fleet.urls, leaseMs, maxLeaseMs, logger: silentLogger })
  closing.add(() => observer.close())
  await observer.bootstrap({ newFleet: true })
  return { fleet, databaseUrl: postgres.url, ledger, queue, observer }
}
