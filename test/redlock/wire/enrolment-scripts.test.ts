/** Every answer of the scripts that decide when a server may grant. */
import { describe, expect, it } from 'vitest'
import { waitedScript } from '../../../src/redlock/fleet/voter.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { FENCE_TTL_MS, FLEET_SIZE, MAX_LEASE_MS, useScriptBench } from './script-bench.ts'

assertNoLeaks()
const QUARANTINE_MS = 30_302
const bench = useScriptBench({ isEnrolled: false })

/** The name of the quarantine, and what is left of it. */
const quarantine = (): Promise<readonly (string | null)[]> =>
  bench.redis.hmget(bench.keys.master, 'quarantine', 'votesInMs')
/** The client's name of it, and the server's TIME: its microseconds have no leading zeros. */
const named = (name: string): unknown =>
  expect.stringMatching(new RegExp(`^${name}@\\d{10}\\d{1,6}$`))
const enrolled = (leftMs: number, name: string): readonly unknown[] => [
  ...['enrolled', leftMs, named(name), 'client-1'],
  expect.any(Number),
]

describe('enrol', () => {
  it('enrolled: a server that is new waits for a whole longest lease', async () => {
    const before = Math.floor((await bench.nowUs()) / 1_000)
    const reply = await bench.enrol('run-1')
    expect(reply).toEqual(enrolled(QUARANTINE_MS, 'q-1'))
    expect(reply[4]).toBeGreaterThanOrEqual(before)
    expect(await bench.redis.hgetall(bench.keys.master)).toEqual({
      runId: 'run-1',
      maxLeaseMs: String(MAX_LEASE_MS),
      durable: '0',
      fleetSize: String(FLEET_SIZE),
      fenceTtlMs: String(FENCE_TTL_MS),
      founder: 'client-1',
      quarantine: named('q-1'),
      votesInMs: String(QUARANTINE_MS),
    })
  })

  it('enrolled: the same process does not begin to wait again', async () => {
    await bench.enrol('run-1')
    expect(await bench.enrol('run-1', { quarantine: 'q-2' })).toEqual(
      enrolled(QUARANTINE_MS, 'q-1'),
    )
    await bench.redis.hset(bench.keys.master, 'votesInMs', '0')
    expect(await bench.enrol('run-1')).toEqual(enrolled(0, 'q-1'))
  })

  it.each([
    [true, true, 0, 'q-1'],
    [true, false, QUARANTINE_MS, 'q-2'],
    [false, true, QUARANTINE_MS, 'q-2'],
    [false, false, QUARANTINE_MS, 'q-2'],
  ])(
    'enrolled: another process, durable before: %s, now: %s',
    async (before, durable, leftMs, name) => {
      await bench.enrol('run-1', { durable: before })
      await bench.redis.hset(bench.keys.master, 'votesInMs', '0')
      const reply = await bench.enrol('run-2', { durable, quarantine: 'q-2' })
      expect(reply).toEqual(enrolled(leftMs, name))
    },
  )

  it('enrolled: a durable process that restarts while it waits continues to wait', async () => {
    await bench.enrol('run-1', { durable: true })
    const [name] = await quarantine()
    await bench.run(waitedScript, [bench.keys.master], [name ?? '', 10_000])
    const reply = await bench.enrol('run-2', { durable: true, quarantine: 'q-2' })
    expect(reply).toEqual(enrolled(10_000, 'q-1'))
  })

  it.each([
    ['longest lease', 'maxLeaseMs', 60_000, '30000'],
    ['number of masters', 'fleetSize', 3, '5'],
    ['life of a counter', 'fenceTtlMs', 300_000, String(FENCE_TTL_MS)],
  ])(
    'mismatch: another %s is refused, and what is stored stays',
    async (_, name, other, stored) => {
      await bench.enrol('run-1')
      const before = await bench.redis.hgetall(bench.keys.master)
      expect(await bench.enrol('run-2', { [name]: other })).toEqual(['mismatch', name, stored])
      expect(await bench.redis.hgetall(bench.keys.master)).toEqual(before)
    },
  )

  it('foreign: a master without memory refuses a client that other masters refuse', async () => {
    const foreign = { mayBeFirst: false }
    expect(await bench.enrol('run-1', foreign)).toEqual(['foreign'])
    expect(await bench.redis.dbsize()).toBe(0)
    await bench.enrol('run-1')
    expect(await bench.enrol('run-1', foreign)).toEqual(enrolled(QUARANTINE_MS, 'q-1'))
  })
})

describe('waited', () => {
  const waited = (name: string, leftMs: number): Promise<unknown> =>
    bench.run(waitedScript, [bench.keys.master], [name, leftMs])

  it('the smallest remaining time counts, and 0 ends the quarantine', async () => {
    await bench.enrol('run-1')
    const [name] = await quarantine()
    expect(await waited(name ?? '', 9_000)).toBe(9_000)
    expect(await waited(name ?? '', 20_000)).toBe(9_000)
    expect(await waited(name ?? '', 0)).toBe(0)
    expect(await quarantine()).toEqual([name, '0'])
  })

  it('a quarantine of another name is not shortened: it began after another loss', async () => {
    await bench.enrol('run-1')
    const [first] = await quarantine()
    await bench.redis.flushall()
    await bench.enrol('run-1') // The same call, which ran a second time.
    expect(await waited(first ?? '', 0)).toBe(0)
    expect(await quarantine()).toEqual([named('q-1'), String(QUARANTINE_MS)])
    const [second] = await quarantine()
    await bench.redis.flushall()
    expect(await waited(second ?? '', 0)).toBe(0)
    expect(await bench.redis.dbsize()).toBe(0)
  })
})

it('waited: an operator ends the wait, which keeps what is known of the memory', async () => {
  await bench.enrol('run-1', { durable: true })
  const [name = ''] = await quarantine()
  expect(await bench.run(waitedScript, [bench.keys.master], [name ?? '', 0])).toBe(0)
  expect(await bench.redis.hgetall(bench.keys.master)).toEqual({
    runId: 'run-1',
    maxLeaseMs: String(MAX_LEASE_MS),
    quarantine: name,
    votesInMs: '0',
    fenceTtlMs: String(FENCE_TTL_MS),
    durable: '1',
    fleetSize: String(FLEET_SIZE),
    founder: 'client-1',
  })
  expect((await bench.enrol('run-1')).slice(0, 2)).toEqual(['enrolled', 0])
})
