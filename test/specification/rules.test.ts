/** The specification, the source and the page name the same rules. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../model/mutant-runner.ts'
import { rulePlaces } from '../model/rule-comments.ts'
import { nameInModel, removals } from './models.ts'
import { SPECIFICATION } from './spin.ts'

const known = new Set(rulePlaces(ROOT).map(({ rule }) => rule))
const MODELS = ['quorum', 'line'] as const
const text = (model: string): string => readFileSync(join(SPECIFICATION, `${model}.pml`), 'utf8')

function namedIn(model: string): readonly string[] {
  return [...text(model).matchAll(/rule: ([a-z\d-]+(?:, [a-z\d-]+)*)/g)].flatMap(([, names = '']) =>
    names.split(', '),
  )
}

test.each(MODELS)('%s: every rule that it names is a rule of the source', (model) => {
  const names = namedIn(model)
  expect(names.length).toBeGreaterThan(5)
  expect(names.filter((name) => !known.has(name))).toEqual([])
})

test.each(MODELS)('%s: every rule that can be taken away is, and has its place', (model) => {
  const defined = [...text(model).matchAll(/^#define ([A-Z_]+) +\d+$/gm)].map(([, name]) => name)
  const removed = removals.filter(({ scope }) => scope.model === model).map(({ rule }) => rule)
  expect(defined).toEqual(expect.arrayContaining(removed.map(nameInModel)))
  const kept = [...text(model).matchAll(/keeps\(([A-Z_]+)\)/g)].map(([, name]) => name)
  expect([...new Set(kept)].sort()).toEqual(removed.map(nameInModel).sort())
  expect(removed.filter((rule) => !namedIn(model).includes(rule))).toEqual([])
})

test('the page has every rule and what breaks without it', () => {
  const page = readFileSync(join(ROOT, 'docs/specification.md'), 'utf8')
  const rows = [...page.matchAll(/^\| `([a-z\d-]+)` +\| `(\w+)` +\|/gm)].map(
    ([, rule, breaks]) => `${rule} ${breaks}`,
  )
  expect(rows).toEqual(removals.map(({ rule, breaks }) => `${rule} ${breaks}`))
})
