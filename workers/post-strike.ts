/** Posts the cost of one strike into its operator's ledger, under that operator's lease. */
import type { JobLease } from '../src/index.ts'
import type { LedgerWriter, OpenAccount, Posting } from './ledger.ts'
import { seal } from './seal.ts'
import type { Strike } from './strike.ts'

export interface PostingResult {
  /** `before`: an earlier run of this job had posted and died before it could say so. */
  readonly posted: 'now' | 'before'
  readonly balance: number
  readonly fencingToken: number
}

/** The parts of a job and its lease that a posting needs. */
export interface PostingJob {
  readonly data: Strike
}
export type PostingLease = Pick<JobLease, 'step' | 'fencingToken'>

export async function postStrike(
  { data: strike }: PostingJob,
  lease: PostingLease,
  ledger: LedgerWriter,
  worker: string,
): Promise<PostingResult> {
  const { id: jobId, customer } = strike
  const account = await lease.step('open', ({ fencingToken }) =>
    ledger.open({ jobId, customer, fencingToken, worker }),
  )
  const { fencingToken } = lease
  if (account.posted) return { posted: 'before', balance: account.balance, fencingToken }
  const entry = entryFor(strike, account)
  await lease.step('post', ({ fencingToken }) => ledger.post({ ...entry, fencingToken, worker }))
  return { posted: 'now', balance: entry.balanceAfter, fencingToken }
}

/** Read, modify, write: right only if no other program writes in between. */
function entryFor(
  { id: jobId, customer, amount }: Strike,
  { balance, seal: last }: OpenAccount,
): Omit<Posting, 'fencingToken' | 'worker'> {
  const facts = { jobId, customer, amount, balanceAfter: balance + amount }
  return { ...facts, balanceBefore: balance, seal: seal(last, facts) }
}
