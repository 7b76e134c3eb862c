import { Processor, WorkerHost } from '@nestjs/bullmq'
import type { Job } from 'bullmq'
import type { JobLease } from 'bullmq-redlock'
import { lockedWorker } from './locked-bull.js'
import { redlock } from './redlock.js'

export interface Charge {
  readonly customerId: number
}

const resource = ({ data }: Job<Charge>): string => `customer:${data.customerId}`

/** One charge at a time for each customer, in their order, on however many machines. */
@Processor('charges', lockedWorker({ redlock, resource, concurrency: 10, checkpoints: true }))
export class ChargeProcessor extends WorkerHost {
  /** The lease stands where BullMQ has the job's token. */
  async process(job: Job<Charge>, lease: JobLease & string): Promise<number> {
    const say = (what: string): boolean =>
      process.stdout.write(
        `${what} ${job.id ?? ''} customer:${job.data.customerId} ${lease.fencingToken}\n`,
      )
    // A checkpoint: a second attempt does not load again.
    await lease.step('load', async () => {
      say('begins')
      await new Promise((resolve) => setTimeout(resolve, 20))
    })
    if (job.attemptsMade === 0 && job.data.customerId === 2) throw new Error('card was declined')
    // A store that compares fencing tokens refuses what a stale worker writes.
    return lease.step('charge', ({ fencingToken }) => {
      say('ends')
      return fencingToken
    })
  }
}
