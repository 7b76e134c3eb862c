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
