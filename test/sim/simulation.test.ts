import { expect, test } from 'vitest'
import { clocksOf } from './scenario.ts'
import { simulate } from './simulation.ts'
import { Summary } from './summary.ts'

const SEEDS = [1, 2, 3, 4, 5]

test('the real lock in a simulated world keeps its promises while everything goes wrong', async () => {
  const summary = new Summary()
  for (const seed of SEEDS)
    summary.add(await simulate({ seed, clocks: clocksOf(seed), clients: 3 }))
  expect(summary.failed).toEqual([])
  expect(summary.sums.leases).toBeGreaterThan(100)
  expect(summary.sums.passedOn).toBeGreaterThan(0)
  expect(summary.sums.extensions).toBeGreaterThan(50)
  // A run of the command line insists on every fault; here most of them must have happened.
  expect(Object.keys(summary.faults).length).toBeGreaterThan(12)
})
