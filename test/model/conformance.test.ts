import { describe, expect, test } from 'vitest'
import { walk } from './conformance.ts'
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
