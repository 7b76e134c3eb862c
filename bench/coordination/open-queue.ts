/** The queue of each contender that BullMQ carries, from its producers' side. */
import { Queue } from 'bullmq'
import { LockedQueue, ShardedQueue } from '../built.ts'
import { tenantOf, weightOf, type Contender, type KeyedJob, type Orders } from './job.ts'

export type Place = Pick<Orders, 'queue' | 'connection'>

/** Their producers are `LockedQueue`s. */
const LINED: readonly Contender[] = ['strict', 'tenants', 'batch', 'sharded']

export function openQueue(contender: Contender, place: Place): Queue<KeyedJob> {
  const { queue, connection } = place
  if (!LINED.includes(contender)) {
    return new Queue<KeyedJob>(queue, { connection })
  }
  const resource = ({ key }: KeyedJob): string => key
  if (contender === 'sharded') {
    return new ShardedQueue<KeyedJob>(queue, { connection, resource, shards: 1 })
  }
  return new LockedQueue<KeyedJob>(queue, {
    ...{ connection, resource },
    ...(contender === 'tenants' && {
      tenant: ({ key }: KeyedJob) => tenantOf(key),
      weight: ({ key }: KeyedJob) => weightOf(key),
    }),
  })
}
