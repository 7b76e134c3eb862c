import { describe, expect, test } from 'vitest'
import { removals, scopes } from './models.ts'
import { missing, verify } from './spin.ts'

const obstacle = missing()
if (obstacle !== undefined) console.log(`The specification is not run: ${obstacle}`)

describe.skipIf(obstacle !== undefined)('the specification', () => {
  const small = scopes.filter(({ isSmall }) => isSmall)
  test.each(small)('$model $defines: nothing is broken', async (scope) => {
    const { broken, states } = await verify(scope)
    expect(broken).toBeUndefined()
    expect(states).toBeGreaterThan(100)
  })

  /** Of each property, the rule that it misses first. */
  const some = new Map([...removals].reverse().map((each) => [each.breaks, each]))
  test.each([...some.values()])('without $rule, $breaks does not hold', async (removal) => {
    const { broken, steps } = await verify(removal.scope, removal.rule)
    expect(broken).toBe(removal.breaks)
    expect(steps.length).toBeGreaterThan(3)
  })
})
