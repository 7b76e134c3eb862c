/** Who runs ordered jobs, in the order of the tables. */
import { noPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import type { Contender } from '../coordination/job.ts'

const TITLES: Partial<Record<Contender, string>> = {
  strict: 'bullmq-redlock',
  plain: 'BullMQ, without order',
  groupmq: 'groupmq',
  bunqueue: 'bunqueue',
  ...(!noPostgres && {
    'pg-boss': 'pg-boss, `key_strict_fifo`',
    'graphile-worker': 'graphile-worker, `queueName`',
  }),
}

export const contenders = Object.keys(TITLES) as readonly Contender[]

export function titleOf(contender: Contender): string {
  return TITLES[contender] ?? contender
}
