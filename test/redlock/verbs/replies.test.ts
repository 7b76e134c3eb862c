/** Which reply is which vote, for every verb, and what grants that differ add up to. */
import { describe, expect, test } from 'vitest'
import type { LockFleet } from '../../../src/redlock/fleet/fleet.ts'
import { Acquire } from '../../../src/redlock/verbs/acquire.ts'
import { Confirm } from '../../../src/redlock/verbs/confirm.ts'
import { Extend } from '../../../src/redlock/verbs/extend.ts'
import { heal } from '../../../src/redlock/verbs/heal.ts'
import { Release } from '../../../src/redlock/verbs/release.ts'
import type { Vote } from '../../../src/redlock/verbs/votes.ts'
import { USUAL } from '../../../src/redlock/wire/batch.ts'
import type { CallResult, Master, Request } from '../../../src/redlock/wire/master.ts'
import { FakeClock } from '../../../src/testing/index.ts'

const MAX_LEASE_MS = 1_000
const PROPOSAL = 1_800_000
const COUNTER = 1_700_000
const attempt = { resources: ['r'], token: 'token@owner', leaseMs: 500, waitMs: 0, waiter: '' }

interface Clocks {
  readonly suspendedMs?: number
  readonly isOutOfLine?: boolean
}

/** A fleet of which no server is asked: what a verb reads is given by the test. */
function fleetWith({ suspendedMs = 0, isOutOfLine = false }: Clocks = {}): LockFleet {
  return {
    settings: { clock: new FakeClock(), masterTimeoutMs: 50, maxLeaseMs: MAX_LEASE_MS },
    clocks: { suspendedMs: () => suspendedMs, isOutOfLine: () => isOutOfLine },
    voted: () => undefined,
    inBackground: () => undefined,
  } as unknown as LockFleet
}

/** It is not enrolled, so no release is repeated. */
const master = { whenEnrolled: () => Promise.resolve(false) } as Partial<Master> as Master
const replied = (reply: unknown): CallResult => ({ ok: true, reply }) as CallResult
const acquire = (clocks?: Clocks): Acquire => new Acquire(fleetWith(clocks), attempt, PROPOSAL)

type Read = (result: CallResult) => Vote | Promise<Vote>

const READS: Readonly<Record<string, Read>> = {
  acquire: (result) => acquire().read(master, result),
  confirm: (result) => new Confirm(fleetWith(), attempt, COUNTER).read(master, result),
  extend: (result) => new Extend(fleetWith(), attempt, COUNTER, 50).read(master, result),
  heal: (result) => {
    const answering = {
      ask: (request: Request) => {
        request.asker.hear(request, result)
      },
    } as Partial<Master> as Master
    return heal(fleetWith(), answering, attempt, COUNTER)
  },
  release: (result) => {
    const terms = { attempt, isUnsettled: () => false, graceMs: 0, waiter: '' }
    return new Release(fleetWith(), terms).read(master, result)
  },
}

describe.each<[verb: string, replies: [reply: unknown, vote: object][]]>([
  [
    'acquire',
    [
      [USUAL, { kind: 'granted', counter: PROPOSAL }],
      [PROPOSAL + 64, { kind: 'granted', counter: PROPOSAL + 64 }],
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
      [['counter', COUNTER], { kind: 'counter', counter: COUNTER }],
      [['lost'], { kind: 'lost' }],
    ],
  ],
  [
    'extend',
    [
      [USUAL, { kind: 'extended' }],
      [['extended'], { kind: 'extended' }],
      [['healed'], { kind: 'healed' }],
      [['missing'], { kind: 'missing' }],
      [['lost', 'x@y'], { kind: 'lost', holder: 'x@y' }],
    ],
  ],
  [
    'heal',
    [
      [['healed'], { kind: 'healed' }],
      [['abandoned'], { kind: 'abandoned' }],
      [['lost', 'x@y'], { kind: 'lost', holder: 'x@y' }],
    ],
  ],
  [
    'release',
    [
      [USUAL, { kind: 'released' }],
      [0, { kind: 'released' }],
    ],
  ],
])('%s', (verb, replies) => {
  const read = READS[verb]
  if (read === undefined) throw new Error(`no verb ${verb}`)

  test.each(replies)('%j is %j', async (reply, vote) => {
    expect(await read(replied(reply))).toEqual(vote)
  })

  test('a reply that it does not know is no vote, and may have changed something', async () => {
    const odd = [
      ...[null, 'OK', -0.5, {}, [], ['other'], ['taken', 'x@y'], ['taken', 1, 70]],
      ...[['taken', 'x@y', '70'], ['other', 'x@y', 70], ['quarantined'], ['quarantined', '70']],
      ...[['skewed'], ['skewed', 0.5], ['other', 70], ['counter'], ['counter', '70']],
    ]
    for (const reply of odd) {
      expect(await read(replied(reply)), JSON.stringify(reply)).toMatchObject({
        ...{ kind: 'failed', reason: 'malformed', mayHaveRun: true },
      })
    }
  })

  test('a server that is not enrolled did nothing', async () => {
    expect(await read(replied(['unenrolled']))).toMatchObject({
      ...{ kind: 'failed', reason: 'unenrolled', mayHaveRun: false },
    })
  })

  test('no answer is no vote, and says whether the server may have run it', async () => {
    for (const mayHaveRun of [true, false]) {
      const vote = await read({ ok: false, reason: 'timeout', detail: 'late', mayHaveRun })
      expect(vote).toEqual({ kind: 'failed', reason: 'timeout', detail: 'late', mayHaveRun })
    }
  })
})

test('which vote counts for a verb', () => {
  const confirm = new Confirm(fleetWith(), attempt, COUNTER)
  const extend = new Extend(fleetWith(), attempt, COUNTER, 50)
  const terms = { attempt, isUnsettled: () => false, graceMs: 0, waiter: '' }
  const release = new Release(fleetWith(), terms)
  expect(acquire().isFor({ kind: 'granted', counter: COUNTER })).toBe(true)
  expect(acquire().isFor({ kind: 'abandoned' })).toBe(false)
  expect(confirm.isFor({ kind: 'counter', counter: COUNTER })).toBe(true)
  // A later grant has raised it.
  expect(confirm.isFor({ kind: 'counter', counter: COUNTER + 1 })).toBe(false)
  expect(confirm.isFor({ kind: 'lost' })).toBe(false)
  expect(extend.isFor({ kind: 'extended' })).toBe(true)
  expect(extend.isFor({ kind: 'healed' })).toBe(false)
  expect(extend.isFor({ kind: 'missing' })).toBe(false)
  expect(release.isFor({ kind: 'released' })).toBe(true)
})

describe('counters that differ', () => {
  const granted = (counters: readonly number[]): Acquire => {
    const verb = acquire()
    for (const counter of counters) verb.read(master, replied(counter))
    return verb
  }

  test.each([
    ['the largest last', [5, 5, 7], 7, 1],
    ['the largest first', [7, 5, 5], 7, 1],
    ['the largest twice', [5, 7, 7], 7, 2],
    ['all the same', [5, 5, 5], 5, 3],
  ])('%s: only masters with the largest one count for it', (_, counters, counter, atCounter) => {
    expect(granted(counters)).toMatchObject({ counter, atCounter })
  })

  test('a master that refuses counts for none', () => {
    const verb = granted([5])
    verb.read(master, replied(['taken', 'x@y', 70]))
    expect(verb).toMatchObject({ counter: 5, atCounter: 1 })
  })
})

describe('a master whose clock is not trusted', () => {
  test('is asked for no grant but for its time, and its grant is no vote', () => {
    const verb = acquire({ suspendedMs: 70 })
    expect(verb.ask(master)).toMatchObject({ procedure: { name: 'inspect' } })
    expect(verb.read(master, replied(USUAL))).toEqual({ kind: 'suspended', waitMs: 70 })
  })

  test('has no vote for an extension', () => {
    const verb = new Extend(fleetWith({ isOutOfLine: true }), attempt, COUNTER, 50)
    expect(verb.isFor(verb.read(master, replied(USUAL)))).toBe(false)
    expect(verb.read(master, replied(['missing']))).toEqual({ kind: 'missing' })
  })
})
