/** The fleet in memory: the real lock on it, and what its masters can be made to do. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { LeaseLostError } from '../../src/index.ts'
import { FakeClock, memoryFleet } from '../../src/testing/index.ts'

describe('a fleet in memory', () => {
  test('grants, refuses, extends and releases with increasing tokens', async () => {
    await using fleet = memoryFleet({ masters: 3 })
    const redlock = await fleet.redlock()
    const lease = await redlock.acquire('a')
    expect(await redlock.tryAcquire('a')).toMatchObject({ status: 'taken' })
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
    await lease.release()
    const next = await redlock.acquire('a')
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
  })

  test('does nothing until its clock is moved, and then everything in order', async () => {
    const clock = new FakeClock({ startsAt: 1_000_000_000_000, random: () => 0.5 })
    await using fleet = memoryFleet({ clock })
    const redlock = await fleet.redlock({ leaseMs: 1_000 })
    const kept = await redlock.acquire('kept', { autoExtend: true })
    const left = await redlock.acquire('left')
    await clock.advance(900)
    expect(left.remainingMs()).toBeGreaterThan(0)
    await clock.advance(100)
    expect(left.signal.aborted).toBe(true)
    expect(left.signal.reason).toBeInstanceOf(LeaseLostError)
    await clock.advance(10_000)
    expect(kept.remainingMs()).toBeGreaterThan(0)
    expect(clock.wallNow()).toBe(1_000_000_011_000)
  })

  test('a waiting acquire is granted when the lease before it ends', async () => {
    const clock = new FakeClock()
    await using fleet = memoryFleet({ clock })
    const redlock = await fleet.redlock({ leaseMs: 1_000 })
    await redlock.acquire('a')
    const waiting = redlock.acquire('a', { waitMs: 5_000 })
    await clock.advance(3_000)
    expect((await waiting).remainingMs()).toBe(0) // Granted after one second, and over by now.
  })

  test('masters die, are silent, and come back with or without their memory', async () => {
    const clock = new FakeClock()
    await using fleet = memoryFleet({ clock, masters: 3 })
    const redlock = await fleet.redlock({ leaseMs: 1_000, maxLeaseMs: 2_000 })
    const [first, second] = fleet.masters
    first?.silence()
    const early = redlock.tryAcquire('a')
    await clock.advance(1_000)
    expect((await early).status).toBe('granted')
    second?.kill()
    const refused = redlock.tryAcquire('b')
    await clock.advance(1_000)
    expect((await refused).status).toBe('unreachable')
    first?.start()
    expect((await redlock.tryAcquire('b')).status).toBe('granted')
    second?.start({ keepData: false })
    await clock.advance(0)
    expect(redlock.status().masters[1]).toMatchObject({ state: 'quarantined' })
  })

  test('refuses a size that is not a positive integer', () => {
    expect(() => memoryFleet({ masters: 0 })).toThrow(/`masters`/)
    expect(() => memoryFleet({ master: 3 } as never)).toThrow('Is it `masters`?')
  })
})

test('the example with node:test runs', async () => {
  const example = join(import.meta.dirname, '../../examples/testing/charge.node-test.ts')
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--test', '--test-reporter=tap', example],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_OPTIONS: '' },
    },
  )
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  const code = await new Promise((resolve) => child.on('close', resolve))
  expect(output).toMatch(/# pass 2/)
  expect(code).toBe(0)
})
