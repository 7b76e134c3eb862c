import { Processor, WorkerHost } from '@nestjs/bullmq'
import { Inject, type OnApplicationBootstrap } from '@nestjs/common'
import type { Job } from 'bullmq'
import { lockedProcessor, Redlock, type JobLease, type LockedProcessor } from 'bullmq-redlock'

export interface Charge {
  readonly customerId: number
}

/** One charge at a time for each customer, on however many machines this application runs. */
@Processor('charges', { concurrency: 10 })
export class ChargeProcessor extends WorkerHost implements OnApplicationBootstrap {
  readonly #run: LockedProcessor<Charge, number>

  constructor(@Inject(Redlock) redlock: Redlock) {
    super()
    const resource = ({ data }: Job<Charge>): string => `customer:${data.customerId}`
    this.#run = lockedProcessor<Charge, number>(redlock, { resource }, (job, lease) =>
      this.charge(job, lease),
    )
  }

  /** NestJS has made the worker by now: a job stops also when BullMQ's own lock on it is lost. */
  onApplicationBootstrap(): void {
    this.#run.watch(this.worker)
  }

  /** All three parameters: BullMQ makes its signal only for a function that names it. */
  process(job: Job<Charge, number>, token?: string, signal?: AbortSignal): Promise<number> {
    return this.#run(job, token, signal)
  }

  /** What is to be done, as in a `LockedWorker`: each step runs only while the lease is held. */
  private async charge(job: Job<Charge>, lease: JobLease): Promise<number> {
    const say = (what: string): boolean =>
      process.stdout.write(
        `${what} ${job.id ?? ''} customer:${job.data.customerId} ${lease.fencingToken}\n`,
      )
    await lease.step('load', async () => {
      say('begins')
      await new Promise((resolve) => setTimeout(resolve, 20))
    })
    // A store that compares fencing tokens refuses what a stale worker writes.
    return lease.step('charge', ({ fencingToken }) => {
      say('ends')
      return fencingToken
    })
  }
}
