/**
 * A grant is complete when a quorum holds exactly its fencing token; otherwise a later one could
 * get a smaller one.
 */
import { expect, test } from 'vitest'
import type { Lease } from '../../src/index.ts'
import { SmallWorld } from './small-world.ts'

const FENCE = 'small:fence:r'
const AHEAD_US = 500_000_000

/** Two of three masters answer, and the counter of one is ahead. */
async function uneven(): Promise<{
  readonly world: SmallWorld
  readonly acquiring: Promise<Lease>
  readonly ahead: number
}> {
  const world = new SmallWorld(1, 3)
  const { redlock } = await world.ready('a')
  const ahead = world.masters[0] === undefined ? 0 : world.masters[0].nowUs + AHEAD_US
  world.masters[0]?.memory.set(FENCE, String(ahead), 60_000)
  world.masters[2]?.freeze()
  return { world, acquiring: redlock.acquire('r', { waitMs: 0 }), ahead }
}

const counters = ({ masters }: SmallWorld): readonly number[] =>
  masters.slice(0, 2).map(({ memory }) => Number(memory.get(FENCE)))

test('a quorum holds the token of a grant whose counters differed', async () => {
  const { world, acquiring, ahead } = await uneven()
  const { fencingToken } = await world.settle(acquiring)
  expect(fencingToken).toBeGreaterThan(ahead)
  expect(counters(world)).toEqual([fencingToken, fencingToken])
})

test('a counter that has gone on meanwhile does not confirm the token', async () => {
  const { world, acquiring } = await uneven()
  const [first, second] = world.masters
  const granted = (): boolean =>
    [first, second].every((master) => master?.replies.get('acquire:granted') === 1)
  await world.time.runUntil(world.time.now + 1_000, granted)
  // Somebody else was granted on it, and gave it up, before the second round.
  first?.memory.set(FENCE, String(Number(first.memory.get(FENCE)) + AHEAD_US), 60_000)
  await expect(world.settle(acquiring)).rejects.toThrow()
  await world.pass(100)
  expect(world.leaseKeys()).toEqual([])
})
