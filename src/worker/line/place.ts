/** Which instance of which job of which queue stands in a line. */
import type { Job } from 'bullmq'

export interface Place {
  readonly prefix: string
  readonly queue: string
  readonly jobId: string
}

export function placeOf(job: Pick<Job, 'id' | 'prefix' | 'queueName'>): Place {
  return { prefix: job.prefix, queue: job.queueName, jobId: job.id ?? '' }
}

/** The name of a job for keys of our own. */
export function jobName({ prefix, queue, jobId }: Place): string {
  return JSON.stringify([prefix, queue, jobId])
}
