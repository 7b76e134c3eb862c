/** A record of a decision has its four parts, and names tests that exist. */
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = resolve(import.meta.dirname, '../..')
const PARTS = ['Context', 'Decision', 'Consequence', 'Tests']

const [, ...records] = readFileSync(join(ROOT, 'docs/decisions.md'), 'utf8').split(/^## /m)
const titled = records.map((record) => {
  const [title, ...lines] = record.split('\n')
  return [title ?? '', lines.join(' ').replaceAll(/\s+/g, ' ').trim()] as const
})

/** `file` (_part of a title_, _another_). */
const NAMED = /`(test\/[\w./-]*|[\w./-]+\.test\.ts)`(?: \(([^)]*)\))?/g

describe('the records of decisions', () => {
  test('are numbered without a gap', () => {
    const numbers = titled.map(([title]) => Number(title.split('.')[0]))
    expect(numbers).toEqual(records.map((_, index) => index + 1))
  })

  test.each(titled)('%s', (title, text) => {
    const replaced = /^Replaced by (\d+)/.exec(text)
    if (replaced) {
      const by = Number(replaced[1])
      expect(by).toBeGreaterThan(Number.parseInt(title))
      expect(by).toBeLessThanOrEqual(records.length)
      expect(text.length).toBeLessThan(100)
      return
    }
    expect(PARTS.filter((part) => !text.includes(`**${part}.** `))).toEqual([])
    for (const [, file = '', titles = ''] of text.matchAll(NAMED)) {
      expect(existsSync(join(ROOT, file)), file).toBe(true)
      for (const [, part = ''] of titles.matchAll(/_([^_]+)_/g)) {
        expect(readFileSync(join(ROOT, file), 'utf8'), file).toContain(part)
      }
    }
    const [, tests = ''] = text.split('**Tests.** ')
    expect(tests).toMatch(/`(test\/|npm run )/)
  })
})
