import type { Job } from 'bullmq'
import { resourcesOf } from '../names.ts'
import { refuse } from '../options.ts'

/** Names what a job touches: jobs that share a name never run at the same time. */
export type ResourceOf<Data = unknown> = (job: Job<Data>) => string | readonly string[]

export function resourceOption<Data>(value: unknown): ResourceOf<Data> {
  if (typeof value !== 'function') {
    refuse('resource', 'a function of the job, such as (job) => `customer:${job.data.id}`', value)
  }
  return value as ResourceOf<Data>
}

/** As the hash of a job has them; undefined for a job that stands in no line, as it names none. */
export function linesOf(resource: ResourceOf, job: Job): string | undefined {
  try {
    return JSON.stringify(resourcesOf(resource, job, job.id))
  } catch {
    return undefined
  }
}
