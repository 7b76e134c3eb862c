/** The same kit with node:test. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock, memoryLocks } from '../../src/testing/index.ts' // 'bullmq-redlock/testing'

void test('a second worker waits until the first one has released', async () => {
  await using locks = memoryLocks()
  const first = await locks.open({ owner: 'worker-1' })
  const second = await locks.open({ owner: 'worker-2' })
  const lease = await first.acquire('customer:ann')
  assert.equal((await second.tryAcquire('customer:ann')).status, 'taken')
  await lease.release()
  const later = await second.acquire('customer:ann')
  assert.ok(later.fencingToken > lease.fencingToken)
})

void test('while the lock service is away nothing is granted, and a lease ends in time', async () => {
  const clock = new FakeClock()
  await using locks = memoryLocks({ clock })
  const locked = await locks.open({ leaseMs: 1_000 })
  const lease = await locked.acquire('a', { autoExtend: true })
  await locks.network.cut()
  const refused = locked.tryAcquire('b')
  await clock.advance(1_000)
  assert.equal((await refused).status, 'unreachable')
  assert.equal(lease.signal.aborted, true)
  await locks.network.heal()
  assert.equal((await locked.tryAcquire('b')).status, 'granted')
})
