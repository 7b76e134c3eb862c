import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { slotNames, trySlots } from '../../src/lock/slots.ts'
import { canBeRenewed, firstRenewalMs, retryAfterMs } from '../../src/lock/trust.ts'
import { longer, quarantineMs, remainingMs, trustFrom } from '../../src/lock/trust.ts'

describe('trust', () => {
  const leases = fc.integer({ min: 100, max: 86_400_000 })

  test('is counted from the start of the attempt, less the drift allowance', () => {
    fc.assert(
      fc.property(leases, fc.integer({ min: 0, max: 1e9 }), (leaseMs, now) => {
        const trust = trustFrom({ now, wallNow: 0 }, leaseMs, 0.01)
        expect(trust.until - now).toBe(leaseMs - Math.ceil(leaseMs * 0.01) - 2)
      }),
    )
  })

  test('is over when either clock says so', () => {
    const trust = trustFrom({ now: 1_000, wallNow: 50_000 }, 10_000, 0.01)
    expect(remainingMs(trust, { now: 1_000, wallNow: 50_000 })).toBe(9_898)
    // The machine slept: the monotonic clock stood still.
    expect(remainingMs(trust, { now: 1_001, wallNow: 60_000 })).toBe(0)
    // The wall clock was set back.
    expect(remainingMs(trust, { now: 11_000, wallNow: 0 })).toBe(0)
  })

  test('an extension never shortens it', () => {
    const long = trustFrom({ now: 0, wallNow: 0 }, 10_000, 0.01)
    const short = trustFrom({ now: 100, wallNow: 100 }, 1_000, 0.01)
    expect(longer(long, short)).toEqual(long)
    expect(longer(short, long)).toEqual(long)
  })

  test('an extension after a clock was set ends trust on both clocks of one instant', () => {
    const before = trustFrom({ now: 0, wallNow: 100_000 }, 10_000, 0.01)
    const setBack = trustFrom({ now: 3_000, wallNow: 43_000 }, 10_000, 0.01)
    // Suspended: the monotonic clock stands still, and a minute passes on the other.
    const suspended = { now: 4_000, wallNow: 104_000 }
    expect(remainingMs(longer(before, setBack), suspended)).toBe(0)
  })

  test('a quarantine outlasts the longest lease by the slowest clock', () => {
    fc.assert(
      fc.property(leases, (maxLeaseMs) => quarantineMs(maxLeaseMs, 0.01) > maxLeaseMs * 1.01),
    )
    expect(quarantineMs(150, 0.01)).toBe(154)
  })
})

describe('delays', () => {
  test('a keeper has time for several failed tries before trust ends, also after a local hand-over', () => {
    for (let passedMs = 10_000; canBeRenewed(10_000, passedMs); passedMs -= 100) {
      let leftMs = passedMs - firstRenewalMs(10_000, passedMs)
      expect(leftMs).toBeGreaterThanOrEqual(4_000)
      let tries = 0
      while (leftMs > 0 && tries < 1_000) {
        leftMs -= retryAfterMs(10_000, leftMs)
        tries++
      }
      expect(tries).toBeGreaterThan(5)
      expect(tries).toBeLessThan(100)
    }
  })
})

test('a slot that is also asked for by its name is one key of the lease', async () => {
  const names = ['gpu', 'gpu#1'].map((name) => slotNames(name, { gpu: 2 }))
  const tried: unknown[] = []
  await trySlots(
    names,
    () => 0,
    (claim) => {
      tried.push(claim)
      return Promise.resolve({
        status: 'taken',
        resource: 'gpu#1',
        holder: '',
        retryAfterMs: 0,
        answers: [],
      })
    },
  )
  expect(tried[0]).toEqual(['gpu#1'])
})
