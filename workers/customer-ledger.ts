/**
 * Serialize per customer: posts the cost of every bird strike into its operator's ledger. Jobs of
 * one operator run one at a time, on however many machines. A module for `bullmq-redlock work`.
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
  if (!url) throw new Error('Set DATABASE_URL: the ledger is in PostgreSQL')
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
