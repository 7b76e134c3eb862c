/** Reads a ledger after the fact and says what is wrong with it. Pure: rows in, findings out. */
import { FIRST_SEAL, seal } from './seal.ts'

export interface EntryRow {
  /** Increases with every entry of a customer. */
  readonly seq: number
  readonly jobId: string
  readonly customer: string
  readonly amount: number
  readonly balanceBefore: number
  readonly balanceAfter: number
  readonly seal: string
  readonly fencingToken: number
  readonly worker: string
}

interface AccountRow {
  readonly customer: string
  readonly balance: number
  readonly fencingToken: number
}

interface RefusalRow {
  readonly seq: number
  readonly jobId: string
  readonly customer: string
  readonly fencingToken: number
  readonly currentToken: number
  readonly worker: string
}

export interface Finding {
  readonly customer: string
  readonly jobId?: string
  readonly what: string
  readonly entries: readonly EntryRow[]
}

export interface Audit {
  readonly jobsPosted: number
  /** Jobs that were posted more than once. */
  readonly duplicateEffects: readonly Finding[]
  /** Entries that do not continue the entry before them, or were overtaken by it. */
  readonly outOfTurnEffects: readonly Finding[]
  /** Accounts whose balance is not the sum of their amounts. */
  readonly wrongBalances: readonly Finding[]
  readonly staleWritesRefused: readonly RefusalRow[]
}

export interface LedgerRows {
  readonly accounts: readonly AccountRow[]
  readonly entries: readonly EntryRow[]
  readonly refusals: readonly RefusalRow[]
}

/**
 * `added` lists the jobs in the order in which they were added, where that is the order to be kept.
 */
export function audit(
  { accounts, entries, refusals }: LedgerRows,
  added: readonly string[] = [],
): Audit {
  const places = new Map(added.map((jobId, place) => [jobId, place]))
  const byCustomer = grouped(entries, (entry) => entry.customer)
  const byJob = grouped(entries, (entry) => entry.jobId)
  return {
    jobsPosted: byJob.size,
    duplicateEffects: [...byJob.values()].filter((same) => same.length > 1).map(duplicate),
    outOfTurnEffects: [...byCustomer.values()].flatMap((own) => outOfTurn(own, places)),
    wrongBalances: accounts.flatMap((account) =>
      wrongBalance(account, byCustomer.get(account.customer) ?? []),
    ),
    staleWritesRefused: refusals,
  }
}

/** Whether the audit found an effect that must not exist. A refused write is the store working. */
export function isRight(result: Audit): boolean {
  const { duplicateEffects, outOfTurnEffects, wrongBalances } = result
  return [duplicateEffects, outOfTurnEffects, wrongBalances].every((found) => found.length === 0)
}

function duplicate(entries: readonly EntryRow[]): Finding {
  const { customer, jobId } = first(entries)
  return { customer, jobId, what: `posted ${entries.length} times`, entries }
}

function outOfTurn(entries: readonly EntryRow[], places: ReadonlyMap<string, number>): Finding[] {
  const ordered = entries.toSorted((a, b) => a.seq - b.seq)
  return ordered.flatMap((entry, index) => {
    const before = ordered[index - 1]
    const what = breach(before, entry) ?? overtaking(before, entry, places)
    if (what === undefined) return []
    const { customer, jobId } = entry
    return [{ customer, jobId, what, entries: before === undefined ? [entry] : [before, entry] }]
  })
}

/** How an entry fails to continue the one before it, if it does. */
function breach(before: EntryRow | undefined, entry: EntryRow): string | undefined {
  const balance = before?.balanceAfter ?? 0
  if (entry.balanceBefore !== balance) {
    return `started from a balance of ${entry.balanceBefore}, but the ledger stood at ${balance}`
  }
  if (before !== undefined && entry.fencingToken < before.fencingToken) {
    return `has fencing token ${entry.fencingToken}, after one with ${before.fencingToken}`
  }
  // Entries of 0 dollars leave the balance alone: only the seal shows that they overlapped.
  if (entry.seal !== seal(before?.seal ?? FIRST_SEAL, entry)) {
    return 'was computed without sight of the entry before it'
  }
  return undefined
}

function overtaking(
  before: EntryRow | undefined,
  entry: EntryRow,
  places: ReadonlyMap<string, number>,
): string | undefined {
  const place = places.get(entry.jobId)
  const placeBefore = before === undefined ? undefined : places.get(before.jobId)
  if (place === undefined || placeBefore === undefined || place >= placeBefore) return undefined
  return 'was added before the one that was posted before it'
}

function wrongBalance(account: AccountRow, entries: readonly EntryRow[]): Finding[] {
  const sum = entries.reduce((total, entry) => total + entry.amount, 0)
  if (sum === account.balance) return []
  const what = `has a balance of ${account.balance}, but its amounts add up to ${sum}`
  return [{ customer: account.customer, what, entries }]
}

function grouped<T>(rows: readonly T[], key: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const row of rows) {
    const group = groups.get(key(row))
    if (group === undefined) groups.set(key(row), [row])
    else group.push(row)
  }
  return groups
}

function first<T>(rows: readonly T[]): T {
  const [row] = rows
  if (row === undefined) throw new Error('Expected at least one row')
  return row
}
