/** A clock that stands still, beside the timers of a test runner that stand still too. */
import { afterEach, expect, test, vi } from 'vitest'
import { FakeClock, memoryLocks } from '../../src/testing/index.ts'

afterEach(() => {
  vi.useRealTimers()
})

test('is moved while the runner has replaced all timers', async () => {
  vi.useFakeTimers()
  const clock = new FakeClock()
  await using locks = memoryLocks({ clock })
  const client = await locks.open({ leaseMs: 1_000 })
  const lease = await client.acquire('a')
  await clock.advance(1_000)
  expect(lease.signal.aborted).toBe(true)
})

test('one advance begins when those before have ended, and no call moves time back', async () => {
  const clock = new FakeClock()
  const times: number[] = []
  for (const ms of [10, 40]) clock.after(ms, () => times.push(clock.now()))
  await Promise.all([clock.advance(30), clock.advance(20)])
  expect([clock.now(), times]).toEqual([50, [10, 40]])
  for (const ms of [-1, NaN]) await expect(clock.advance(ms)).rejects.toThrow('`ms`')
  expect(clock.now()).toBe(50)
})
