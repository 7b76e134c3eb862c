import { describe, expect, it } from 'vitest'
import { audit, isRight, type EntryRow, type LedgerRows } from '../../workers/ledger-audit.ts'
import { seal } from '../../workers/seal.ts'

/** A right ledger: each entry continues the one before; the fencing token is its number. */
function ledger(customer: string, amounts: readonly number[]): EntryRow[] {
  let balance = 0
  let last = ''
  return amounts.map((amount, index) => {
    const facts = {
      jobId: `${customer}-${index}`,
      customer,
      amount,
      balanceAfter: balance + amount,
    }
    const entry: EntryRow = {
      ...facts,
      seq: index + 1,
      balanceBefore: balance,
      seal: seal(last, facts),
      fencingToken: index + 1,
      worker: 'w',
    }
    balance += amount
    last = entry.seal
    return entry
  })
}

function rows(entries: readonly EntryRow[], balance?: number): LedgerRows {
  const sum = entries.reduce((total, entry) => total + entry.amount, 0)
  const account = { customer: 'A', balance: balance ?? sum, fencingToken: 9 }
  return { accounts: [account], entries, refusals: [] }
}

function without(entries: readonly EntryRow[], index: number): EntryRow[] {
  return entries.filter((_, position) => position !== index)
}

function changed(entries: readonly EntryRow[], index: number, change: Partial<EntryRow>) {
  return entries.map((entry, position) => (position === index ? { ...entry, ...change } : entry))
}

describe('the audit of a ledger', () => {
  it('finds nothing in a correct ledger, in any order of its rows', () => {
    const result = audit(rows(ledger('A', [5, 0, 7]).reverse()))
    expect(result).toMatchObject({
      jobsPosted: 3,
      duplicateEffects: [],
      outOfTurnEffects: [],
      wrongBalances: [],
    })
    expect(isRight(result)).toBe(true)
  })

  it('keeps customers apart', () => {
    const entries = [...ledger('A', [5, 7]), ...ledger('B', [1, 2])]
    const accounts = [
      { customer: 'A', balance: 12, fencingToken: 2 },
      { customer: 'B', balance: 3, fencingToken: 2 },
    ]
    expect(isRight(audit({ accounts, entries, refusals: [] }))).toBe(true)
  })

  it('finds a job that was posted twice, though the entries follow each other', () => {
    const [first, second] = ledger('A', [5, 5])
    if (first === undefined || second === undefined) throw new Error('two entries')
    const facts = { ...second, jobId: first.jobId }
    const result = audit(rows([first, { ...facts, seal: seal(first.seal, facts) }]))
    expect(result.duplicateEffects).toMatchObject([{ jobId: 'A-0', what: 'posted 2 times' }])
    expect(result.outOfTurnEffects).toEqual([])
    expect(isRight(result)).toBe(false)
  })

  it('finds an entry that started from an old balance, with both entries as evidence', () => {
    const entries = changed(ledger('A', [5, 7, 1]), 2, { balanceBefore: 5 })
    const [finding] = audit(rows(entries)).outOfTurnEffects
    expect(finding?.what).toBe('started from a balance of 5, but the ledger stood at 12')
    expect(finding?.entries.map((entry) => entry.seq)).toEqual([2, 3])
  })

  it('finds a first entry that did not start from nothing', () => {
    const [finding] = audit(
      rows(changed(ledger('A', [5]), 0, { balanceBefore: 3 })),
    ).outOfTurnEffects
    expect(finding?.what).toBe('started from a balance of 3, but the ledger stood at 0')
  })

  it('finds a fencing token that went back', () => {
    const entries = changed(ledger('A', [5, 7]), 0, { fencingToken: 8 })
    const [finding] = audit(rows(entries)).outOfTurnEffects
    expect(finding?.what).toBe('has fencing token 2, after one with 8')
  })

  it('finds an overlap of entries that move no money', () => {
    const overlapping = without(ledger('A', [5, 0, 0]), 1)
    const [finding] = audit(rows(overlapping)).outOfTurnEffects
    expect(finding?.what).toBe('was computed without sight of the entry before it')
  })

  it('finds a balance that is not the sum of the amounts', () => {
    const result = audit(rows(ledger('A', [5, 7]), 7))
    expect(result.wrongBalances).toMatchObject([
      { customer: 'A', what: 'has a balance of 7, but its amounts add up to 12' },
    ])
    expect(isRight(result)).toBe(false)
  })

  it('lists refused writes, which are no error', () => {
    const refusal = {
      seq: 1,
      jobId: 'A-0',
      customer: 'A',
      fencingToken: 1,
      currentToken: 2,
      worker: 'w',
    }
    const result = audit({ ...rows(ledger('A', [5])), refusals: [refusal] })
    expect(result.staleWritesRefused).toEqual([refusal])
    expect(isRight(result)).toBe(true)
  })
})
