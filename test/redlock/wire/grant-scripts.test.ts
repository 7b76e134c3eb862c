/** Every answer of the scripts that grant and fix a fencing token, on a real server. */
import { describe, expect, it } from 'vitest'
import { TOKENS_PER_GRANT } from '../../../src/redlock/verbs.ts'
import { until } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { FENCE_TTL_MS, MAX_LEASE_MS, RUN_ID, SKEW_MS, useScriptBench } from './script-bench.ts'

assertNoLeaks()
const bench = useScriptBench()

const HIGH = 2 ** 53 - 1_000
const SPAN = TOKENS_PER_GRANT
const ttlMs: unknown = expect.any(Number)

describe('acquire', () => {
  it('granted: the key is the token, the counter is the proposal, both with their time to live', async () => {
    const proposal = await bench.nowUs()
    const [word, counter] = await bench.acquire('a', { proposal, leaseMs: 5_000 })
    const afterUs = await bench.nowUs()
    expect([word, counter]).toEqual(['granted', proposal])
    expect(bench.serverMs).toBeGreaterThanOrEqual(Math.floor(proposal / 1_000))
    expect(bench.serverMs).toBeLessThanOrEqual(afterUs / 1_000)
    expect(await bench.holder()).toBe('a')
    expect(await bench.counter()).toBe(String(proposal))
    const ttls = [await bench.ttl(), await bench.redis.pttl(bench.keys.fence('r'))]
    expect(ttls[0]).toBeGreaterThan(0)
    expect(ttls[0]).toBeLessThanOrEqual(5_000)
    expect(ttls[1]).toBeGreaterThan(5_000)
    expect(ttls[1]).toBeLessThanOrEqual(FENCE_TTL_MS)
  })

  it('granted: every new token gets a larger counter, also when its proposal is smaller', async () => {
    const first = await bench.granted('a', { proposal: 1_000 })
    await bench.release('a')
    expect(await bench.granted('b', { proposal: 500 })).toBe(first + SPAN)
    await bench.release('b')
    const tooClose = first + 2 * SPAN - 1
    expect(await bench.granted('c', { proposal: tooClose })).toBe(first + 2 * SPAN)
    await bench.release('c')
    expect(await bench.granted('d', { proposal: 9_000 })).toBe(9_000)
  })

  it('granted: again for the same token, with the same counter and no longer than before', async () => {
    const counter = await bench.granted('a', { leaseMs: 2_000 })
    const before = await bench.ttl()
    expect(await bench.granted('a', { leaseMs: 30_000, proposal: 77_000 })).toBe(counter)
    expect(await bench.ttl()).toBeLessThanOrEqual(before)
    expect(await bench.counter()).toBe(String(counter))
  })

  it.each([
    ['microseconds of today', 1_795_227_970_894_312],
    ['the largest numbers that are exact', HIGH],
  ])('granted: counters lose no digit: %s', async (_what, stored) => {
    await bench.setCounter(stored)
    const granted = stored + SPAN
    expect(await bench.granted('a')).toBe(granted)
    expect(await bench.counter()).toBe(String(granted))
    expect(await bench.confirm('a', granted + 1)).toEqual(['counter', granted + 1])
    expect(await bench.counter()).toBe(String(granted + 1))
    expect(await bench.extend('a', granted + 2)).toEqual(['extended'])
    expect(await bench.counter()).toBe(String(granted + 2))
    expect(await bench.extend('a', granted + 1)).toEqual(['lost', 'a'])
  })

  it('taken: names the holder and its time left, and changes nothing', async () => {
    const counter = await bench.granted('a', { leaseMs: 5_000 })
    const [word, holder, ttl] = await bench.acquire('b', { leaseMs: 20_000 })
    expect([word, holder]).toEqual(['taken', 'a'])
    expect(ttl).toBeGreaterThan(0)
    expect(ttl).toBeLessThanOrEqual(5_000)
    expect(await bench.holder()).toBe('a')
    expect(await bench.counter()).toBe(String(counter))
    expect(await bench.ttl()).toBeLessThanOrEqual(5_000)
  })

  it('granted: several resources with one counter, beyond that of each; taken: none of them', async () => {
    await bench.setCounter(70, 'x')
    await bench.setCounter(90, 'y')
    expect(await bench.granted('a', { resources: ['x', 'y'] })).toBe(90 + SPAN)
    const both = String(90 + SPAN)
    expect([await bench.counter('x'), await bench.counter('y')]).toEqual([both, both])
    expect(await bench.acquire('b', { resources: ['w', 'y', 'z'] })).toEqual([
      'taken',
      'a',
      ttlMs,
      2,
    ])
    expect([await bench.holder('w'), await bench.holder('z')]).toEqual([null, null])
    expect([await bench.counter('w'), await bench.counter('z')]).toEqual([null, null])
  })

  it('granted: names and tokens of any characters, each as it is', async () => {
    const odd = ['a\0b', 'a', 'a\u0001', 'a\u0001\u0002b', '\0', 'ä\u0001\0€']
    for (const [index, name] of odd.entries()) {
      const token = `\0${index}\u0001@owner`
      await bench.granted(token, { resources: [name] })
      expect(await bench.holder(name)).toBe(token)
    }
    expect(await bench.redis.keys('*:lease:*')).toHaveLength(odd.length)
    for (const [index, name] of odd.entries())
      await bench.release(`\0${index}\u0001@owner`, { resources: [name] })
    expect(await bench.redis.keys('*:lease:*')).toEqual([])
  })

  it('an error of one counter makes none of the others smaller', async () => {
    await bench.setCounter(10 ** 15, 'x')
    await bench.redis.rpush(bench.keys.fence('y'), 'no counter')
    const many = { resources: ['x', 'y'] }
    await expect(bench.acquire('a', many)).rejects.toThrow('WRONGTYPE')
    expect(Number(await bench.counter('x'))).toBeGreaterThan(10 ** 15)
    await bench.release('a', many)
    expect(await bench.redis.keys('*:lease:*')).toEqual([])
  })

  it('quarantined: says how long, and grants nothing; the holder of a key is no exception', async () => {
    const counter = await bench.granted('a')
    const waitMs = 5_000
    await bench.redis.hset(bench.keys.master, 'votesInMs', waitMs)
    for (const token of ['a', 'b']) {
      const reply = await bench.acquire(token, { resources: ['other'] })
      expect(reply).toEqual(['quarantined', waitMs])
    }
    expect(await bench.holder('other')).toBeNull()
    expect(await bench.extend('a', counter)).toEqual(['extended'])
    expect(await bench.heal('c', 1, { resources: ['lost'] })).toEqual(['healed'])
    expect(await bench.release('a')).toEqual(['released'])
  })

  it('skewed: a proposal far ahead is refused before it can raise a counter', async () => {
    const nowUs = await bench.nowUs()
    const [word, aheadMs] = await bench.acquire('a', { proposal: nowUs + 60_000_000 })
    expect(word).toBe('skewed')
    expect(aheadMs).toBeGreaterThan(SKEW_MS)
    expect(aheadMs).toBeLessThanOrEqual(60_001)
    expect([await bench.holder(), await bench.counter()]).toEqual([null, null])
    const allowed = nowUs + (SKEW_MS / 2) * 1_000
    expect(await bench.granted('a', { proposal: allowed })).toBe(allowed)
  })

  it('abandoned: a token with a tombstone is not granted any more, others are', async () => {
    expect(await bench.release('a', { tombstoneMs: 60_000 })).toEqual(['released'])
    expect(await bench.acquire('a')).toEqual(['abandoned'])
    expect(await bench.holder()).toBeNull()
    expect(await bench.granted('b')).toBe(SPAN)
  })

  it.each([
    ['restarted since', ['another-run', 30_000]],
    ['has another longest lease', [RUN_ID, 20_000]],
    ['is one of another number', [RUN_ID, 30_000, 3]],
    ['was enrolled by no one on this connection', ['', 30_000]],
  ] as const)('unenrolled: the server %s', async (_why, enrolment) => {
    expect(await bench.acquire('a', { enrolment })).toEqual(['unenrolled'])
    expect([await bench.holder(), await bench.counter()]).toEqual([null, null])
  })

  it('unenrolled: the server lost its data', async () => {
    await bench.redis.flushall()
    expect(await bench.acquire('a')).toEqual(['unenrolled'])
    expect(await bench.confirm('a', 1)).toEqual(['unenrolled'])
    expect(await bench.extend('a', 1)).toEqual(['unenrolled'])
    expect(await bench.heal('a', 1)).toEqual(['unenrolled'])
    expect(await bench.redis.dbsize()).toBe(0)
  })

  it('gives a waiting caller one place, which ends with its waiting', async () => {
    await bench.granted('a')
    await bench.acquire('b')
    expect(await bench.places()).toEqual([])
    await bench.acquire('c', { waitMs: 20_000 })
    await bench.acquire('d', { waitMs: 10_000 })
    await bench.acquire('e', { waitMs: 1_000_000 })
    await bench.acquire('c2', { waitMs: 19_000, waiter: 'c-waits' })
    // Nobody is more patient than the longest lease is long, or it would never get its turn.
    expect(await bench.places()).toEqual(['d-waits', 'c-waits', 'e-waits'])
    expect(await bench.redis.pttl(bench.keys.waiters('r'))).toBeGreaterThan(20_000)
    await bench.redis.call('ZADD', bench.keys.waiters('r'), '1', 'gone')
    await bench.acquire('f', { waitMs: 5_000 })
    expect(await bench.places()).toEqual(['f-waits', 'd-waits', 'c-waits', 'e-waits'])
  })

  it('taken: who waits for longer than the longest lease stays in front of those that came later', async () => {
    await bench.granted('a')
    await bench.acquire('b', { waitMs: 1_000_000 })
    const key = bench.keys.waiters('r')
    const soonMs = Math.ceil((await bench.nowUs()) / 1_000) + 500
    await bench.redis.zadd(key, 'XX', soonMs, 'b-waits') // Nearly the longest lease has passed.
    await bench.acquire('c', { waitMs: 1_000_000 })
    await bench.acquire('b2', { waitMs: 900_000, waiter: 'b-waits' })
    expect(await bench.redis.zrange(key, 0, '-1')).toEqual(['b-waits', 'c-waits'])
    expect(Number(await bench.redis.zscore(key, 'b-waits'))).toBeGreaterThan(soonMs + 1_000)
  })

  it('gives a caller of several resources a place where it is refused, and leaves the others', async () => {
    await bench.granted('a', { resources: ['r'] })
    const waiting = { resources: ['q', 'r'], waitMs: 20_000, waiter: 'b-waits' }
    await bench.acquire('b', waiting)
    expect(await bench.places()).toEqual(['b-waits'])
    await bench.granted('c', { resources: ['q'] })
    await bench.acquire('b2', waiting)
    expect(await bench.places()).toEqual([])
    expect(await bench.redis.zcard(bench.keys.waiters('q'))).toBe(1)
  })

  it('reserves a released resource for the next waiters until one of them has it', async () => {
    await bench.granted('a')
    await bench.acquire('b', { waitMs: 20_000 })
    await bench.release('a', { graceMs: 10_000 })
    const reserved = ['taken', expect.stringContaining('@waiting clients'), ttlMs]
    expect(await bench.acquire('c')).toEqual(reserved)
    expect(await bench.acquire('d', { waitMs: 20_000 })).toEqual(reserved)
    expect(await bench.places()).toEqual(['b-waits', 'd-waits'])
    await bench.granted('b', { waitMs: 20_000 })
    await bench.withdraw('b-waits')
    await bench.withdraw('d-waits')
    await bench.release('b', { graceMs: 10_000 })
    await bench.granted('c')
  })

  it('reserves it for live waiters only, and for no longer than the grace', async () => {
    await bench.granted('a')
    await bench.redis.call('ZADD', bench.keys.waiters('r'), '1', 'gone')
    await bench.release('a', { graceMs: 10_000 })
    await bench.granted('c')
    await bench.acquire('d', { waitMs: 20_000 })
    await bench.release('c', { graceMs: 20 })
    await until('the grace is over', async () => (await bench.acquire('e'))[0] === 'granted')
  })
})

describe('the flag that tombstones, reservations or waiters may exist', () => {
  /** When a key ends, on the server's clock. */
  const endOf = async (key: string): Promise<number> =>
    Number(await bench.redis.call('PEXPIRETIME', key))

  const tellsOf = async (key: string): Promise<void> => {
    expect(await endOf(key)).toBeGreaterThan(0)
    expect(await endOf(bench.keys.flag)).toBeGreaterThanOrEqual(await endOf(key))
  }

  it('is absent where no client waits and every reply arrives', async () => {
    await bench.granted('a')
    expect((await bench.acquire('b'))[0]).toBe('taken')
    await bench.release('a', { graceMs: 10_000 })
    expect(await bench.redis.exists(bench.keys.flag)).toBe(0)
  })

  it('lives as long as the last of them', async () => {
    await bench.granted('a')
    await bench.acquire('b', { waitMs: 20_000 })
    await tellsOf(bench.keys.waiters('r'))
    await bench.release('a', { graceMs: 30_000 })
    await tellsOf(bench.keys.next('r'))
    await bench.release('c', { tombstoneMs: 60_000 })
    await tellsOf(bench.keys.tombstone('c'))
    await bench.release('d', { tombstoneMs: 1_000 })
    await bench.acquire('e', { waitMs: 1_000 })
    await tellsOf(bench.keys.tombstone('c'))
  })

  it('exists after a heal within a quarantine', async () => {
    await bench.redis.hset(bench.keys.master, 'votesInMs', 60_000)
    expect(await bench.heal('a', 1)).toEqual(['healed'])
    await tellsOf(bench.keys.tombstone('a'))
  })

  it('is visible to later entries of the same batch', async () => {
    const token = 'a'
    const terms = { leaseMs: 10_000, fence: 0 }
    const replies = await bench.together([
      { verb: 'acquire', resources: ['r'], token: 'before', ...terms },
      { verb: 'release', resources: ['r'], token, leaseMs: 60_000 },
      { verb: 'acquire', resources: ['s'], token, ...terms },
    ])
    expect(replies).toEqual([['granted', SPAN], true, ['abandoned']])
  })
})

describe('releases of one batch', () => {
  it('delete their leases where the server refuses the tombstone of one', async () => {
    for (const name of ['r', 's']) await bench.granted(name, { resources: [name] })
    await bench.redis.config('SET', 'maxmemory', '1')
    try {
      await bench.together([
        { verb: 'release', resources: ['r'], token: 'r' },
        { verb: 'release', resources: ['s'], token: 's', leaseMs: 60_000 },
      ])
    } finally {
      await bench.redis.config('SET', 'maxmemory', '0')
    }
    expect([await bench.holder('r'), await bench.holder('s')]).toEqual([null, null])
  })
})

describe('confirm', () => {
  it('counter: is raised to the fencing token, never lowered, and only for the holder', async () => {
    const counter = await bench.granted('a')
    expect(await bench.confirm('a', counter + 10)).toEqual(['counter', counter + 10])
    // Beyond the fencing token: the caller must not count this master.
    expect(await bench.confirm('a', counter + 5)).toEqual(['counter', counter + 10])
    expect(await bench.counter()).toBe(String(counter + 10))
  })

  it('lost: where another token, or none, holds the key; the counter stays', async () => {
    const counter = await bench.granted('a')
    expect(await bench.confirm('b', 99)).toEqual(['lost'])
    await bench.release('a')
    expect(await bench.confirm('a', 99)).toEqual(['lost'])
    expect(await bench.counter()).toBe(String(counter))
  })

  it('lost: where one of several resources is gone; none of the counters is raised', async () => {
    const resources = ['x', 'y']
    const counter = await bench.granted('a', { resources })
    await bench.redis.del(bench.keys.lease('y'))
    expect(await bench.confirm('a', 99, resources)).toEqual(['lost'])
    expect(await bench.counter('x')).toBe(String(counter))
    await bench.redis.set(bench.keys.lease('y'), 'a', 'PX', 10_000)
    expect(await bench.confirm('a', 99, resources)).toEqual(['counter', 99])
    expect([await bench.counter('x'), await bench.counter('y')]).toEqual(['99', '99'])
  })

  it('unenrolled', async () => {
    const counter = await bench.granted('a')
    expect(await bench.confirm('a', 99, ['r'], 'another-run')).toEqual(['unenrolled'])
    expect(await bench.counter()).toBe(String(counter))
  })
})

describe('a wrong clock, or a caller that waits long', () => {
  it('a counter that has expired is not followed by a smaller one, however far a clock is behind', async () => {
    const fenceTtlMs = 86_400_000
    // Scripts count whole milliseconds, and this test may take less than one.
    const nowUs = 1_000 * Math.floor((await bench.nowUs()) / 1_000)
    const first = await bench.granted('a', { proposal: nowUs - 1_000 * (fenceTtlMs - SKEW_MS) })
    await bench.release('a')
    await bench.redis.del(bench.keys.fence('r'))
    const proposal = nowUs - 30 * 1_000 * fenceTtlMs
    for (const resources of [['r'], ['r', 's']]) {
      const later = await bench.granted('b', { resources, proposal, fenceTtlMs })
      expect(later).toBeGreaterThan(first)
      expect(later).toBeLessThan(nowUs)
      await bench.release('b', { resources })
      await bench.redis.del(bench.keys.fence('r'), bench.keys.fence('s'))
    }
  })

  it('a key that outlasts the longest lease, after the clock was set back, is shortened', async () => {
    await bench.granted('a')
    await bench.redis.pexpire(bench.keys.lease('r'), 10 * MAX_LEASE_MS)
    expect((await bench.acquire('b'))[0]).toBe('taken')
    expect(await bench.ttl()).toBeLessThanOrEqual(MAX_LEASE_MS)
  })

  it("leaves a waiter's place for no longer than the longest lease", async () => {
    await bench.granted('a')
    await bench.acquire('b', { waitMs: Number.MAX_SAFE_INTEGER })
    for (const key of [bench.keys.waiters('r'), bench.keys.flag]) {
      const ttlMs = await bench.redis.pttl(key)
      expect(ttlMs).toBeGreaterThan(0)
      expect(ttlMs).toBeLessThanOrEqual(MAX_LEASE_MS)
    }
  })
})
