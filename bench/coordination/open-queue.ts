/** The queue of each contender that BullMQ carries, from its producers' side. */
import { Queue } from 'bullmq'
import { LockedQueue } from '../built.ts'
import type { Contender, KeyedJob, Orders } from './job.ts'

export type Place = Pick<Orders, 'queue' | 'connection' | 'namespace'>

export function openQueue(contender: Contender, place: Place): Queue<KeyedJob> {
  const { queue, connection, namespace } = place
  if (contender !== 'strict' && contender !== 'dedupe') {
    return new Queue<KeyedJob>(queue, { connection })
  }
  return new LockedQueue<KeyedJob>(queue, { connection, namespace, resource: ({ key }) => key })
}
