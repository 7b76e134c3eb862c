/**
 * The ledger's worker as a module for `bullmq-redlock work`: health, metrics, signals and draining are the command's
 * business. The image and the deployments run it; `customer-ledger.ts` is the same worker as a separate program.
 */
import { hostname } from 'node:os'
import { LockedWorker, type WorkerContext } from '../src/index.ts'
import { Ledger } from './ledger.ts'
import { postStrike, type PostingResult } from './post-strike.ts'
import type { Strike } from './strike.ts'

export default async ({
  redlock,
  connection,
  prefix,
}: WorkerContext): Promise<LockedWorker<Strike, PostingResult>> => {
  const url = process.env['DATABASE_URL']
  if (url === undefined) throw new Error('Set DATABASE_URL: the ledger is in PostgreSQL')
  const ledger = await Ledger.connect(url)
  const worker = new LockedWorker<Strike, PostingResult>(
    'customer-ledger',
    (job, lease) => postStrike(job, lease, ledger, hostname()),
    {
      ...{ redlock, connection, prefix },
      resource: ({ data }) => `customer:${data.customer}`,
      concurrency: Number(process.env['CONCURRENCY'] ?? 4),
    },
  )
  worker.on('closed', () => {
    void ledger.close()
  })
  return worker
}
