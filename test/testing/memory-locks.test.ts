/** The locks in memory: the real client on them, and the faults between it and the server. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { LeaseLostError } from '../../src/index.ts'
import { FakeClock, memoryLocks } from '../../src/testing/index.ts'

describe('locks in memory', () => {
  test('do nothing until their clock is moved, and then everything in order', async () => {
    const clock = new FakeClock({ startsAt: 1_000_000_000_000, random: () => 0.5 })
    await using locks = memoryLocks({ clock })
    const locked = await locks.open({ leaseMs: 1_000 })
    const kept = await locked.acquire('kept', { autoExtend: true })
    const left = await locked.acquire('left')
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
    await using locks = memoryLocks({ clock })
    const locked = await locks.open({ leaseMs: 1_000 })
    await locked.acquire('a')
    const waiting = locked.acquire('a', { waitMs: 5_000 })
    await clock.advance(3_000)
    expect((await waiting).remainingMs()).toBe(0) // Granted after one second, and over by now.
  })

  test('without a network the holder loses its lease, and comes back after the cut', async () => {
    const clock = new FakeClock()
    await using locks = memoryLocks({ clock })
    const locked = await locks.open({ leaseMs: 1_000 })
    const lease = await locked.acquire('a', { autoExtend: true })
    await locks.network.cut()
    const refused = locked.tryAcquire('b')
    await clock.advance(1_000)
    expect((await refused).status).toBe('unreachable')
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
    await locks.network.heal()
    await clock.advance(1_000)
    expect((await locked.tryAcquire('a')).status).toBe('granted')
  })

  test('while the network is cut, nothing arrives: neither at a second cut, nor a reply on its way', async () => {
    const clock = new FakeClock()
    await using locks = memoryLocks({ clock })
    const locked = await locks.open({ leaseMs: 10_000 })
    let answers = 0
    const ask = (): void => void locked.inspect?.('a').then(() => answers++)
    locks.network.delayReplies(100)
    ask()
    await clock.advance(50)
    await locks.network.cut()
    ask()
    await clock.advance(200)
    await locks.network.cut()
    await clock.advance(200)
    expect(answers).toBe(0)
    await locks.network.heal()
    await clock.advance(0)
    expect(answers).toBe(2)
  })

  test('say who holds a resource, and keep namespaces apart', async () => {
    await using locks = memoryLocks()
    const one = await locks.open({ owner: 'worker-1', namespace: 'one' })
    const other = await locks.open({ owner: 'worker-2', namespace: 'one' })
    const two = await locks.open({ namespace: 'two' })
    await one.acquire('a')
    expect(await other.tryAcquire('a')).toMatchObject({
      status: 'taken',
      holder: expect.stringMatching(/^worker-1 /) as string,
    })
    expect((await two.tryAcquire('a')).status).toBe('granted')
  })

  test('refuse an option that they do not know', () => {
    expect(() => memoryLocks({ clocks: 3 } as never)).toThrow('Is it `clock`?')
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
