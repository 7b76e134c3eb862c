import { describe, expect, test } from 'vitest'
import { explore, type Exploration } from './explorer.ts'
import type { Broken } from './protocol.ts'
import type { Removable } from './rules.ts'
import { scopes, scopesWithout } from './scopes.ts'

const LIMITS = { maxStates: 3_000_000 }

describe('every state of a small fleet', () => {
  test.each(scopes.filter(({ small }) => small))('$name', ({ scope }) => {
    const { complete, broken, trace } = explore(scope, LIMITS)
    expect({ complete, broken, trace }).toEqual({ complete: true, broken: undefined, trace: [] })
  })
})

const found = new Map<Removable, Exploration>()

/** The first of the small scopes, with a clock or without, in which the loss of the rule shows. */
function missed(rule: Removable, clock = false): Exploration | undefined {
  for (const { scope } of scopesWithout(rule)) {
    if (found.has(rule) || scope.clock !== clock) continue
    const result = explore(scope, LIMITS)
    if (result.broken !== undefined) found.set(rule, result)
  }
  return found.get(rule)
}

const NEEDED: readonly (readonly [Removable, Broken])[] = [
  ['everyGrantRaises', 'MONO'],
  ['heldIsNotGranted', 'ME'],
  ['confirmRound', 'UNIQ'],
  ['confirmIsExact', 'UNIQ'],
  ['confirmChecksKey', 'UNIQ'],
  ['extendChecksCounter', 'CONT'],
  ['healChecksCounter', 'CONT'],
  ['extendNeverCreates', 'ME'],
  ['healedWaitsForVote', 'ME'],
  ['quarantine', 'ME'],
  ['quarantineIsMonotonic', 'ME'],
  ['trustFromStart', 'ME'],
]

describe('a removed rule breaks a promise', () => {
  test.each(NEEDED)(
    '%s',
    (rule, expected) => {
      const result = missed(rule, expected === 'ME')
      expect(result?.broken).toBe(expected)
      expect(result?.trace).not.toContain('?')
    },
    600_000,
  )

  test('counting a master beyond the token in the confirm round gives equal tokens', () => {
    const trace = missed('confirmIsExact')?.trace ?? []
    expect(trace.at(-1)).toMatch(/is complete with token \d+, confirmed/)
    expect(trace.some((step) => step.includes('vanishes'))).toBe(true)
  })

  test('a late extension succeeds after other grants, on masters whose key came back', () => {
    const trace = missed('extendChecksCounter')?.trace ?? []
    expect(trace.at(-1)).toMatch(/is extended/)
    expect(trace.some((step) => step.includes('vanishes'))).toBe(true)
  })
})
