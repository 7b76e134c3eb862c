import { describe, expect, test } from 'vitest'
import { clocksOf } from './scenario.ts'
import { SeededRandom } from './seeded-random.ts'
import { simulate, type SimulationResult } from './simulation.ts'
import { Summary } from './summary.ts'
import { VirtualTime } from './virtual-time.ts'

const SEEDS = Array.from({ length: 5 }, (_, index) => index + 1)
const run = (seed: number, onTrace?: (line: string) => void): Promise<SimulationResult> =>
  simulate({
    seed,
    clocks: clocksOf(seed),
    clients: 3,
    ...(onTrace !== undefined && { onTrace }),
  })

describe('the real lock in a simulated world', () => {
  test('keeps its promises while everything goes wrong', async () => {
    const summary = new Summary()
    for (const seed of SEEDS) summary.add(await run(seed))
    expect(summary.failed).toEqual([])
    expect(summary.leases).toBeGreaterThan(100)
    expect(summary.passedOn).toBeGreaterThan(0)
    expect(summary.extensions).toBeGreaterThan(50)
    // A run of the command line insists on every fault; here most of them must have happened.
    expect(Object.keys(summary.faults).length).toBeGreaterThan(12)
  })

  test('repeats its run for the same seed', async () => {
    // Tokens come from the system's randomness and only ever are compared.
    const traces = [0, 1].map(async () => {
      const lines: string[] = []
      const names = new Map<string, string>()
      await run(3, (line) =>
        lines.push(line.replace(/(?<=: \w+ )\S{8}(?= )/, (token) => named(names, token))),
      )
      return lines.map((line) => line.replace(/(?<=[" ])\w{26}@/g, '@'))
    })
    const [first, second] = await Promise.all(traces)
    expect(first?.length).toBeGreaterThan(1_000)
    expect(second).toEqual(first)
  })
})

function named(names: Map<string, string>, token: string): string {
  const known = names.get(token) ?? `#${names.size}`
  names.set(token, known)
  return known
}

describe('virtual time', () => {
  test('stops until every promise that an event started has settled', async () => {
    const time = new VirtualTime()
    const seen: number[] = []
    time.in(1, () => {
      void (async () => {
        for (let depth = 0; depth < 1_000; depth++) await Promise.resolve()
        seen.push(time.now)
      })()
    })
    time.in(2, () => seen.push(time.now))
    await time.runUntil(10)
    expect(seen).toEqual([1, 2])
    expect(time.now).toBe(10)
  })

  test('runs events of one instant in the order in which they were made, however they were added', async () => {
    const time = new VirtualTime()
    const random = new SeededRandom(7)
    const seen: number[] = []
    const at = Array.from({ length: 500 }, () => random.integer(0, 20))
    for (const [index, ms] of at.entries()) time.at(ms, () => seen.push(index))
    await time.runUntil(100)
    const expected = [...at.keys()].sort((a, b) => (at[a] ?? 0) - (at[b] ?? 0) || a - b)
    expect(seen).toEqual(expected)
  })
})
