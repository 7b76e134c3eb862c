/** Who runs ordered jobs, and what each does not do by its own documentation. */
import type { Contender as Beside } from '../beside.ts'
import type { Contender } from '../coordination/job.ts'

export interface Ordered extends Beside {
  readonly name: Contender
  readonly packages: readonly string[]
  /** Where its jobs wait. */
  readonly server: 'Redis' | 'PostgreSQL' | 'its own'
  readonly lacks: string
}

/** In the order of the tables. */
export const contenders: readonly Ordered[] = [
  {
    ...{ name: 'strict', title: 'bullmq-redlock', kind: 'ours' },
    ...{ packages: [], server: 'Redis' },
    lacks: 'needs lock servers besides the queue',
  },
  {
    ...{ name: 'plain', title: 'BullMQ, without order', kind: 'bound' },
    ...{ packages: [], server: 'Redis' },
    lacks: 'order by key, one job of a key at a time; groups are in BullMQ Pro',
  },
  {
    ...{ name: 'groupmq', title: 'groupmq', kind: 'peer' },
    ...{ packages: ['groupmq'], server: 'Redis' },
    lacks: 'locks across queues, fencing, a rate or a pause of one key, several slots of a key',
  },
  {
    ...{ name: 'bunqueue', title: 'bunqueue', kind: 'peer' },
    ...{ packages: ['bunqueue', 'bun'], server: 'its own' },
    lacks: 'locks across queues, a token for what the job writes to; server and client run on Bun',
  },
  {
    ...{ name: 'pg-boss', title: 'pg-boss, `key_strict_fifo`', kind: 'peer' },
    ...{ packages: ['pg-boss'], server: 'PostgreSQL' },
    lacks:
      'locks across queues, a token for what the job writes to, order of jobs that one call adds; polls every 0.5 s at most; a dead worker is found after 10 s at least',
  },
  {
    ...{ name: 'graphile-worker', title: 'graphile-worker, `queueName`', kind: 'peer' },
    ...{ packages: ['graphile-worker'], server: 'PostgreSQL' },
    lacks:
      'locks across queues, fencing, order through a retry, many queue names; after `kill -9` a job stays locked for 4 hours (recovery is in Worker Pro)',
  },
]
