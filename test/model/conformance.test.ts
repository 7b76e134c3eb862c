import { describe, expect, test } from 'vitest'
import { walk } from './conformance.ts'
import type { Removable } from './rules.ts'
import { scopes } from './scopes.ts'

const WALKS = Array.from({ length: 30 }, (_, index) => index + 1)
/**
 * A clock that is wrong and set right is tried on real servers, see
 * `test/hazards/wrong-clocks.test.ts`.
 */
const followed = scopes.filter(({ small, scope }) => small && !scope.wrongClocks)

describe('the code takes the steps of the model', () => {
  test.each(followed)('$name', async ({ scope }) => {
    let steps = 0
    for (const seed of WALKS) steps += (await walk(scope, seed)).steps.length
    expect(steps).toBeGreaterThan(5 * WALKS.length)
  })
})

/** Without these the model takes other steps than the code; walks at random miss the others. */
const SEEN: readonly Removable[] = [
  'everyGrantRaises',
  'heldIsNotGranted',
  'confirmRound',
  'confirmChecksKey',
  'extendChecksCounter',
  'extendChecksKey',
  'extendNeverCreates',
  'extendInsideTrust',
  'healNeverReplaces',
  'healChecksCounter',
  'healWaitsForQuorum',
  'healedWaitsForVote',
  'quarantine',
  'trustFromStart',
]

describe('a model without a rule differs from the code', () => {
  test.each(SEEN)('%s', async (rule) => {
    expect(await firstDifference(rule)).toContain('Seed')
  })
})

async function firstDifference(rule: Removable): Promise<string> {
  for (let seed = 1; seed <= 60; seed++) {
    for (const { scope } of followed) {
      try {
        await walk({ ...scope, without: new Set([rule]) }, seed)
      } catch (error) {
        return String(error)
      }
    }
  }
  return 'no difference'
}
