import { describe, expect, test } from 'vitest'
import { clockSample, jumpMs } from '../../../src/redlock/fleet/clock-watch.ts'

const DRIFT = 0.01
const TOLERANCE = 20

/**
 * A reply that took `tookMs`, seen at `now` on a machine whose wall clock is `wallAheadMs` ahead of
 * its monotonic one.
 */
function sample(now: number, wallAheadMs: number, serverAheadMs: number, tookMs = 2) {
  const before = { now: now - tookMs, wallNow: now - tookMs + wallAheadMs }
  const after = { now, wallNow: now + wallAheadMs }
  return clockSample(now - tookMs / 2 + 1_000_000 + serverAheadMs, before, after)
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

  test('is not blamed when our own wall clock was set, or our machine slept', () => {
    const from = sample(0, 1_000_000, 0)
    // Our wall clock went an hour ahead; the monotonic clock agrees with the server.
    expect(jumpMs(from, sample(1_000, 4_600_000, 0), DRIFT, TOLERANCE)).toBe(0)
    // We slept an hour: the monotonic clock stood still, the wall clock agrees with the server.
    expect(jumpMs(from, sample(1_000, 4_600_000, 3_600_000), DRIFT, TOLERANCE)).toBe(0)
  })

  test('is given the benefit of a slow reply', () => {
    const from = sample(0, 1_000_000, 0)
    expect(jumpMs(from, sample(2_000, 1_000_000, 300, 800), DRIFT, TOLERANCE)).toBe(0)
    expect(jumpMs(from, sample(2_000, 1_000_000, 300, 2), DRIFT, TOLERANCE)).not.toBe(0)
  })
})
