/** The demo with one safeguard less: what its faults then do to the ledger is found. */
import { describe, expect, it } from 'vitest'
import { demo, DEMO_LIMIT_MS } from '../workers/demo-run.ts'

describe('npm run demo', () => {
  it(
    'finds what goes wrong without a lease',
    async () => {
      const { code, result } = await demo('--without', 'lease')
      expect(code).toBe(1)
      expect(result.right).toBe(false)
      expect(result.outOfTurnEffects.length).toBeGreaterThan(0)
      expect(result.problems.join('\n')).toMatch(
        /out-of-turn effects, among them:\n.+\n +entry \d+ by/,
      )
    },
    DEMO_LIMIT_MS,
  )

  it(
    'finds the one stale write that gets through without fencing',
    async () => {
      const { code, result } = await demo('--without', 'fencing')
      expect(code).toBe(1)
      expect(result.staleWritesRefused).toEqual([])
      expect(result.outOfTurnEffects.length).toBeGreaterThan(0)
      expect(result.faults.flatMap(({ missing }) => missing ?? [])).toEqual([])
    },
    DEMO_LIMIT_MS,
  )
})
