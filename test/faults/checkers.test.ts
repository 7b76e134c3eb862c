/**
 * Checkers that cannot find anything prove nothing: each is shown a history with the anomaly it is
 * for.
 */
import { expect, it } from 'vitest'
import { storeDisorder } from './checkers/fenced-store.ts'
import { lostUpdates } from './checkers/lost-updates.ts'
import type { WriteRecord } from './history.ts'

function write(name: string, entry: string, facts: Partial<WriteRecord> = {}): WriteRecord {
  return { lease: name, resource: 'r', entry, accepted: true, trusted: true, ...facts }
}

it('finds a store that goes back, a shared token, and a refused holder', () => {
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
