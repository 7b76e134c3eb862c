/** Leases of a lock service are found by the patterns of Redis: a server is asked, too. */
import { expect, test } from 'vitest'
import { globEscape, globPattern } from '../../../src/tools/operator/glob.ts'
import { useFleet } from '../../fixtures.ts'

const fixture = useFleet({ masters: 0 })
const NAMES = [
  'a',
  'b',
  'd',
  'z',
  '-',
  '^',
  ']',
  '[',
  '\\',
  '.',
  '5',
  'ab',
  'a*',
  'a?c',
  'a.c',
  'a\nc',
]
const PATTERNS = [
  ...['*', '?', 'a*', 'a?c', '[ab]', '[a-c]', '[c-a]', '[^a-c]', '[z-a]*', '[^z-a]', '[\\d]'],
  ...['[\\]]', '[\\^a]', 'a\\*', '\\[', '.', 'a.c', '[]', '[^]', 'a[*]', '\\d', '[.-9]', '[9-.]'],
]

test.each(PATTERNS)('%s matches what it does in Redis', async (pattern) => {
  const redis = fixture.redis()
  const prefix = `${globEscape(fixture.namespace)}:`
  await redis.mset(Object.fromEntries(NAMES.map((name) => [`${fixture.namespace}:${name}`, '1'])))
  const found = await redis.keys(prefix + pattern)
  const expected = found.map((key) => key.slice(fixture.namespace.length + 1)).sort()
  expect(NAMES.filter((name) => globPattern(pattern).test(name)).sort()).toEqual(expected)
})
