/**
 * A sentence has at most 25 words: in pages, and in the doc comments of public names. Not counted:
 * tables, code, and CHANGELOG.md, whose entries are lists.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test, vi } from 'vitest'
import { exported } from './api.ts'
import { MAX_WORDS, sentencesOf } from './sentences.ts'

vi.setConfig({ testTimeout: 60_000 })

const ROOT = resolve(import.meta.dirname, '../..')
/** Written from comments, which are counted one by one. */
const GENERATED = new Set(['api.md'])
const PAGES = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'workers/README.md', 'deploy/README.md'],
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md') && !GENERATED.has(name))
    .map((name) => `docs/${name}`),
]

const long = (text: string): readonly string[] =>
  sentencesOf(text)
    .filter(({ words }) => words > MAX_WORDS)
    .map((sentence) => `line ${sentence.line}, ${sentence.words} words: ${sentence.text}`)

test.each(PAGES)('%s has no sentence of more than 25 words', (page) => {
  expect(long(readFileSync(join(ROOT, page), 'utf8'))).toEqual([])
})

test('no comment of a public name has a sentence of more than 25 words', () => {
  const found = exported().flatMap(({ name, comment, members }) =>
    [{ name, comment }, ...members].flatMap((each) => {
      const { about, byDefault, returns, throws } = each.comment
      const where = each.name === name ? name : `${name}.${each.name}`
      const texts = [about, byDefault, returns, ...throws]
      return texts.flatMap((text) => long(text).map((sentence) => `${where}, ${sentence}`))
    }),
  )
  expect(found).toEqual([])
})

test('counts words of a sentence, and no code, tables or lists of links', () => {
  const words = Array.from({ length: 26 }, () => 'word').join(' ')
  expect(long(`${words}.`)).toHaveLength(1)
  expect(long(`- ${words}: a list`)).toHaveLength(1)
  expect(long(`One. ${words.replace('word ', '')}. Two.`)).toEqual([])
  expect(long(`| ${words} |\n\n\`\`\`sh\n${words}\n\`\`\`\n\n\`${words}\``)).toEqual([])
})
