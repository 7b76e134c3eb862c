import { expect, test } from 'vitest'
import { SmallWorld } from './small-world.ts'

const LEASE_MS = 1_000

// The masters granted in time, and the process slept: only its clock knows that it is late.
test('a grant that is read after its trust is over is refused, and released on every master', async () => {
  const world = new SmallWorld(1, 3)
  const { redlock, clock } = await world.ready('a')
  const acquiring = redlock.tryAcquire('r', { leaseMs: LEASE_MS })
  clock.pause()
  await world.pass(LEASE_MS - 5)
  expect(world.leaseKeys()).toHaveLength(3)
  clock.wake()
  expect(await world.settle(acquiring)).toMatchObject({
    status: 'unreachable',
    answers: expect.arrayContaining([
      { master: 'master-1', answer: expect.stringContaining('was already over') as string },
    ]) as unknown,
  })
  await world.pass(100)
  const releases = world.masters.map(({ replies }) =>
    [...replies].filter(([reply]) => reply.startsWith('release:')).map(([, count]) => count),
  )
  expect(releases).toEqual([[1], [1], [1]])
  await world.settle(redlock.close())
})
