/** Where resources live, and that workers of neighbouring steps of a change meet in a cell. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cellOf, placementKey } from '../../../src/redlock/cells/placement.ts'

const names = Array.from({ length: 5_000 }, (_, index) => `customer:${index}`)
const shares = (cells: readonly string[]): Map<string, number> => {
  const counts = new Map<string, number>()
  for (const name of names) {
    const cell = cellOf(name, cells)
    counts.set(cell, (counts.get(cell) ?? 0) + 1)
  }
  return counts
}

describe('placement', () => {
  test('gives every cell its share', () => {
    for (const cells of [
      ['a', 'b'],
      ['a', 'b', 'c'],
      ['eu-1', 'eu-2', 'eu-3', 'eu-4', 'eu-5'],
    ]) {
      const fair = names.length / cells.length
      for (const count of shares(cells).values()) {
        expect(Math.abs(count - fair)).toBeLessThan(0.15 * fair)
      }
    }
  })

  test('moves only what the new cell takes, and leaves the rest where it was', () => {
    const moved = names.filter((name) => cellOf(name, ['a', 'b']) !== cellOf(name, ['a', 'b', 'c']))
    expect(new Set(moved.map((name) => cellOf(name, ['a', 'b', 'c'])))).toEqual(new Set(['c']))
    expect(Math.abs(moved.length / names.length - 1 / 3)).toBeLessThan(0.05)
  })

  test('does not depend on the order in which the cells are named', () => {
    for (const name of names.slice(0, 200)) {
      expect(cellOf(name, ['c', 'a', 'b'])).toBe(cellOf(name, ['a', 'b', 'c']))
    }
  })

  test('is that of the part in braces', () => {
    expect(placementKey('{customer:7}:cart')).toBe('customer:7')
    expect(placementKey('order:{customer:7}:{x}')).toBe('customer:7')
    expect(placementKey('{}:cart')).toBe('{}:cart')
    expect(placementKey('plain}{')).toBe('plain}{')
  })

  test('never changes: another version would move all resources at once', () => {
    const placed = ['customer:1', 'customer:2', 'customer:3', 'customer:4', '{customer:1}:cart']
    expect(placed.map((name) => cellOf(name, ['a', 'b', 'c']))).toMatchInlineSnapshot(`
      [
        "c",
        "a",
        "a",
        "a",
        "c",
      ]
    `)
  })
})

test('workers of neighbouring steps meet in a cell, whatever the resource and the change', () => {
  const cells = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'e'), { minLength: 1 })
  fc.assert(
    fc.property(cells, cells, fc.string({ minLength: 1 }), (before, after, resource) => {
      const step1 = new Set([cellOf(resource, before)])
      const step2 = new Set([cellOf(resource, before), cellOf(resource, after)])
      const step3 = new Set([cellOf(resource, after)])
      const meet = (one: Set<string>, other: Set<string>): boolean =>
        [...one].some((cell) => other.has(cell))
      expect(meet(step1, step2)).toBe(true)
      expect(meet(step2, step3)).toBe(true)
    }),
  )
})
