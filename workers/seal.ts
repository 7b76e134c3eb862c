/** The seal of a ledger entry: a digest over the entry and the seal of the entry before it. */
import { createHash } from 'node:crypto'

export interface SealedFacts {
  readonly jobId: string
  readonly customer: string
  readonly amount: number
  readonly balanceAfter: number
}

/** The seal that an account without entries carries. */
export const FIRST_SEAL = ''

/** Chains entries as the pages of a bound book are: one inserted or rewritten breaks the chain. */
export function seal(previous: string, facts: SealedFacts): string {
  const { jobId, customer, amount, balanceAfter } = facts
  return createHash('sha256')
    .update(JSON.stringify([previous, jobId, customer, amount, balanceAfter]))
    .digest('hex')
}
