/** The ledger's rows as the audit wants them. */
import type pg from 'pg'
import type { LedgerRows } from './ledger-audit.ts'

/** PostgreSQL's bigint arrives as text; dollars, tokens and numbers all fit a double exactly. */
export async function readRows(pool: pg.Pool): Promise<LedgerRows> {
  const [accounts, entries, refusals] = await Promise.all(
    ['accounts ORDER BY customer', 'entries ORDER BY seq', 'refusals ORDER BY seq'].map((rest) =>
      pool.query<Record<string, string>>(`SELECT * FROM ${rest}`).then(({ rows }) => rows),
    ),
  )
  const text = (row: Record<string, string>, column: string): string => row[column] ?? ''
  const number = (row: Record<string, string>, column: string): number => Number(row[column])
  return {
    accounts: (accounts ?? []).map((row) => ({
      customer: text(row, 'customer'),
      balance: number(row, 'balance'),
      fencingToken: number(row, 'fencing_token'),
    })),
    entries: (entries ?? []).map((row) => ({
      seq: number(row, 'seq'),
      jobId: text(row, 'job_id'),
      customer: text(row, 'customer'),
      amount: number(row, 'amount'),
      balanceBefore: number(row, 'balance_before'),
      balanceAfter: number(row, 'balance_after'),
      seal: text(row, 'seal'),
      fencingToken: number(row, 'fencing_token'),
      worker: text(row, 'worker'),
    })),
    refusals: (refusals ?? []).map((row) => ({
      seq: number(row, 'seq'),
      jobId: text(row, 'job_id'),
      customer: text(row, 'customer'),
      fencingToken: number(row, 'fencing_token'),
      currentToken: number(row, 'current_token'),
      worker: text(row, 'worker'),
    })),
  }
}
