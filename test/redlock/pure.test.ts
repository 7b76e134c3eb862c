import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { jitteredMs } from '../../src/backoff.ts'
import { systemClock, type Clock } from '../../src/clock.ts'
import { Announcements, turnOrder } from '../../src/redlock/announcements.ts'
import { explain } from '../../src/redlock/explain.ts'
import { decide } from '../../src/redlock/poll.ts'
import { heldBy, quorumOf, RESERVED } from '../../src/redlock/quorum.ts'
import { Proposals } from '../../src/redlock/attempt.ts'
import { describeToken } from '../../src/names.ts'
import type { Vote } from '../../src/redlock/verbs.ts'
import type { LockFleet } from '../../src/redlock/fleet/fleet.ts'
import type { Master } from '../../src/redlock/wire/master.ts'

const fleetSize = fc.integer({ min: 1, max: 15 })

describe('quorum', () => {
  test('two quorums always share a master', () => {
    fc.assert(fc.property(fleetSize, (n) => 2 * quorumOf(n) > n))
  })

  test('a quorum survives the loss of any minority', () => {
    expect([1, 2, 3, 4, 5, 7].map(quorumOf)).toEqual([1, 2, 2, 3, 3, 4])
  })

  test('a verdict never changes as more votes arrive, and is reached with the last vote', () => {
    const ballots = fc.array(fc.boolean(), { minLength: 1, maxLength: 15 })
    fc.assert(
      fc.property(ballots, (ballot) => {
        let granted = 0
        let refused = 0
        let decided: string | undefined
        for (const vote of ballot) {
          if (vote) granted++
          else refused++
          const verdict = decide(ballot.length, quorumOf(ballot.length), granted, refused)
          if (decided !== undefined) expect(verdict).toBe(decided)
          decided = verdict
        }
        expect(decided).toBe(granted >= quorumOf(ballot.length) ? 'for' : 'against')
      }),
    )
  })
})

describe('who holds a resource, by the keys that masters have', () => {
  const keys = (...found: readonly (readonly [ttlMs: number, counter: number])[]) =>
    found.map(([ttlMs, counter]) => ({ ttlMs, counter }))

  test.each([
    ['falling', keys([900, 71], [700, 64], [500, 64], [300, 64]), 64, 500],
    ['rising', keys([300, 64], [500, 64], [700, 64], [900, 71]), 64, 500],
    ['more than a quorum', keys([500, 98], [900, 64], [700, 99], [800, 64], [100, 64]), 64, 700],
  ])(
    'until fewer than a quorum have it, with the token that a quorum stores: %s',
    (_, found, fencingToken, freeInMs) => {
      expect(heldBy(found, 3)).toEqual({ fencingToken, freeInMs })
    },
  )

  test('fewer than a quorum are no holder', () => {
    expect(heldBy(keys([500, 64], [900, 64]), 3)).toBeUndefined()
    expect(heldBy([], 1)).toBeUndefined()
  })
})

describe('proposals', () => {
  const at = (wall: { ms: number }): Clock => ({ ...systemClock, wallNow: () => wall.ms })

  test('increase strictly, also when the wall clock stops or is set back', () => {
    const wall = { ms: 1_800_000_000_000 }
    const proposals = new Proposals(at(wall), 10_000, 'owner')
    const first = proposals.next().fence
    wall.ms -= 1_000
    const second = proposals.next().fence
    expect(first).toBe(1_800_000_000_000_000)
    expect(second).toBeGreaterThan(first)
    expect(proposals.next().fence).toBeGreaterThan(second)
  })

  test('a counter far ahead does not drag them past what masters accept', () => {
    const wall = { ms: 1_800_000_000_000 }
    const proposals = new Proposals(at(wall), 10_000, 'owner')
    proposals.observe((wall.ms + 3_600_000) * 1000)
    expect(proposals.next().fence).toBe(wall.ms * 1000)
  })

  test('a wall clock that was far ahead and is set right leaves nothing behind', () => {
    const wall = { ms: 1_800_003_600_000 }
    const proposals = new Proposals(at(wall), 10_000, 'owner')
    proposals.next()
    wall.ms -= 3_600_000
    expect(proposals.next().fence).toBe(wall.ms * 1000)
  })

  test('no token comes before its time', () => {
    expect(new Proposals(at({ ms: 1_800_000_000_000.0007 }), 10_000, 'owner').next().fence).toBe(
      Math.floor(1_800_000_000_000.0007 * 1000),
    )
  })

  test('a counter that is behind, or half of what masters accept ahead, changes nothing', () => {
    const wall = { ms: 1_800_000_000_000 }
    const proposals = new Proposals(at(wall), 10_000, 'owner')
    const first = proposals.next().fence
    proposals.observe(first - 1_000)
    expect(proposals.next().fence).toBe(first + 1)
    proposals.observe((wall.ms + 5_001) * 1000)
    expect(proposals.next().fence).toBe(first + 2)
  })

  test('proposes above a counter that is a little ahead', () => {
    const wall = { ms: 1_800_000_000_000 }
    const proposals = new Proposals(at(wall), 10_000, 'owner')
    const counter = (wall.ms + 5_000) * 1000
    proposals.observe(counter)
    expect(proposals.next().fence).toBe(counter + 1)
  })
})

describe('why an attempt was not granted', () => {
  const names = ['a', 'b', 'c', 'd', 'e']
  const taken = (holder: string, ttlMs: number): Vote => ({ kind: 'taken', holder, ttlMs })
  const down: Vote = {
    kind: 'failed',
    reason: 'timeout',
    detail: 'no reply within 50 ms',
    mayHaveRun: true,
  }
  const mine: Vote = { kind: 'granted', counter: 1 }

  test('taken: one token on a quorum; wait for the longest time to live', () => {
    const votes = [taken('x@web', 5), taken('x@web', 9), taken('x@web', 7), undefined, undefined]
    expect(explain(['r'], votes, names)).toMatchObject({ status: 'taken', retryAfterMs: 9 })
  })

  test('split: three masters taken, but by two tokens', () => {
    const votes = [taken('x', 5), taken('x', 9), taken('y', 7), mine, mine]
    expect(explain(['r'], votes, names)).toMatchObject({ status: 'split' })
  })

  test('taken: reserved for the next waiters, one of which may hold it on other masters', () => {
    const [kept, x, y] = [taken(RESERVED, 40), taken('x', 9_000), taken('y', 9_000)]
    const outcome = (...votes: Vote[]): unknown => explain(['r'], votes, names)
    expect(outcome(kept, kept, kept, mine, mine)).toMatchObject({
      status: 'taken',
      retryAfterMs: 40,
    })
    expect(outcome(kept, kept, x, mine, mine)).toMatchObject({ status: 'taken', holder: 'x…' })
    expect(outcome(kept, x, y, mine, mine)).toMatchObject({ status: 'split' })
  })

  test('unreachable: fewer than a quorum can vote, and each says why', () => {
    const outcome = explain(['r'], [down, down, down, mine, mine], names)
    expect(outcome.status).toBe('unreachable')
    expect(outcome.answers[0]).toEqual({
      master: 'a',
      answer: 'timeout: no reply within 50 ms',
    })
  })

  test('unreachable by quarantine: wait until enough masters vote again', () => {
    const quarantined = (waitMs: number): Vote => ({ kind: 'quarantined', waitMs })
    const votes = [quarantined(900), quarantined(300), quarantined(500), mine, down]
    expect(explain(['r'], votes, names)).toMatchObject({ status: 'unreachable', retryAfterMs: 500 })
  })

  test('a token is shown without its secret', () => {
    const shown = describeToken('0123456789abcdefghijklmnop@web-3:4121')
    expect(shown).toBe('web-3:4121 (012345…)')
  })
})

/** What so many masters announce is put into `hears`. */
function announcedBy(size: number): {
  readonly announcements: Announcements
  readonly hears: readonly ((message: string) => void)[]
} {
  const hears: ((message: string) => void)[] = []
  const masters = Array.from({ length: size }, (): Partial<Master> => ({
    listen: (_channel, heard) => ({ active: hears.push(heard) > 0 }),
  }))
  return {
    announcements: new Announcements({
      ...{ masters, quorum: quorumOf(size) },
      ...{ keys: { releases: 'released' }, settings: { clock: systemClock } },
    } as unknown as LockFleet),
    hears,
  }
}

describe('whose turn it is', () => {
  test('follows most masters, in any order of their messages', () => {
    const heard = [
      ['a', 'b', 'c'],
      ['b', 'a'],
      ['a', 'c', 'b'],
    ]
    expect(turnOrder(heard)).toEqual(['a', 'b', 'c'])
    expect(turnOrder([...heard].reverse())).toEqual(['a', 'b', 'c'])
  })

  test('is the same for all waiters where masters differ', () => {
    expect(turnOrder([['b'], ['a'], ['c']])).toEqual(['a', 'b', 'c'])
  })

  test('starts the first waiter at the first message, and the others at a quorum', () => {
    const { announcements, hears } = announcedBy(5)
    const told: string[] = []
    for (const name of ['a', 'b', 'c']) {
      const listening = announcements.listen(name, ['r'], 0)
      listening.onTurn((place) => told.push(`${name} ${place}`))
    }
    hears[4]?.('round-1 a,b r')
    expect(told).toEqual(['a 0'])
    hears[2]?.('round-1 b,a r')
    hears[0]?.('round-1 b,a r')
    expect(told.slice(1)).toEqual(['a 0', 'b 0', 'a 1'])
    hears[1]?.('round-1 b,a r')
    expect(told).toHaveLength(4)
  })

  test('is known with the release before, and no waiter passes another', () => {
    const { announcements, hears } = announcedBy(1)
    const told: string[] = []
    for (const name of ['a', 'b', 'c']) {
      const listening = announcements.listen(name, ['r', 's'], 0)
      listening.onTurn((place) => told.push(`${name} ${place}`))
      if (name === 'a') listening.stop() // It is granted.
    }
    const toldBy = (act: () => void): readonly string[] => {
      told.splice(0)
      act()
      return [...told]
    }
    const release = (resource: string, holder: string): readonly string[] =>
      toldBy(() => {
        announcements.releasing([resource], holder)
      })
    expect(release('r', 'a')).toEqual([])
    hears[0]?.('round-1 a,b,c r')
    expect(release('s', 'a')).toEqual([])
    expect(release('r', 'a')).toEqual(['b 0'])
    hears[0]?.('round-2 elsewhere,a,b r')
    expect(release('r', 'a')).toEqual([])
  })

  test('delivers to a late listener what was announced since its attempt began', () => {
    const { announcements, hears } = announcedBy(1)
    announcements.listen('z', ['r'], 0)
    const since = systemClock.now()
    hears[0]?.('round-1 a r')
    const told: number[] = []
    announcements.listen('a', ['r'], since).onTurn((place) => told.push(place))
    expect(told).toEqual([0])
    announcements.listen('a', ['r'], Infinity).onTurn((place) => told.push(place))
    expect(told).toEqual([0])
  })

  test('starts an early waiter again at the quorum, also while its attempt runs', () => {
    const { announcements, hears } = announcedBy(3)
    const listening = announcements.listen('a', ['r'], 0)
    const told: number[] = []
    listening.onTurn((place) => told.push(place))
    hears[0]?.('round-1 a r')
    listening.forget() // It asks.
    hears[1]?.('round-1 a r')
    listening.onTurn((place) => told.push(place))
    expect(told).toEqual([0, 0])
  })
})

describe('delays', () => {
  test('full jitter stays within its bounds and grows', () => {
    const random = fc.double({ min: 0, max: 0.999, noNaN: true })
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100 }), random, (tries, r) => {
        const delayMs = jitteredMs(tries, 25, 1_000, r)
        expect(delayMs).toBeGreaterThanOrEqual(25)
        expect(delayMs).toBeLessThanOrEqual(1_000)
      }),
    )
    expect(jitteredMs(0, 25, 1_000, 0.5)).toBeLessThan(jitteredMs(4, 25, 1_000, 0.5))
  })
})
