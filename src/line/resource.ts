import type { Job } from 'bullmq'
import { messageOf } from '../message-of.ts'
import { ResourceError } from '../errors.ts'
import { refuse } from '../options.ts'

/** Names what a job touches: jobs that share a name never run at the same time. */
export type ResourceOf<Data = unknown> = (job: Job<Data>) => string | readonly string[]

const MAX_RESOURCE_LENGTH = 512
/** What a template string makes of a value that is missing or has no name. */
const NOT_A_NAME = /(?<![\w-])(?:undefined|NaN|\[object \w+\])(?![\w-])/

export function resourceOption<Data>(value: unknown): ResourceOf<Data> {
  if (typeof value !== 'function') {
    refuse('resource', 'a function of the job, such as (job) => `customer:${job.data.id}`', value)
  }
  return value as ResourceOf<Data>
}

/**
 * What the user's function names for a job, or for the data of one.
 * @throws ResourceError, with which the job fails, when it does not name anything.
 */
export function resourcesOf<Subject>(
  resource: (subject: Subject) => unknown,
  subject: Subject,
  jobId: string | undefined,
): readonly string[] {
  let named: unknown
  try {
    named = resource(subject)
  } catch (error) {
    const problem = `threw "${messageOf(error)}"`
    throw new ResourceError(jobId, problem, { cause: error })
  }
  if (typeof named === 'string') return [checkedName(named, jobId)]
  const names: readonly unknown[] = Array.isArray(named) ? named : [named]
  // A promise is no name; one that is rejected as well must not end the process.
  for (const one of names) void Promise.resolve(one).catch(() => undefined)
  if (names.length === 0) throw new ResourceError(jobId, 'returned an empty list')
  return [...new Set(names.map((one) => checkedName(one, jobId)))].sort()
}

/** As the hash of a job has them; undefined for a job that stands in no line, as it names none. */
export function linesOf(resource: ResourceOf, job: Job): string | undefined {
  try {
    return JSON.stringify(resourcesOf(resource, job, job.id))
  } catch {
    return undefined
  }
}

/** @throws TypeError for what can be the name of no resource. */
export function resourceName(name: unknown): string {
  if (typeof name !== 'string') refuse('resource', 'a string', name)
  try {
    return checkedName(name, undefined)
  } catch {
    return refuse('resource', `a string of 1 to ${MAX_RESOURCE_LENGTH} characters`, name)
  }
}

function checkedName(name: unknown, jobId: string | undefined): string {
  if (typeof name !== 'string') throw new ResourceError(jobId, `returned ${kindOf(name)}`)
  if (name.length === 0) throw new ResourceError(jobId, 'returned an empty string')
  if (name.length > MAX_RESOURCE_LENGTH) {
    throw new ResourceError(jobId, `returned ${name.length} characters`)
  }
  const gap = NOT_A_NAME.exec(name)?.[0]
  if (gap !== undefined) {
    throw new ResourceError(
      jobId,
      `returned \`${name}\`: \`${gap}\` names nothing, and all such jobs would wait for each other`,
    )
  }
  if (!name.isWellFormed()) throw new ResourceError(jobId, 'returned half a surrogate pair')
  return name
}

function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (value instanceof Promise) return 'a promise'
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`
}
