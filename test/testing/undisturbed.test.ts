import { describe, expect, test } from 'vitest'
import { FakeClock, memoryLocks } from '../../src/testing/index.ts'
import { useFleet } from '../fixtures.ts'
import { NeverExcused, neverTwoHolders, undisturbed } from '../support/undisturbed.ts'

const fixture = useFleet({ masters: 1 })

function standStill(forMs: number): void {
  const until = performance.now() + forMs
  while (performance.now() < until);
}

/** How often it ran, how often it was cleared up, and what was thrown. */
async function runsOf(
  stallMs: number,
  run: (runs: number) => void,
): Promise<{ readonly runs: number; readonly cleared: number; readonly failure: unknown }> {
  let runs = 0
  let cleared = 0
  const clear = async (): Promise<void> => {
    cleared += 1
    await Promise.resolve()
  }
  const once = async (): Promise<void> => {
    runs += 1
    await Promise.resolve()
    run(runs)
  }
  const { queue } = fixture.fleet
  const failure: unknown = await undisturbed({ bystander: queue, clear, stallMs }, once).catch(
    (error: unknown) => error,
  )
  return { runs, cleared, failure }
}

describe('a failure', () => {
  test('is thrown at once where the machine did not stall', async () => {
    const failure = new Error('broken')
    const found = await runsOf(60_000, () => {
      throw failure
    })
    expect(found).toEqual({ runs: 1, cleared: 0, failure })
  })

  test('runs the case again where the machine stalled', async () => {
    const found = await runsOf(50, (runs) => {
      if (runs > 1) return
      standStill(100)
      throw new Error('late')
    })
    expect(found).toEqual({ runs: 2, cleared: 1, failure: undefined })
  })

  test('is thrown after five runs', async () => {
    const failure = new Error('late')
    const found = await runsOf(50, () => {
      standStill(100)
      throw failure
    })
    expect(found).toEqual({ runs: 5, cleared: 4, failure })
  })

  test('of a safety rule is thrown at once, also where the machine stalled', async () => {
    const failure = new NeverExcused('two holders')
    const found = await runsOf(50, () => {
      standStill(100)
      throw failure
    })
    expect(found).toEqual({ runs: 1, cleared: 0, failure })
  })
})

test('a rival that was granted is never excused while the lease still counts as held', async () => {
  const clock = new FakeClock()
  await using locks = memoryLocks({ clock })
  const locked = await locks.open({ leaseMs: 1_000 })
  const lease = await locked.acquire('a')
  const granted = await locked.tryAcquire('b')
  expect(() => {
    neverTwoHolders(lease, granted)
  }).toThrow(NeverExcused)
  neverTwoHolders(lease, await locked.tryAcquire('a'))
  await clock.advance(1_000)
  neverTwoHolders(lease, granted)
})
