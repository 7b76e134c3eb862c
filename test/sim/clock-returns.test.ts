/** Masters whose clocks step there and back: when all are right, leases are granted. */
import { expect, test } from 'vitest'
import { MAX_LEASE_MS, SmallWorld } from './small-world.ts'

const HOUR_MS = 3_600_000

test.each([
  ['one after the other', 3, [0, 1]],
  ['a quorum of five, one after the other', 5, [0, 1, 2]],
  ['all, one after the other', 3, [0, 1, 2]],
])('%s: a master that is right again is counted again', async (_which, masters, stepped) => {
  const world = new SmallWorld(1, masters)
  const { redlock } = await world.ready('a')
  const tryOften = async (ms: number): Promise<string> => {
    let status = ''
    const until = world.time.now + ms
    while (world.time.now < until) {
      await world.pass(20)
      const outcome = await world.settle(redlock.tryAcquire('r'))
      status = outcome.status
      if (outcome.status === 'granted') await world.settle(outcome.lease.release())
    }
    return status
  }
  for (const index of stepped) {
    const wall = world.masters[index]?.wall
    await tryOften(200)
    wall?.step(HOUR_MS)
    await tryOften(2_000)
    wall?.repair()
  }
  expect(await tryOften(2 * MAX_LEASE_MS)).toBe('granted')
  const states = redlock.status().masters.map(({ state }) => state)
  expect(new Set(states)).toEqual(new Set(['voting']))
  await world.settle(redlock.close())
})

test('clocks that differ at the start, and are set right later', async () => {
  const world = new SmallWorld(2, 3)
  world.masters[0]?.wall.step(HOUR_MS)
  world.masters[1]?.wall.step(-HOUR_MS)
  const { redlock } = await world.ready('a')
  expect((await world.settle(redlock.tryAcquire('r'))).status).toBe('unreachable')
  for (const { wall } of world.masters) wall.repair()
  for (let tries = 0; tries < 10; tries++) {
    await world.settle(redlock.tryAcquire('r'))
    await world.pass(MAX_LEASE_MS / 5)
  }
  const outcome = await world.settle(redlock.tryAcquire('r'))
  expect(outcome.status).toBe('granted')
  await world.settle(redlock.close())
})
