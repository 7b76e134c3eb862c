/** The same kit with node:test. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock, memoryFleet } from '../../src/testing/index.ts' // 'bullmq-redlock/testing'

void test('a second worker waits until the first one has released', async () => {
  await using fleet = memoryFleet()
  const first = await fleet.redlock({ owner: 'worker-1' })
  const second = await fleet.redlock({ owner: 'worker-2' })
  const lease = await first.acquire('customer:ann')
  assert.equal((await second.tryAcquire('customer:ann')).status, 'taken')
  await lease.release()
  const later = await second.acquire('customer:ann')
  assert.ok(later.fencingToken > lease.fencingToken)
})

void test('two of five masters may be gone, three may not', async () => {
  const clock = new FakeClock()
  await using fleet = memoryFleet({ clock })
  const redlock = await fleet.redlock({ leaseMs: 1_000, maxLeaseMs: 5_000 })
  for (const master of fleet.masters.slice(0, 2)) master.kill()
  assert.equal((await redlock.tryAcquire('a')).status, 'granted')
  fleet.masters[2]?.kill()
  assert.equal((await redlock.tryAcquire('b')).status, 'unreachable')
  // Back without its memory, it may have forgotten a lease: it votes again when the longest one is
  // over.
  fleet.masters[2]?.start({ keepData: false })
  await clock.advance(1_000)
  assert.equal((await redlock.tryAcquire('b')).status, 'unreachable')
  await clock.advance(5_000)
  assert.equal((await redlock.tryAcquire('b')).status, 'granted')
})
