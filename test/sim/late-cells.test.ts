import { expect, test } from 'vitest'
import { RedlockCells } from '../../src/redlock/cells/redlock-cells.ts'
import { cellsAsRedlock } from './simulated-cells.ts'
import { CALM } from './simulated-network.ts'
import { SmallWorld } from './small-world.ts'

const CELL = 3
/**
 * Three round trips take about as long as this lease is trusted: a grant in each cell, and a common
 * token.
 */
const LEASE_MS = 100
const USUAL_MS = 20
const SEEDS = Array.from({ length: 20 }, (_, index) => index + 1)

test('a lease in two cells that is over when both have granted is not granted', async () => {
  const statuses = new Set<string>()
  for (const seed of SEEDS) {
    const world = new SmallWorld(seed, 2 * CELL, { ...CALM, usualMs: USUAL_MS }, CELL)
    // With seed 4, a client that has the resource in both cells.
    const Cells = cellsAsRedlock(RedlockCells, 4)
    const { redlock } = world.client('a-1', { masterTimeoutMs: 90 }, Cells)
    await world.pass(3_000)
    // The first cell's counters are ahead, so it is the second lease that takes the common token.
    for (const { memory, nowUs } of world.masters.slice(0, CELL)) {
      memory.set('small:fence:r', String(nowUs + 500_000), 60_000)
    }
    const outcome = await world.settle(redlock.tryAcquire('r', { leaseMs: LEASE_MS }))
    statuses.add(outcome.status)
    if (outcome.status === 'granted') expect(outcome.lease.remainingMs()).toBeGreaterThan(0)
    await world.settle(redlock.close())
  }
  expect(statuses).toContain('split')
})
