/** Contenders that defeat each other, and quorums that are none. */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { SplitVoteError, type RedlockOptions } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { watchLeaks } from '../support/leaks.ts'
import { until } from '../fixtures.ts'
import { item, Harness } from './harness.ts'

const leaks = watchLeaks()
let fleet: Fleet

beforeAll(async () => {
  fleet = await startFleet({ masters: 5, queue: false })
})

afterAll(async () => {
  await fleet.close()
  await leaks.assertNone()
})

it('E1: a split vote does not block its own retries (node-redlock and its forks do)', async () => {
  await using harness = await Harness.open(fleet)
  const redlock = await harness.client({ leaseMs: 8_000 })
  await item(harness.proxies, 4).refuse()
  await until('one master is down', () => item(redlock.status().masters, 4).state === 'connecting')
  await harness.occupy('r', [0, 1], 60_000)
  const first = await redlock.tryAcquire('r')
  expect(first.status).toBe('split')
  await harness.occupy('r', [0, 1], 250)
  // Half of the lease: keys that the failed attempts left behind would outlast this.
  await using lease = await redlock.acquire('r', { waitMs: 4_000 })
  expect(lease.remainingMs()).toBeGreaterThan(0)
  // No attempt left a key behind: the two that nobody else held have the lease, and no other key is
  // ours.
  await until('both that were free have it', async () => {
    const [, , third, fourth] = await harness.holders('r')
    return third === lease.token && fourth === lease.token
  })
  const others = (await harness.holders('r')).slice(0, 2).filter((holder) => holder !== lease.token)
  expect(others.length).toBeLessThan(2)
  expect(others.filter((holder) => holder !== null && holder !== 'foreign@elsewhere')).toEqual([])
})

it('E3: one vote for and one against of two masters is an answer (node-redlock never settles)', async () => {
  await using harness = await Harness.open(fleet, { masters: 2 })
  const redlock = await harness.client()
  await harness.occupy('r', [0], 60_000)
  const outcome = await redlock.tryAcquire('r')
  expect(outcome.status).toBe('split')
  await expect(redlock.acquire('r', { waitMs: 300 })).rejects.toThrow(SplitVoteError)
  await until('nothing is left on the other', async () => (await harness.holders('r'))[1] === null)
  await harness.forget('r', [0])
  await using lease = await redlock.acquire('r')
  expect(await harness.holders('r')).toEqual([lease.token, lease.token])
})

it('E9: eight contenders with random latency all get their turn (node-redlock: two of eight)', async () => {
  await using harness = await Harness.open(fleet)
  const contenders = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      harness.client({ leaseMs: 5_000, owner: `c-${index}` }),
    ),
  )
  const latencyMs = (): number => Math.random() * 10
  for (const proxy of harness.proxies) proxy.delay({ requestsMs: latencyMs, repliesMs: latencyMs })
  await Promise.all(harness.masters.map((redis) => redis.config('RESETSTAT')))

  let inside = 0
  const tokens: number[] = []
  const turns = contenders.map((redlock) =>
    redlock.using('r', { waitMs: 18_000 }, async ({ fencingToken }) => {
      inside += 1
      expect(inside).toBe(1)
      tokens.push(fencingToken)
      await delay(5)
      inside -= 1
    }),
  )
  await Promise.all(turns)

  expect(tokens).toHaveLength(8)
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
  expect(new Set(tokens).size).toBe(8)
  for (const proxy of harness.proxies) expect(proxy.counters.replies.delayed).toBeGreaterThan(0)
  const calls = await Promise.all(harness.masters.map((redis) => scriptCalls(redis)))
  // The published library with retries used 3670 commands and gave two of eight a turn.
  expect(calls.reduce((sum, count) => sum + count, 0)).toBeLessThan(3_670)
})

it('F4: two of five grants are never enough (redlock-universal accepts quorum: 1)', async () => {
  await using harness = await Harness.open(fleet)
  const lower = { quorum: 1 } as Partial<RedlockOptions>
  await expect(harness.client(lower)).rejects.toThrow('There is no option `quorum`')
  const redlock = await harness.client({ leaseMs: 8_000 })
  expect(redlock.quorum).toBe(3)

  await harness.occupy('r', [0, 1, 2], 60_000)
  expect((await redlock.tryAcquire('r')).status).toBe('taken')
  // The two other masters did grant.
  expect((await harness.counters('r')).map((counter) => counter !== null)).toEqual([
    false,
    false,
    false,
    true,
    true,
  ])
  await harness.forget('r', [0, 1, 2])

  await using lease = await redlock.acquire('r')
  await harness.forget('r', [3, 4])
  const second = await (await harness.client({ leaseMs: 8_000, direct: true })).tryAcquire('r')
  expect(second.status).toBe('taken')
  expect(lease.remainingMs()).toBeGreaterThan(0)
})

async function scriptCalls(redis: { info(section: string): Promise<string> }): Promise<number> {
  const calls = /^cmdstat_evalsha:calls=(\d+)/m.exec(await redis.info('commandstats'))?.[1]
  return Number(calls ?? 0)
}
