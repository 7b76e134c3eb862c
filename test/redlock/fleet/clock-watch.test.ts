import { describe, expect, test } from 'vitest'
import type { Facts } from '../../../src/facts.ts'
import { systemClock } from '../../../src/clock.ts'
import { ClockWatch, jumpMs, type ClockSample } from '../../../src/redlock/fleet/clock-watch.ts'
import type { LockFleet } from '../../../src/redlock/fleet/fleet.ts'
import type { Master } from '../../../src/redlock/wire/master.ts'

const DRIFT = 0.01
const TOLERANCE = 20

/**
 * A reply that took `tookMs`, seen at `now` on a machine whose wall clock is `wallAheadMs` ahead of
 * its monotonic one.
 */
function sample(now: number, wallAheadMs: number, serverAheadMs: number, tookMs = 2): ClockSample {
  const toMonotonicMs = 1_000_000 + serverAheadMs
  return {
    ...{ toMonotonicMs, toWallMs: toMonotonicMs - wallAheadMs },
    ...{ uncertaintyMs: tookMs / 2 + 1, at: now },
  }
}

describe('the clock of a master', () => {
  test('that runs at an allowed rate has not jumped', () => {
    const from = sample(0, 1_000_000, 0)
    for (const rate of [-0.01, 0, 0.01]) {
      expect(jumpMs(from, sample(60_000, 1_000_000, 60_000 * rate), DRIFT, TOLERANCE)).toBe(0)
    }
  })

  test('that was set forward or back is found, and by how much', () => {
    const from = sample(0, 1_000_000, 0)
    expect(jumpMs(from, sample(1_000, 1_000_000, 5_000), DRIFT, TOLERANCE)).toBeCloseTo(5_000)
    expect(jumpMs(from, sample(1_000, 1_000_000, -5_000), DRIFT, TOLERANCE)).toBeCloseTo(-5_000)
  })

  test('that was set is found however long this machine has been up', () => {
    const from = sample(1_000_000, 1_000_000, 0)
    const to = sample(1_001_000, 1_000_000, 5_000)
    expect(jumpMs(from, to, DRIFT, TOLERANCE)).toBeCloseTo(5_000)
  })

  test('is not blamed when our own wall clock was set, or our machine slept', () => {
    const from = sample(0, 1_000_000, 0)
    // Our wall clock went an hour ahead; the monotonic clock agrees with the server.
    expect(jumpMs(from, sample(1_000, 4_600_000, 0), DRIFT, TOLERANCE)).toBe(0)
    // We slept an hour: the monotonic clock stood still, the wall clock agrees with the server.
    expect(jumpMs(from, sample(1_000, 4_600_000, 3_600_000), DRIFT, TOLERANCE)).toBe(0)
  })

  test('is not blamed for a slow reply', () => {
    const from = sample(0, 1_000_000, 0)
    expect(jumpMs(from, sample(2_000, 1_000_000, 300, 800), DRIFT, TOLERANCE)).toBe(0)
    expect(jumpMs(from, sample(2_000, 1_000_000, 300, 2), DRIFT, TOLERANCE)).not.toBe(0)
  })
})

const SUSPENSION_MS = 1_000
const APART_MS = 10_000

/** A watch over five masters, and what it found. */
class Watched {
  readonly masters = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name }) as Master)
  readonly jumps: (readonly [name: string, byMs: number])[] = []
  now = 1_000_000
  wallAheadMs = 1_800_000_000_000
  readonly watch = new ClockWatch({
    settings: {
      clock: { ...systemClock, now: () => this.now, wallNow: () => this.now + this.wallAheadMs },
      // A lease of this length leaves `TOLERANCE` to each of two clocks.
      ...{ driftFactor: DRIFT, leaseMs: 3_800, maxClockSkewMs: APART_MS },
    },
    ...{ quorum: 3, quarantineMs: SUSPENSION_MS },
    channel: {
      tell: (_: string, { master, jumpedMs }: Facts['master:clock-jump']) => {
        this.jumps.push([master, Math.round(jumpedMs)])
      },
    },
  } as unknown as LockFleet)
  /** This machine's wall clock is two hours behind theirs. */
  readonly #serverAheadMs = 1_800_007_200_000

  master(index: number): Master {
    const master = this.masters[index]
    if (master === undefined) throw new Error('there are five')
    return master
  }

  /** A reply of a master whose clock is ahead by so much, to a call that took `tookMs`. */
  reply(index: number, aheadMs = 0, tookMs = 2): void {
    const sentAt = this.now - tookMs
    const serverMs = this.now - tookMs / 2 + this.#serverAheadMs + aheadMs
    const before = { now: sentAt, wallNow: sentAt + this.wallAheadMs }
    this.watch.observe(this.master(index), serverMs, before)
  }

  /** A reply that the server sent at once, and that was read so much later. */
  lateReply(index: number, lateMs: number): void {
    const sentAt = this.now - lateMs
    const before = { now: sentAt, wallNow: sentAt + this.wallAheadMs }
    this.watch.observe(this.master(index), sentAt + this.wallAheadMs, before)
  }

  suspendedMs(): readonly number[] {
    return this.masters.map((master) => this.watch.suspendedMs(master))
  }

  outOfLine(): string {
    const found = this.masters.filter((master) => this.watch.isOutOfLine(master))
    return found.map(({ name }) => name).join('')
  }
}

describe('the clock of this machine', () => {
  test('is ahead of a master by as much as no late reply explains', () => {
    const seen = new Watched()
    expect(seen.watch.aheadMs(seen.master(0))).toBeUndefined()
    seen.lateReply(0, 7_000)
    expect(seen.watch.aheadMs(seen.master(0))).toBeLessThanOrEqual(0)
    seen.wallAheadMs += 10_000
    expect(seen.watch.aheadMs(seen.master(0))).toBeGreaterThan(9_000)
  })
})

describe('a master whose clock is set', () => {
  test('does not count for a suspension, and the others do', () => {
    const seen = new Watched()
    for (const index of seen.masters.keys()) seen.reply(index)
    expect(seen.suspendedMs()).toEqual([0, 0, 0, 0, 0])
    seen.now += 100
    for (const index of seen.masters.keys()) seen.reply(index, index === 1 ? 5_000 : 0)
    expect(seen.jumps).toEqual([['b', 5_000]])
    expect(seen.suspendedMs()).toEqual([0, SUSPENSION_MS, 0, 0, 0])
    seen.now += 400.5
    expect(seen.suspendedMs()).toEqual([0, 600, 0, 0, 0])
    seen.now += 600
    expect(seen.suspendedMs()).toEqual([0, 0, 0, 0, 0])
  })

  test('is not suspended anew for the same step', () => {
    const seen = new Watched()
    seen.reply(0)
    seen.now += 100
    seen.reply(0, 5_000, 60)
    seen.now += 100
    seen.reply(0, 5_000)
    expect(seen.jumps).toEqual([['a', 5_000]])
  })

  test('is found by the most exact reply before, also behind a slow one', () => {
    const seen = new Watched()
    seen.reply(0)
    seen.now += 1_000
    seen.reply(0, 300, 800) // It may be due to the time that the reply took.
    seen.now += 100
    seen.reply(0, 300)
    expect(seen.jumps).toEqual([['a', 300]])
  })

  test('is found by a later reply where the exact one is so old that drift explains more', () => {
    const seen = new Watched()
    seen.reply(0)
    seen.now += 60_000
    seen.reply(0, 0, 200)
    seen.now += 100
    seen.reply(0, 250)
    expect(seen.jumps).toEqual([['a', 250]])
  })
})

test('a machine that slept blames no master, however wrong its wall clock is', () => {
  const seen = new Watched()
  seen.reply(0)
  seen.wallAheadMs += 3_600_000
  seen.reply(0, 3_600_000)
  expect(seen.jumps).toEqual([])
})

describe('a master whose clock is out of line', () => {
  test('does not count, from its first reply on', () => {
    const seen = new Watched()
    for (const index of [0, 1, 2]) seen.reply(index)
    expect(seen.outOfLine()).toBe('')
    seen.reply(3, APART_MS + 1)
    seen.reply(4, -APART_MS - 1)
    expect(seen.outOfLine()).toBe('de')
    expect(seen.suspendedMs()).toEqual([0, 0, 0, SUSPENSION_MS, SUSPENSION_MS])
  })

  test('is out of line at once when it is set, and in line when it is set right', () => {
    const seen = new Watched()
    for (const index of seen.masters.keys()) seen.reply(index)
    seen.now += 10
    seen.reply(1, 2 * APART_MS)
    expect(seen.outOfLine()).toBe('b')
    seen.now += 10
    seen.reply(1)
    expect(seen.outOfLine()).toBe('')
  })

  test('is out of line when it drifts there', () => {
    const seen = new Watched()
    for (const index of seen.masters.keys()) seen.reply(index)
    for (let second = 1; second <= 1_100; second++) {
      seen.now += 1_001
      for (const index of seen.masters.keys()) seen.reply(index, index === 1 ? 10 * second : 0)
    }
    expect(seen.jumps).toEqual([])
    expect(seen.outOfLine()).toBe('b')
  })

  test('may be as far from the others as fencing tokens may be', () => {
    const seen = new Watched()
    for (const index of seen.masters.keys()) seen.reply(index, index === 1 ? APART_MS : 0)
    expect(seen.outOfLine()).toBe('')
  })

  test('is not blamed when this machine slept or was set between two replies', () => {
    const slept = new Watched()
    slept.reply(0)
    slept.reply(1)
    slept.wallAheadMs += 3_600_000 // The servers went on for an hour, and so did our wall clock.
    for (const index of [2, 3, 4]) slept.reply(index, 3_600_000)
    expect(slept.outOfLine()).toBe('')
    const set = new Watched()
    set.reply(0)
    set.reply(1)
    set.wallAheadMs += 3_600_000
    for (const index of [2, 3, 4]) set.reply(index)
    expect(set.outOfLine()).toBe('')
  })
})
