/** The compatibility page is complete and says what the tests show. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { differentialTests } from './differential-tests.ts'
import { page, PAGE } from './page.ts'
import { ROWS } from './rows.ts'
import { publicSurface } from './surface.ts'

const keyOf = ({
  section,
  member,
}: {
  readonly section: string
  readonly member: string
}): string => `${section}: ${member}`

const twice = (names: readonly string[]): readonly string[] =>
  names.filter((name, index) => names.indexOf(name) !== index)

const members = publicSurface().map(keyOf)
const rows = ROWS.map(keyOf)
const tests = new Map(differentialTests().map((one) => [one.title, one] as const))

test('docs/compatibility.md equals the rows (npm run docs:compatibility writes it)', async () => {
  expect(readFileSync(PAGE, 'utf8')).toBe(await page())
})

test('every public member of BullMQ has a row: a new one needs a decision', () => {
  expect(members.length).toBeGreaterThan(300)
  expect(members).toContain('Queue: add')
  expect(members.filter((member) => !rows.includes(member))).toEqual([])
})

test('every row is about a member that there is, and no two about the same', () => {
  const known = rows.filter((row) => !row.startsWith('In use: '))
  expect(known.filter((row) => !members.includes(row))).toEqual([])
  expect(twice(rows)).toEqual([])
})

test('a row names a test that exists and shows its verdict', () => {
  const wrong = ROWS.filter(
    ({ test: title, verdict }) => title !== undefined && tests.get(title)?.verdict !== verdict,
  )
  expect(wrong).toEqual([])
})

test('what differs or is refused has a test', () => {
  expect(ROWS.filter((row) => row.verdict !== 'same' && row.test === undefined)).toEqual([])
})

test('every differential test is named by a row, and by its own title', () => {
  const named = new Set(ROWS.map(({ test: title }) => title))
  expect([...tests.keys()].filter((title) => !named.has(title))).toEqual([])
  expect(twice(differentialTests().map(({ title }) => title))).toEqual([])
})
