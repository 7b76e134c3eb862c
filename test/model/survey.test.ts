/** The list of changes that break no rule stays in step with the code. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { HARMLESS } from './harmless.ts'
import { ROOT } from './mutant-runner.ts'
import { changesOf, whyHarmless } from './survey.ts'

test.each(HARMLESS)('$file: $code', ({ file, code, changes, why }) => {
  const text = readFileSync(join(ROOT, file), 'utf8')
  expect(text.split(code)).toHaveLength(2)
  const found = changesOf(file, text)
    .map((change) => ({ ...change, file, found: text.slice(change.from, change.to) }))
    .filter((change) => whyHarmless(change, text) === why)
  for (const [was, replace] of changes) {
    expect(found).toContainEqual(expect.objectContaining({ found: was, replace }))
  }
})
