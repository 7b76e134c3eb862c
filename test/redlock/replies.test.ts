/** Which reply is which vote, for every verb, and what grants that differ add up to. */
import { describe, expect, test } from 'vitest'
import type { Question } from '../../src/facts.ts'
import { counted, highest, voteOf } from '../../src/redlock/poll.ts'
import { USUAL_VOTES, type Vote } from '../../src/redlock/verbs.ts'
import { USUAL } from '../../src/redlock/wire/calls.ts'
import type { CallResult, Master } from '../../src/redlock/wire/master.ts'

const MAX_LEASE_MS = 1_000
const PROPOSAL = 1_800_000
const COUNTER = 1_700_000
const granted: Vote = { kind: 'granted', counter: PROPOSAL }
const about = { fencingToken: COUNTER, maxLeaseMs: MAX_LEASE_MS }
const master = {} as Master
const replied = (reply: unknown): CallResult => ({ kind: 'replied', reply })

describe.each<[verb: Question, replies: [reply: unknown, vote: object][]]>([
  [
    'acquire',
    [
      [USUAL, { kind: 'granted' }],
      [['granted', PROPOSAL + 64], { kind: 'granted', counter: PROPOSAL + 64 }],
      [['taken', 'x@y', 70], { kind: 'taken', holder: 'x@y', ttlMs: 70 }],
      // No lease lasts longer, whatever a server says whose clock was set back.
      [['taken', 'x@y', 70_000], { kind: 'taken', holder: 'x@y', ttlMs: MAX_LEASE_MS }],
      [['quarantined', 70], { kind: 'quarantined', waitMs: 70 }],
      [['skewed', 70], { kind: 'skewed', aheadMs: 70 }],
      [['abandoned'], { kind: 'abandoned' }],
    ],
  ],
  [
    'confirm',
    [
      [USUAL, { kind: 'counter' }],
      [['counter', COUNTER], { kind: 'counter' }],
      // A later grant has raised it.
      [['counter', COUNTER + 1], { kind: 'lost' }],
      [['lost'], { kind: 'lost' }],
    ],
  ],
  [
    'extend',
    [
      [USUAL, { kind: 'extended' }],
      [['healed'], { kind: 'healed' }],
      [['missing'], { kind: 'missing' }],
      [['lost', 'x@y'], { kind: 'lost', holder: 'x@y' }],
    ],
  ],
  [
    'heal',
    [
      [USUAL, { kind: 'healed' }],
      [['abandoned'], { kind: 'abandoned' }],
      [['lost', 'x@y'], { kind: 'lost', holder: 'x@y' }],
    ],
  ],
  ['release', [[USUAL, { kind: 'released' }]]],
])('%s', (verb, replies) => {
  const read = (result: CallResult): Vote => voteOf(verb, result, about)

  test.each(replies)('%j is %j', (reply, vote) => {
    expect(read(replied(reply))).toEqual(vote)
  })

  test('a reply that it does not know is no vote, and may have changed something', () => {
    const odd = [
      ...[null, 'OK', -0.5, {}, [], ['other'], ['taken', 'x@y'], ['taken', 1, 70]],
      ...[['taken', 'x@y', '70'], ['other', 'x@y', 70], ['quarantined'], ['quarantined', '70']],
      ...[['skewed'], ['skewed', 0.5], ['other', 70], ['granted'], ['granted', 0.5], ['counter']],
      ['counter', '70'],
    ]
    for (const reply of odd) {
      expect(read(replied(reply)), JSON.stringify(reply)).toMatchObject({
        ...{ kind: 'failed', reason: 'malformed', mayHaveRun: true },
      })
    }
  })

  test('a server that is not enrolled did nothing', () => {
    expect(read(replied(['unenrolled']))).toMatchObject({
      ...{ kind: 'failed', reason: 'unenrolled', mayHaveRun: false },
    })
  })

  test('no answer is no vote, and says whether the server may have run it', () => {
    for (const mayHaveRun of [true, false]) {
      const vote = read({ kind: 'failed', reason: 'timeout', detail: 'late', mayHaveRun })
      expect(vote).toEqual({ kind: 'failed', reason: 'timeout', detail: 'late', mayHaveRun })
    }
  })
})

test('only the usual vote of a verb counts for it', () => {
  expect(USUAL_VOTES).toEqual({
    ...{ acquire: { kind: 'granted' }, confirm: { kind: 'counter' } },
    ...{ extend: { kind: 'extended' }, heal: { kind: 'healed' }, release: { kind: 'released' } },
  })
})

describe('counters that differ', () => {
  const votes = (counters: readonly number[]): readonly Vote[] =>
    counters.map((counter) => ({ kind: 'granted', counter }))

  test.each([
    ['the largest last', [5, 5, 7], 7, 1],
    ['the largest first', [7, 5, 5], 7, 1],
    ['the largest twice', [5, 7, 7], 7, 2],
    ['all the same', [5, 5, 5], 5, 3],
  ])('%s: only masters with the largest one count for it', (_, counters, counter, masters) => {
    expect(highest(votes(counters), PROPOSAL)).toEqual({ counter, masters })
  })

  test('a master that stores the proposal granted exactly it', () => {
    expect(highest([{ kind: 'granted' }, ...votes([5, PROPOSAL])], PROPOSAL)).toEqual({
      ...{ counter: PROPOSAL, masters: 2 },
    })
  })

  test('a master that refuses, or has not answered, counts for none', () => {
    const taken: Vote = { kind: 'taken', holder: 'x@y', ttlMs: 70 }
    expect(highest([...votes([5]), taken, undefined], PROPOSAL)).toEqual({ counter: 5, masters: 1 })
  })
})

describe('a master whose clock is not trusted', () => {
  const clocks = (suspendedMs: number, outOfLine = false): Parameters<typeof counted>[3] => ({
    suspendedMs: () => suspendedMs,
    isOutOfLine: () => outOfLine,
  })

  test('has no vote for a grant, also where this very reply showed it', () => {
    expect(counted('acquire', granted, master, clocks(0))).toEqual(granted)
    const suspended = { kind: 'suspended', waitMs: 5 }
    expect(counted('acquire', granted, master, clocks(5))).toEqual(suspended)
  })

  test('and was asked nothing but the time: has no vote either when its clock is right now', () => {
    const suspended = { kind: 'suspended', waitMs: 1 }
    expect(counted('time', granted, master, clocks(0))).toEqual(suspended)
  })

  test('has no vote for an extension where it is out of line, and may lack the key', () => {
    const vote = counted('extend', { kind: 'extended' }, master, clocks(70, true))
    expect(vote).toEqual({ kind: 'suspended', waitMs: 70 })
    expect(counted('extend', { kind: 'missing' }, master, clocks(70, true)).kind).toBe('missing')
    expect(counted('extend', { kind: 'extended' }, master, clocks(70)).kind).toBe('extended')
  })
})
