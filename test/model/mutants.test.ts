/**
 * A mutant that changes nothing would be caught by nobody; the source moves on, and its patches
 * must move with it.
 */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { mutants } from './mutants.ts'

const root = new URL('../../', import.meta.url)

test.each(mutants.map(({ rule, patches }) => [rule, patches] as const))(
  '%s: the text that is taken away is there, once',
  (_rule, patches) => {
    for (const { file, find } of patches) {
      const text = readFileSync(new URL(file, root), 'utf8')
      expect(text.split(find).length - 1, `${file}: ${find}`).toBe(1)
    }
  },
)

test.each(mutants.map(({ rule, killedBy }) => [rule, killedBy] as const))(
  '%s: the test that must notice is there',
  (_rule, killer) => {
    if ('seeds' in killer) return
    const text = readFileSync(new URL(killer.test, root), 'utf8')
    expect(text).toContain(killer.name ?? '')
  },
)
