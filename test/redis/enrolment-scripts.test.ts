/** Every answer of the scripts that decide when a server may grant. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { bootstrapScript } from '../../src/redlock/fleet/enrol-scripts.ts'
import { watchLeaks } from '../support/leaks.ts'
import { FLEET_SIZE, MAX_LEASE_MS, ScriptBench } from './script-bench.ts'

const leaks = watchLeaks()
const QUARANTINE_MS = 30_302
let bench: ScriptBench

beforeAll(async () => {
  bench = await ScriptBench.start()
})

beforeEach(() => bench.redis.flushall())

afterAll(async () => {
  await bench.close()
  await leaks.assertNone()
})

const votesFrom = (): Promise<string | null> => bench.redis.hget(bench.keys.master, 'votesFromMs')

describe('enrol', () => {
  it('enrolled: a server that is new waits for a whole longest lease', async () => {
    const before = Math.floor((await bench.nowUs()) / 1_000)
    expect(await bench.enrol('run-1')).toEqual(['enrolled', QUARANTINE_MS, 'client-1'])
    expect(Number(await votesFrom())).toBeGreaterThanOrEqual(before + QUARANTINE_MS)
    expect(await bench.redis.hgetall(bench.keys.master)).toMatchObject({
      runId: 'run-1',
      maxLeaseMs: String(MAX_LEASE_MS),
      durable: '0',
      fleetSize: String(FLEET_SIZE),
    })
  })

  it('enrolled: the same process does not begin to wait again', async () => {
    await bench.enrol('run-1')
    const first = await votesFrom()
    const [word, toGoMs] = await bench.enrol('run-1')
    expect(word).toBe('enrolled')
    expect(toGoMs).toBeLessThanOrEqual(QUARANTINE_MS)
    expect(await votesFrom()).toBe(first)
    await bench.redis.hset(bench.keys.master, 'votesFromMs', '0')
    expect((await bench.enrol('run-1')).slice(0, 2)).toEqual(['enrolled', 0])
  })

  it.each([
    [true, true, 0],
    [true, false, QUARANTINE_MS],
    [false, true, QUARANTINE_MS],
    [false, false, QUARANTINE_MS],
  ])(
    'enrolled: another process, durable before: %s, now: %s',
    async (before, durable, expected) => {
      await bench.enrol('run-1', { durable: before })
      await bench.redis.hset(bench.keys.master, 'votesFromMs', '0')
      expect(await bench.enrol('run-2', { durable })).toEqual(['enrolled', expected, 'client-1'])
    },
  )

  it('enrolled: a durable process that restarts while it waits goes on waiting', async () => {
    await bench.enrol('run-1', { durable: true })
    const first = await votesFrom()
    const [, toGoMs] = await bench.enrol('run-2', { durable: true })
    expect(toGoMs).toBeGreaterThan(0)
    expect(await votesFrom()).toBe(first)
  })

  it.each([
    ['longest lease', 'maxLeaseMs', 60_000, '30000'],
    ['number of masters', 'fleetSize', 3, '5'],
  ])(
    'mismatch: another %s is refused, and what is stored stays',
    async (_, name, other, stored) => {
      await bench.enrol('run-1')
      const before = await bench.redis.hgetall(bench.keys.master)
      expect(await bench.enrol('run-2', { [name]: other })).toEqual(['mismatch', name, stored])
      expect(await bench.redis.hgetall(bench.keys.master)).toEqual(before)
    },
  )

  it('unfounded: whom other masters refuse is not the first that a master gets to know', async () => {
    const foreign = { mayBeFirst: false }
    expect(await bench.enrol('run-1', foreign)).toEqual(['unfounded'])
    expect(await bench.redis.dbsize()).toBe(0)
    await bench.enrol('run-1')
    expect(await bench.enrol('run-1', foreign)).toEqual([
      'enrolled',
      expect.any(Number),
      'client-1',
    ])
  })
})

it('bootstrap: ends the wait, and keeps what is known of the memory', async () => {
  await bench.enrol('run-1', { durable: true })
  const args = ['run-1', MAX_LEASE_MS, FLEET_SIZE]
  expect(await bench.run(bootstrapScript, [bench.keys.master], args)).toEqual(['enrolled', 0])
  expect(await bench.redis.hgetall(bench.keys.master)).toEqual({
    runId: 'run-1',
    maxLeaseMs: String(MAX_LEASE_MS),
    votesFromMs: '0',
    durable: '1',
    fleetSize: String(FLEET_SIZE),
    founder: 'client-1',
  })
  expect((await bench.enrol('run-1')).slice(0, 2)).toEqual(['enrolled', 0])
})
