/** docs/pairs.md has a cell for each two features: covered, refused with a test, or apart. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ALL_FEATURES, APART, REFUSED } from '../combination/draw.ts'
import { ROW } from '../combination/pairs.ts'

const ROOT = join(import.meta.dirname, '../..')
const LEAST_COVERED = 0.9
const PAGE = readFileSync(join(ROOT, 'docs/pairs.md'), 'utf8')

const rows = [...PAGE.matchAll(ROW)].map(([, , name, cells]) => ({
  name,
  cells: Array.from(cells ?? ''),
}))

function cellsOf(pairs: readonly (readonly [string, string, ...string[]])[]): readonly string[] {
  return pairs
    .map(([one, other]) => {
      const [a, b] = [one, other].map((name) => rows.findIndex((row) => row.name === name))
      return `${Math.max(a ?? -1, b ?? -1)} ${Math.min(a ?? -1, b ?? -1)}`
    })
    .sort()
}

function placesOf(cell: string): readonly string[] {
  return rows
    .flatMap(({ cells }, row) =>
      cells.flatMap((each, column) => (each === cell ? [`${row} ${column}`] : [])),
    )
    .sort()
}

test('it has a row for each feature, and a cell for each two (npm run docs:pairs)', () => {
  expect(rows.map(({ name }) => name)).toEqual(ALL_FEATURES)
  expect(rows.map(({ cells }) => cells.length)).toEqual(rows.map((_, row) => row))
})

test('no cell is empty', () => {
  expect(placesOf('0')).toEqual([])
})

test('nine of ten cells are covered', () => {
  const cells = rows.flatMap((row) => row.cells)
  const covered = cells.filter((cell) => /[1-9+]/.test(cell))
  expect(covered.length / cells.length).toBeGreaterThan(LEAST_COVERED)
})

test('what is refused is refused in the list, and the page names its test', () => {
  expect(placesOf('x')).toEqual(cellsOf(REFUSED))
  expect(placesOf('-')).toEqual(cellsOf(APART))
  const wrong = REFUSED.filter(([, , file, title]) => {
    const text = readFileSync(join(ROOT, file), 'utf8')
    return !text.includes(title) || !PAGE.replaceAll(/\s+/g, ' ').includes(title)
  })
  expect(wrong).toEqual([])
})
