import { describe, expect, it } from 'vitest'
import { readPlan, UsageError } from '../../workers/demo/options.ts'
import { progressOn } from '../../workers/demo/progress.ts'
import { operatorReport } from '../../workers/operator-report.ts'
import { seededRandom } from '../../workers/seeded-random.ts'
import { readStrikes, REAL_STRIKES } from '../../workers/strikes-file.ts'

describe('the options of the demo', () => {
  it.each([
    [['--seed', 'x'], 'Expected --seed to be a whole number, got "x"'],
    [['--without', 'x'], 'Expected --without lease or --without fencing, got "x"'],
    [['--locks', 'x'], 'Expected --locks to be etcd, zookeeper, postgres; got "x"'],
    [['--what'], "Unknown option '--what'"],
  ])('%j is refused by name', (argv, message) => {
    expect(() => readPlan(argv)).toThrow(UsageError)
    expect(() => readPlan(argv)).toThrow(message)
  })
})

describe('an operator report', () => {
  it('counts the real strikes, and is the same each time', async () => {
    const strikes = await readStrikes(REAL_STRIKES)
    const report = operatorReport('US AIRWAYS*', strikes)
    expect(report).toMatchObject({ strikes: 91, total: 4_314_292, worst: { amount: 3_367_644 } })
    const perYear = Object.values(report.costPerYear).reduce((sum, cost) => sum + cost, 0)
    expect(perYear).toBe(report.total)
    const [low, high] = report.meanCostInterval
    expect(low).toBeLessThan(report.meanCost)
    expect(high).toBeGreaterThan(report.meanCost)
    expect(operatorReport('US AIRWAYS*', strikes)).toEqual(report)
    expect(() => operatorReport('NOBODY', strikes)).toThrow('no strike of NOBODY')
  })
})

describe('small parts', () => {
  it('draws the same numbers from the same seed, all in [0, 1)', () => {
    const draw = (seed: number) => Array.from({ length: 50 }, seededRandom(seed))
    expect(draw(1)).toEqual(draw(1))
    expect(draw(1)).not.toEqual(draw(2))
    expect(draw(3).every((number) => number >= 0 && number < 1)).toBe(true)
  })

  it('redraws the block of a terminal with one write that ends where it began', () => {
    const writes: string[] = []
    const out = { isTTY: true, columns: 60, write: (text: string) => writes.push(text) }
    const progress = progressOn(out as unknown as NodeJS.WriteStream, false)
    const counts = { total: 10, done: 5, running: 2, waiting: 3, leases: 2 }
    const snapshot = { elapsedMs: 1, ...counts, servers: ['1 voting'], workers: ['w'.repeat(200)] }
    progress.show(snapshot)
    progress.show(snapshot)
    const [, first = '', second = ''] = writes
    const lines = first.split('\n').length - 1
    expect(second.startsWith(`\r\x1b[${lines}A`)).toBe(true)
    expect(second.slice(second.indexOf('A') + 1)).toBe(first.slice(1))
    const widths = first.split('\n').map((line) => line.replace('\x1b[K', '').length)
    expect(Math.max(...widths)).toBeLessThan(60)
    progress.end()
    expect(writes.at(-1)).toBe('\x1b[?25h')
  })
})
