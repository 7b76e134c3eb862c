import { getQueueToken } from '@nestjs/bullmq'
import type { INestApplicationContext } from '@nestjs/common'
import type { LockedQueue } from 'bullmq-redlock'

/** What a controller does with `@InjectQueue('charges') queue: LockedQueue`. */
export async function addSomeJobs(app: INestApplicationContext): Promise<void> {
  const charges = app.get<LockedQueue>(getQueueToken('charges'))
  const reports = app.get<LockedQueue>(getQueueToken('reports'))
  const retried = { attempts: 2 }
  for (let nr = 0; nr < 9; nr++) await charges.add('charge', { customerId: nr % 3 }, retried)
  for (let nr = 0; nr < 3; nr++) await reports.add('report', { month: '2026-11' }, retried)
}
