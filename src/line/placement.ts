/** What a job says of its place in line when it is added, as its hash has it. */
import type { Job } from 'bullmq'
import { resourcesOf } from '../names.ts'
import { numberOption, refuse } from '../options.ts'
import { checkedRate, type JobRate } from './limits.ts'

/** Names what a job touches: jobs that share a name never run at the same time. */
export type ResourceOf<Data = unknown> = (job: Job<Data>) => string | readonly string[]

/** How a job stands in line. Each but its lines is undefined where the job says none. */
export interface LinePlacement {
  /** JSON of its resources. */
  readonly lines: string
  readonly slots: string | undefined
  readonly rate: string | undefined
  /** Whose job it is, and how much of the work that tenant may have while all are busy. */
  readonly share: string | undefined
}

/** Undefined for a job that stands in no line, as it names none. */
export function linesOf(resource: ResourceOf, job: Job): string | undefined {
  try {
    return JSON.stringify(resourcesOf(resource, job, job.id))
  } catch {
    return undefined
  }
}

const MIN_WEIGHT = 0.01
const MAX_WEIGHT = 1_000
const MAX_TENANT_LENGTH = 512

export function checkResourceOption(value: unknown): void {
  if (typeof value === 'function') return
  refuse('resource', 'a function of the job, such as (job) => `customer:${job.data.id}`', value)
}

/** @throws TypeError for what is no weight. */
export function shareText(tenant: string, weight: unknown): string {
  return `${numberOption('weight', weight, MIN_WEIGHT, MAX_WEIGHT)} ${tenant}`
}

/** @throws TypeError for a bad rate. */
export function rateText(rate: JobRate): string {
  const { limit, perMs, burst, cost } = checkedRate(rate, 'rate')
  return JSON.stringify([limit, perMs, burst, cost])
}

/** @throws TypeError for what names no tenant. */
export function checkedTenant(tenant: unknown): string {
  if (typeof tenant === 'string' && tenant !== '' && tenant.length <= MAX_TENANT_LENGTH) {
    return tenant
  }
  return refuse('tenant', `a function that returns 1 to ${MAX_TENANT_LENGTH} characters`, tenant)
}
