/** Checkers that cannot find anything prove nothing: each is shown a history with the anomaly it is for. */
import { expect, it } from 'vitest'
import { overlaps } from './checkers/exclusion.ts'
import { storeDisorder } from './checkers/fenced-store.ts'
import { lostUpdates } from './checkers/lost-updates.ts'
import { tokenDisorder } from './checkers/token-order.ts'
import type { LeaseRecord, WriteRecord } from './history.ts'

function lease(
  name: string,
  fencingToken: number,
  [attemptAt, grantedAt, trustedUntil, endedAt]: readonly [number, number, number, number?],
): LeaseRecord {
  return {
    lease: name,
    resource: 'r',
    fencingToken,
    attemptAt,
    grantedAt,
    trustedUntil,
    endedAt,
    how: undefined,
  }
}

function write(name: string, entry: string, facts: Partial<WriteRecord> = {}): WriteRecord {
  return { lease: name, resource: 'r', entry, accepted: true, trusted: true, ...facts }
}

it('two holders at a time are found, also behind a short lease between them', () => {
  const first = lease('a', 1, [0, 1, 100])
  expect(overlaps([first, lease('b', 2, [90, 99, 200])])).toHaveLength(1)
  expect(overlaps([first, lease('b', 2, [1, 2, 100, 3]), lease('c', 3, [4, 50, 60])])).toHaveLength(
    2,
  )
})

it('a release or the end of trust ends a hold, whichever is first', () => {
  const released = lease('a', 1, [0, 1, 100, 40])
  const lapsed = lease('b', 2, [30, 41, 60, 500])
  expect(overlaps([released, lapsed, lease('c', 3, [45, 61, 90])])).toEqual([])
})

it('an overlap within an excused time does not count', () => {
  const both = [lease('a', 1, [0, 1, 100]), lease('b', 2, [90, 99, 200])]
  expect(overlaps(both, [{ from: 50, until: 150 }])).toEqual([])
})

it('equal tokens, and a token that goes back, are found', () => {
  expect(tokenDisorder([lease('a', 1, [0, 1, 9]), lease('b', 1, [0, 2, 9])])).toHaveLength(1)
  expect(tokenDisorder([lease('a', 5, [0, 1, 9]), lease('b', 4, [2, 3, 9])])).toHaveLength(1)
  // Attempts that overlap in time may be ordered either way.
  expect(tokenDisorder([lease('a', 5, [0, 3, 9]), lease('b', 4, [2, 5, 9])])).toEqual([])
})

it('a store that goes back, a shared token, and a refused holder are found', () => {
  const entry = (name: string, fencingToken: number) => ({ entry: name, seen: '', fencingToken })
  expect(storeDisorder('r', [entry('a#1', 2), entry('b#1', 1)], [])).toHaveLength(1)
  expect(storeDisorder('r', [entry('a#1', 1), entry('b#1', 1)], [])).toHaveLength(1)
  const refused = write('a', 'a#1', { accepted: false })
  expect(storeDisorder('r', [], [refused])).toHaveLength(1)
  expect(storeDisorder('r', [], [{ ...refused, trusted: false }])).toEqual([])
})

it('an acknowledged entry that a later writer had not seen is a lost update', () => {
  const log = [
    { entry: 'a#1', seen: '', fencingToken: 1 },
    { entry: 'b#1', seen: '', fencingToken: 2 },
  ]
  expect(lostUpdates('r', log, [write('a', 'a#1')])).toHaveLength(1)
  expect(lostUpdates('r', log, [write('a', 'a#1', { trusted: false })])).toEqual([])
  expect(lostUpdates('r', log, [write('c', 'c#1')])).toHaveLength(1)
})
