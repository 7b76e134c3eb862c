import type { Redis } from 'ioredis'
import { until } from '../fixtures.ts'

/** Resolves when a replica has the data of its master. */
export async function hasCopied(replica: Redis): Promise<void> {
  await until('the replica has copied', async () =>
    (await replica.info('replication')).includes('master_link_status:up'),
  )
}
