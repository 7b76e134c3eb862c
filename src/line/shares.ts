/** Whose job one is, and how much of the work that tenant may have while all are busy. */
import { numberOption, refuse } from '../options.ts'
import type { LineRunner } from './line-runner.ts'

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

/** @throws TypeError for what is no weight. */
export function checkedWeight(weight: unknown): number {
  return numberOption('weight', weight, MIN_WEIGHT, MAX_WEIGHT)
}

/** As a job's hash has it. */
export function shareText({ tenant, weight }: Share): string {
  return `${weight} ${tenant}`
}

export function shareFrom(text: string): Share | undefined {
  const space = text.indexOf(' ')
  if (space < 0) return undefined
  return { tenant: text.slice(space + 1), weight: Number(text.slice(0, space)) }
}

/** Counts work for the tenant of a share, also of a job that has not ended. */
export async function chargeShare(
  runner: LineRunner,
  share: string,
  workedMs: number,
): Promise<void> {
  await runner.run('line/lua/charge', { share, workedMs })
}
