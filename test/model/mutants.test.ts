/** Each mutant has one place in the source, and each named rule has a mutant. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from './mutant-runner.ts'
import { mutants } from './mutants.ts'
import { changed, rulePlaces } from './rule-comments.ts'

const places = rulePlaces(ROOT)
const CASES = 'test/services/lock-service-cases.ts'

test('every rule that a comment names has one place and a mutant', () => {
  const named = places.map(({ rule }) => rule).sort()
  expect(named).toEqual([...new Set(mutants.map(({ rule }) => rule))].sort())
})

/** With the cases that all lock services share, where it runs them. */
function textOf(file: string): string {
  const path = join(ROOT, file)
  if (!existsSync(path)) return ''
  const text = readFileSync(path, 'utf8')
  return text.includes('lock-service-cases') && !file.endsWith(CASES) ? text + textOf(CASES) : text
}

test('every change fits the statement below its comment', () => {
  for (const { rule, change } of mutants) {
    const place = places.find((each) => each.rule === rule)
    if (place !== undefined) changed(readFileSync(join(ROOT, place.file), 'utf8'), place, change)
  }
})

test('every test that must notice is there', () => {
  const missing = mutants.filter(({ killedBy }) => {
    if (!('test' in killedBy)) return false
    return !textOf(killedBy.test).includes(killedBy.name ?? '')
  })
  expect(missing).toEqual([])
})
