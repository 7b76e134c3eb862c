/** A process may load two copies of this package: one makes the worker, and the other the lock. */
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as original from '../../src/index.ts'
import { aborted, MAX_LEASE_MS, until, useFleet } from '../fixtures.ts'
import { chargesOf, type Charge } from '../support/locked-jobs.ts'

const { LeaseLostError, RedlockError, silentLogger } = original
const fixture = useFleet({ masters: 3 })
const { makeQueue, work } = chargesOf(fixture)
const ROOT = join(import.meta.dirname, '..', '..')

let directory = ''
let copy: typeof original
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bullmq-redlock-copy-'))
  await cp(join(ROOT, 'src'), join(directory, 'src'), { recursive: true })
  for (const name of ['node_modules', 'package.json']) {
    await symlink(join(ROOT, name), join(directory, name))
  }
  copy = (await import(join(directory, 'src', 'index.ts'))) as typeof copy
  expect(copy.Redlock).not.toBe(original.Redlock)
})
afterAll(() => rm(directory, { recursive: true }))

/** A lock of the other copy. */
async function theirs(): Promise<original.Redlock> {
  await fixture.redlock() // Makes the fleet ready.
  const redlock = new copy.Redlock({
    ...{ masters: fixture.fleet.urls, namespace: fixture.namespace, logger: silentLogger },
    ...{ leaseMs: 500, maxLeaseMs: MAX_LEASE_MS },
  })
  fixture.defer(() => redlock.close())
  await redlock.ready()
  return redlock
}

test('an error of the other copy is one of its class, and of no other', () => {
  const error: unknown = new copy.LeaseLostError('r', 1, 'it was released')
  expect(error).toBeInstanceOf(RedlockError)
  expect(error).toBeInstanceOf(LeaseLostError)
  for (const other of [error, new LeaseLostError('r', 1, 'it was released')]) {
    expect(other).not.toBeInstanceOf(copy.RedlockClosedError)
  }
  for (const other of [undefined, null, 'LeaseLostError', new Error('no')]) {
    expect(other instanceof RedlockError).toBe(false)
  }
  expect(Object.assign(new Error('no'), { name: 'LeaseLostError' })).not.toBeInstanceOf(
    LeaseLostError,
  )
})

test('a job that goes on after its lease is lost does not stand in its line', async () => {
  const queue = makeQueue()
  const never = fixture.gate()
  const worker = await work(({ name }) => (name === 'first' ? never.passed : Promise.resolve()), {
    ...{ redlock: await theirs(), maxHoldMs: 800 },
  })
  const first = await queue.add('first', { customer: 'a' })
  await queue.add('second', { customer: 'a' })
  await until('the second is done', async () => (await queue.getCompletedCount()) === 1, 10_000)
  expect((await queue.getJob(first.id ?? ''))?.failedReason).toMatch(/is lost/)
  never.open()
  await worker.close()
})

test('a job whose lock service is closed goes back', async () => {
  const queue = makeQueue()
  const redlock = await theirs()
  const started = fixture.gate()
  const worker = await work(
    async (_job, { signal }) => {
      started.open()
      throw (await aborted(signal)) as Error
    },
    { redlock },
  )
  await queue.add('first', { customer: 'a' })
  await started.passed
  await redlock.close()
  await worker.close()
  expect(await queue.getFailedCount()).toBe(0)
  expect(await queue.getDelayedCount()).toBe(1)
})

test('its processor of batches is given batches', async () => {
  const queue = makeQueue()
  await queue.addBulk([1, 2, 3].map(() => ({ name: 'charge', data: { customer: 'a' } })))
  const sizes: number[] = []
  const processor = copy.batchProcessor<Charge, unknown>({ size: 3 }, (jobs) => {
    sizes.push(jobs.length)
    return Promise.allSettled(jobs.map(({ id }) => Promise.resolve(id)))
  })
  await work(processor)
  await until('all are done', async () => (await queue.getCompletedCount()) === 3, 10_000)
  expect(sizes).toEqual([3])
})
