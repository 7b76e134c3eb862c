/** Whose job one is, and how much of the work that tenant may have while all are busy. */
import { numberOption, refuse } from '../options.ts'

export interface Share {
  readonly tenant: string
  readonly weight: number
}

const MIN_WEIGHT = 0.01
const MAX_WEIGHT = 1_000
const MAX_TENANT_LENGTH = 512

/** @throws TypeError for what names no tenant. */
export function checkedTenant(tenant: unknown): string {
  if (typeof tenant === 'string' && tenant !== '' && tenant.length <= MAX_TENANT_LENGTH) {
    return tenant
  }
  return refuse('tenant', `a function that returns 1 to ${MAX_TENANT_LENGTH} characters`, tenant)
}

/** As a job's hash has it. @throws TypeError for what is no weight. */
export function shareText({ tenant, weight }: Share): string {
  return `${numberOption('weight', weight, MIN_WEIGHT, MAX_WEIGHT)} ${tenant}`
}

export function shareFrom(text: string): Share | undefined {
  const space = text.indexOf(' ')
  if (space < 0) return undefined
  return { tenant: text.slice(space + 1), weight: Number(text.slice(0, space)) }
}
