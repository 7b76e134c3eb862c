import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { parseStrikes, readStrikes, REAL_STRIKES } from '../../workers/strikes-file.ts'

const GOOD = { id: 's-1', customer: 'KLM', date: '2001-02-03', amount: 12 }

function reasonsFor(...lines: readonly unknown[]): readonly string[] {
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line)))
  return parseStrikes(text.join('\n')).bad.map(({ line, reason }) => `${line}: ${reason}`)
}

describe('a file of strikes', () => {
  it('reads the committed data whole, in order of date', async () => {
    const strikes = await readStrikes(REAL_STRIKES)
    expect(strikes).toHaveLength(602)
    expect(new Set(strikes.map((strike) => strike.customer)).size).toBe(22)
    expect(strikes.reduce((sum, strike) => sum + strike.amount, 0)).toBe(24_647_402)
    const dates = strikes.map((strike) => strike.date)
    expect(dates).toEqual([...dates].sort())
    expect((await readFile(REAL_STRIKES)).length).toBeLessThan(150_000)
  })

  it('fills descriptive fields that are absent, skips empty lines, takes CRLF', () => {
    const { strikes, bad } = parseStrikes(`\r\n${JSON.stringify(GOOD)}\r\n\r\n`)
    expect(bad).toEqual([])
    expect(strikes).toMatchObject([{ ...GOOD, airport: 'unknown', species: 'unknown' }])
  })

  it('names the line and the field of each error', () => {
    expect(
      reasonsFor(
        GOOD,
        '{"id":',
        '[]',
        { ...GOOD, id: 'a:b' },
        { ...GOOD, id: 's-2', customer: ' ' },
        { ...GOOD, id: 's-3', date: '3 Feb 2001' },
        { ...GOOD, id: 's-4', amount: '12' },
        { ...GOOD, id: 's-5', amount: -1 },
        { ...GOOD, id: 's-6', amount: 0.5 },
        { customer: 'KLM' },
        GOOD,
      ),
    ).toEqual([
      expect.stringMatching(/^2: Expected JSON: /),
      '3: Expected an object, got []',
      '4: Expected "id" to be a text without \':\', got "a:b"',
      '5: Expected "customer" to be a text, got " "',
      '6: Expected "date" as YYYY-MM-DD, got "3 Feb 2001"',
      '7: Expected "amount" to be whole dollars, 0 or more, got "12"',
      '8: Expected "amount" to be whole dollars, 0 or more, got -1',
      '9: Expected "amount" to be whole dollars, 0 or more, got 0.5',
      '10: Expected "id" to be a text without \':\', got nothing',
      '11: The id "s-1" stands on line 1 already',
    ])
  })
})
