/** Every answer of the scripts that extend, heal and release, on a real server. */
import { describe, expect, it } from 'vitest'
import { until } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { MAX_LEASE_MS, useScriptBench } from './script-bench.ts'

assertNoLeaks()
const bench = useScriptBench()

describe('extend', () => {
  it('extended: for longer, and never shorter', async () => {
    const counter = await bench.granted('a', { leaseMs: 5_000 })
    expect(await bench.extend('a', counter, { leaseMs: 20_000 })).toEqual(['extended'])
    expect(await bench.ttl()).toBeGreaterThan(5_000)
    // An older or smaller extension that comes late.
    expect(await bench.extend('a', counter, { leaseMs: 100 })).toEqual(['extended'])
    expect(await bench.ttl()).toBeGreaterThan(5_000)
  })

  it('extended: several resources, none for a shorter time', async () => {
    const resources = ['r', 's']
    const counter = await bench.granted('a', { resources, leaseMs: 20_000 })
    expect(await bench.extend('a', counter, { resources, leaseMs: 100 })).toEqual(['extended'])
    for (const resource of resources) {
      expect(await bench.redis.pttl(bench.keys.lease(resource))).toBeGreaterThan(5_000)
    }
  })

  it('extended: several resources for longer, each with the fencing token as counter', async () => {
    const resources = ['r', 's']
    const counter = await bench.granted('a', { resources, leaseMs: 5_000 })
    const terms = { resources, leaseMs: 20_000 }
    expect(await bench.extend('a', counter + 4, terms)).toEqual(['extended'])
    for (const resource of resources) {
      expect(await bench.ttl(resource)).toBeGreaterThan(5_000)
      expect(await bench.counter(resource)).toBe(String(counter + 4))
    }
  })

  it('extended: the counter becomes the fencing token and lives on', async () => {
    const counter = await bench.granted('a')
    await bench.redis.pexpire(bench.keys.fence('r'), 1_000)
    expect(await bench.extend('a', counter + 4)).toEqual(['extended'])
    expect(await bench.counter()).toBe(String(counter + 4))
    expect(await bench.redis.pttl(bench.keys.fence('r'))).toBeGreaterThan(1_000)
  })

  it('missing: the key is gone, and is not made again', async () => {
    const counter = await bench.granted('a')
    await bench.redis.del(bench.keys.lease('r'))
    expect(await bench.extend('a', counter)).toEqual(['missing'])
    expect(await bench.holder()).toBeNull()
  })

  it('lost: another token holds it', async () => {
    await bench.granted('a')
    await bench.release('a')
    // With the counter of the other one: it is the key that is not mine.
    const counter = await bench.granted('b', { leaseMs: 5_000 })
    expect(await bench.extend('a', counter, { leaseMs: 20_000 })).toEqual(['lost', 'b'])
    expect(await bench.ttl()).toBeLessThanOrEqual(5_000)
  })

  it('lost: another client was granted since, even where the key is mine again or gone', async () => {
    const counter = await bench.granted('a', { leaseMs: 5_000 })
    await bench.setCounter(counter + 1)
    expect(await bench.extend('a', counter, { leaseMs: 20_000 })).toEqual(['lost', 'a'])
    expect(await bench.ttl()).toBeLessThanOrEqual(5_000)
    await bench.redis.del(bench.keys.lease('r'))
    expect(await bench.extend('a', counter)).toEqual(['lost', ''])
    expect(await bench.counter()).toBe(String(counter + 1))
  })

  it('missing, lost: where that is so for one of several resources, none is extended', async () => {
    const resources = ['x', 'y']
    const counter = await bench.granted('a', { resources, leaseMs: 5_000 })
    await bench.redis.del(bench.keys.lease('y'))
    const terms = { resources, leaseMs: 20_000 }
    expect(await bench.extend('a', counter, terms)).toEqual(['missing'])
    await bench.setCounter(counter + 1, 'y')
    expect(await bench.extend('a', counter, terms)).toEqual(['lost', ''])
    expect(await bench.ttl('x')).toBeLessThanOrEqual(5_000)
  })

  it('unenrolled', async () => {
    const counter = await bench.granted('a', { leaseMs: 5_000 })
    const terms = { runId: 'another-run', leaseMs: 20_000 }
    expect(await bench.extend('a', counter, terms)).toEqual(['unenrolled'])
    expect(await bench.ttl()).toBeLessThanOrEqual(5_000)
  })
})

describe('heal', () => {
  it('healed: where the resource is free, with the fencing token as counter', async () => {
    expect(await bench.heal('a', 7, { leaseMs: 5_000 })).toEqual(['healed'])
    expect(await bench.holder()).toBe('a')
    expect(await bench.counter()).toBe('7')
    const ttl = await bench.ttl()
    expect(ttl).toBeGreaterThan(0)
    expect(ttl).toBeLessThanOrEqual(5_000)
  })

  it('lost: another holds it', async () => {
    const counter = await bench.granted('b')
    // Also with a counter that no later grant has passed.
    for (const own of [7, counter]) {
      expect(await bench.heal('a', own)).toEqual(['lost', 'b'])
      expect(await bench.holder()).toBe('b')
    }
    expect(await bench.counter()).toBe(String(counter))
  })

  it('lost: the resource is free, and another client was granted since', async () => {
    await bench.setCounter(8)
    expect(await bench.heal('a', 7)).toEqual(['lost', ''])
    expect([await bench.holder(), await bench.counter()]).toEqual([null, '8'])
  })

  it('healed: what is missing of several resources, and nothing is made shorter', async () => {
    const resources = ['x', 'y']
    const counter = await bench.granted('a', { resources, leaseMs: 20_000 })
    await bench.redis.del(bench.keys.lease('y'))
    expect(await bench.heal('a', counter, { resources, leaseMs: 5_000 })).toEqual(['healed'])
    expect([await bench.holder('x'), await bench.holder('y')]).toEqual(['a', 'a'])
    expect(await bench.ttl('x')).toBeGreaterThan(5_000)
    expect(await bench.ttl('y')).toBeLessThanOrEqual(5_000)
  })

  it('healed: a key that is still there is made longer; no tombstone without a quarantine', async () => {
    const counter = await bench.granted('a', { leaseMs: 5_000 })
    expect(await bench.heal('a', counter, { leaseMs: 20_000 })).toEqual(['healed'])
    expect(await bench.ttl()).toBeGreaterThan(5_000)
    expect(await bench.redis.exists(bench.keys.tombstone('a'))).toBe(0)
  })

  it('healed: also where others wait for the resource', async () => {
    const counter = await bench.granted('a')
    await bench.acquire('b', { waitMs: 5_000 })
    await bench.redis.del(bench.keys.lease('r'))
    expect(await bench.heal('a', counter)).toEqual(['healed'])
    expect(await bench.holder()).toBe('a')
  })

  it('lost: where one of several resources is held by another, none is healed', async () => {
    await bench.granted('b', { resources: ['y'] })
    expect(await bench.heal('a', 7, { resources: ['x', 'y'] })).toEqual(['lost', 'b'])
    expect(await bench.holder('x')).toBeNull()
  })

  it('healed: within a quarantine, without a vote until its end', async () => {
    await bench.redis.hset(bench.keys.master, 'votesInMs', 20_000)
    expect(await bench.heal('a', 5)).toEqual(['healed'])
    // The tombstone outlives the key, however long the quarantine lasts.
    for (let extension = 0; extension < 2; extension++) {
      await bench.redis.pexpire(bench.keys.tombstone('a'), 5_000)
      expect(await bench.extend('a', 5)).toEqual(['healed'])
      const left = await bench.redis.pttl(bench.keys.tombstone('a'))
      expect(left).toBeGreaterThan(await bench.ttl())
      expect(left).toBeGreaterThan(MAX_LEASE_MS)
    }
    await bench.redis.hset(bench.keys.master, 'votesInMs', 0)
    expect(await bench.extend('a', 5)).toEqual(['extended'])
  })

  it('abandoned: the lease was released while the heal was on its way', async () => {
    await bench.release('a', { tombstoneMs: 60_000 })
    expect(await bench.heal('a', 7)).toEqual(['abandoned'])
    expect(await bench.holder()).toBeNull()
  })

  it('unenrolled', async () => {
    expect(await bench.heal('a', 7, { runId: 'another-run' })).toEqual(['unenrolled'])
    expect(await bench.holder()).toBeNull()
  })
})

describe('release', () => {
  it("released: the holder's own keys and no others; again, none", async () => {
    const resources = ['x', 'y', 'z']
    const counter = await bench.granted('a', { resources: ['x', 'z'] })
    await bench.granted('b', { resources: ['y'] })
    expect(await bench.release('a', { resources })).toEqual(['released'])
    expect(await bench.holder('y')).toBe('b')
    expect(await bench.release('a', { resources })).toEqual(['released'])
    // The counters stay: the next grant must be larger.
    expect(await bench.counter('x')).toBe(String(counter))
  })

  it('leaves a tombstone on request, for that token and with an expiry', async () => {
    await bench.granted('a')
    const tombstone = (): Promise<number> => bench.redis.pttl(bench.keys.tombstone('a'))
    expect(await bench.release('a')).toEqual(['released'])
    expect(await tombstone()).toBe(-2)
    expect(await bench.release('a', { tombstoneMs: 60_000 })).toEqual(['released'])
    expect(await tombstone()).toBeGreaterThan(0)
    expect(await tombstone()).toBeLessThanOrEqual(60_000)
  })

  it('is announced only to waiters: the release, the next waiters, the resource', async () => {
    const listener = bench.redis.duplicate()
    const heard: string[] = []
    listener.on('message', (_channel: string, message: string) => heard.push(message))
    await listener.subscribe(bench.keys.releases)
    const resources = ['x', 'y with spaces', 'z']
    await bench.granted('token-of-a', { resources })
    for (const waiter of ['w1', 'w2', 'w3', 'w4', 'w5', 'w6']) {
      await bench.acquire('b', { resources: ['y with spaces'], waitMs: 5_000, waiter })
      // Places are as old as their milliseconds.
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    await bench.withdraw('w2', resources)
    await bench.release('token-of-a', { resources, graceMs: 10 })
    await bench.redis.publish(bench.keys.releases, 'the end')
    await until('everything is heard', () => heard.includes('the end'))
    expect(heard).toEqual(['token-of w1,w3,w4,w5 y with spaces', 'the end'])
    listener.disconnect()
  })

  it('of an attempt that was refused wakes no waiter: they would wake each other', async () => {
    await bench.granted('a')
    await bench.acquire('b', { waitMs: 5_000 })
    const published = async (): Promise<string | undefined> =>
      /cmdstat_publish:calls=(\d+)/.exec(await bench.redis.info('commandstats'))?.[1]
    const before = await published()
    expect(await bench.release('a')).toEqual(['released'])
    expect(await published()).toBe(before)
  })

  it('ends the place in the line under which the holder waited, before it names the next', async () => {
    await bench.granted('a')
    for (const token of ['b', 'c']) {
      await bench.acquire(token, { waitMs: 20_000 })
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    await bench.release('a', { graceMs: 10_000 })
    await bench.granted('b', { waitMs: 20_000 })
    expect(await bench.places()).toEqual(['b-waits', 'c-waits'])
    await bench.release('b', { graceMs: 10_000, waiter: 'b-waits' })
    expect(await bench.places()).toEqual(['c-waits'])
    expect(await bench.redis.get(bench.keys.next('r'))).toBe('c-waits')
    // Also where it was not granted.
    await bench.release('nobody', { waiter: 'c-waits' })
    expect(await bench.places()).toEqual([])
  })

  it("deletes all keys also where the waiters' key has another type", async () => {
    const resources = ['x', 'y']
    await bench.granted('a', { resources })
    await bench.redis.mset(bench.keys.waiters('x'), 'no line', bench.keys.flag, '1')
    await expect(bench.release('a', { resources, waiter: 'a-waits' })).rejects.toThrow('WRONGTYPE')
    expect(await bench.redis.exists(resources.map((resource) => bench.keys.lease(resource)))).toBe(
      0,
    )
  })

  it('needs no enrolment: the key must go also on an unknown server', async () => {
    await bench.granted('a')
    await bench.redis.del(bench.keys.master)
    expect(await bench.release('a')).toEqual(['released'])
  })
})
