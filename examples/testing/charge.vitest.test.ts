/**
 * Unit tests with vitest, locks in memory and a clock that stands still: no Redis, no waiting.
 */
import type { Job } from 'bullmq'
import { expect, test } from 'vitest'
import { LeaseLostError, lockedProcessor } from '../../src/index.ts' // 'bullmq-redlock'
import { FakeClock, memoryLocks } from '../../src/testing/index.ts' // 'bullmq-redlock/testing'
import { chargeWith, resource, type Charge } from './charge.ts'

/** As much of a job as is read. */
function job(customer: string): Job<Charge, string> {
  const part = { id: '1', data: { customer, cents: 1_000 }, timestamp: Date.now(), opts: {} }
  return part as unknown as Job<Charge, string>
}

test('a charge is captured under a fencing token', async () => {
  await using locks = memoryLocks()
  const captured: number[] = []
  const processor = lockedProcessor<Charge, string>(
    await locks.open(),
    { resource },
    chargeWith({
      reserve: () => Promise.resolve('r-1'),
      capture: (_reservation, fencingToken) => {
        captured.push(fencingToken)
        return Promise.resolve()
      },
    }),
  )
  expect(await processor(job('ann'), 'token', undefined)).toBe('r-1')
  expect(captured).toHaveLength(1)
})

test('nothing is captured when the lock service goes away in between and the lease runs out', async () => {
  const clock = new FakeClock()
  await using locks = memoryLocks({ clock })
  let captures = 0
  const processor = lockedProcessor<Charge, string>(
    await locks.open({ leaseMs: 1_000 }),
    { resource },
    chargeWith({
      reserve: async () => {
        await locks.network.cut()
        await clock.advance(1_000)
        await locks.network.heal()
        return 'r-1'
      },
      capture: () => {
        captures++
        return Promise.resolve()
      },
    }),
  )
  await expect(processor(job('ann'), 'token', undefined)).rejects.toThrow(LeaseLostError)
  expect(captures).toBe(0)
})
