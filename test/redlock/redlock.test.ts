import { describe, expect, test } from 'vitest'
import { LeaseLostError, RedlockClosedError } from '../../src/index.ts'
import { granted, until, useFleet } from '../fixtures.ts'

const fixture = useFleet({ masters: 5 })

const leaseKey = (resource: string): string => `${fixture.namespace}:lease:${resource}`
const fenceKey = (resource: string): string => `${fixture.namespace}:fence:${resource}`

async function holders(resource: string): Promise<(string | null)[]> {
  return Promise.all(
    fixture.fleet.masters.map((server) => fixture.redis(server).get(leaseKey(resource))),
  )
}

describe('acquire', () => {
  test('puts one token on every master, and the loser learns the holder', async () => {
    const redlock = await fixture.redlock({ owner: 'web-3:4121' })
    const lease = await granted(redlock, 'customer:1')
    await until('all masters have it', async () =>
      (await holders('customer:1')).every((token) => token === lease.token),
    )
    const other = await redlock.tryAcquire('customer:1')
    expect(other).toMatchObject({ status: 'taken', resource: 'customer:1' })
    expect(other.status === 'taken' && other.holder).toMatch(/^web-3:4121 \(.{6}…\)$/)
    expect(redlock.status().leases).toBe(1)
  })

  test('a resource is taken: what is said of masters that were too slow to be counted', async () => {
    const redlock = await fixture.redlock()
    await granted(redlock, 'customer:1')
    for (const slow of fixture.fleet.masters.slice(3)) {
      await slow.freeze()
      fixture.defer(() => slow.thaw())
    }
    const other = await redlock.tryAcquire('customer:1')
    const answers = other.status === 'taken' ? other.answers : []
    expect(answers.map(({ answer }) => answer.replace(/ by .*/, ''))).toEqual([
      ...['taken', 'taken', 'taken', 'no answer yet', 'no answer yet'],
    ])
  })

  test('options that change between two calls count as they are', async () => {
    const redlock = await fixture.redlock()
    const options = { leaseMs: 1_000 }
    expect((await granted(redlock, 'customer:1', options)).leaseMs).toBe(1_000)
    options.leaseMs = 1_200
    expect((await granted(redlock, 'customer:2', options)).leaseMs).toBe(1_200)
    options.leaseMs = 1
    await expect(redlock.tryAcquire('customer:3', options)).rejects.toThrow(TypeError)
    const frozen = Object.freeze({ leaseMs: 1 })
    await expect(redlock.tryAcquire('customer:3', frozen)).rejects.toThrow(TypeError)
    await expect(redlock.tryAcquire('customer:3', frozen)).rejects.toThrow(TypeError)
  })

  test('counters that differ are levelled on a quorum before the lease counts', async () => {
    const redlock = await fixture.redlock()
    const ahead = (Date.now() + 60_000) * 1000
    const [first, second] = fixture.fleet.masters
    if (first === undefined || second === undefined) throw new Error('unreachable')
    await fixture.redis(first).set(fenceKey('customer:1'), String(ahead))
    await fixture.redis(second).set(fenceKey('customer:1'), String(ahead + 5))
    let lease = await granted(redlock, 'customer:1')
    // Which three masters decide is a race; whichever did, a quorum stores exactly the token …
    for (let turn = 0; turn < 5; turn++) {
      const counters = await Promise.all(
        fixture.fleet.masters.map((server) => fixture.redis(server).get(fenceKey('customer:1'))),
      )
      const exact = counters.filter((counter) => Number(counter) === lease.fencingToken)
      expect(exact.length).toBeGreaterThanOrEqual(3)
      // … and the next lease is above it.
      const before = lease.fencingToken
      await lease.release()
      lease = await redlock.acquire('customer:1')
      expect(lease.fencingToken).toBeGreaterThan(before)
    }
  })

  test('answers that came in time count after the process stood still', async () => {
    const redlock = await fixture.redlock({ masterTimeoutMs: 50 })
    const attempt = redlock.tryAcquire('stalled', { leaseMs: 5_000 })
    // The calls leave at the end of this turn, and the answers come in the next ones.
    await new Promise((resolve) => setImmediate(resolve))
    const until = performance.now() + 300
    while (performance.now() < until);
    expect((await attempt).status).toBe('granted')
  })

  test('so do the answers to one question, also where all masters seem silent', async () => {
    const redlock = await fixture.redlock({ masterTimeoutMs: 50 })
    const lease = await granted(redlock, 'stalled')
    const [inspection, attempt] = [redlock.inspect('stalled'), redlock.tryAcquire('another')]
    await new Promise((resolve) => setImmediate(resolve))
    const until = performance.now() + 1_200 // A master that is silent for a second is left.
    while (performance.now() < until);
    expect((await inspection).holder?.fencingToken).toBe(lease.fencingToken)
    expect((await attempt).status).toBe('granted')
  })
})

describe('a lease', () => {
  test('is lost at once when a majority of the masters no longer has it', async () => {
    const redlock = await fixture.redlock()
    const lease = await granted(redlock, 'customer:1')
    await until('it is everywhere', async () => (await holders('customer:1')).every(Boolean))
    for (const server of fixture.fleet.masters.slice(0, 3)) {
      await fixture.redis(server).del(leaseKey('customer:1'))
    }
    await expect(lease.extend()).rejects.toThrow(/majority of the masters no longer has it/)
    expect(lease.signal.aborted).toBe(true)
  })

  test('is not lost when two of five lost it and one is silent: the silent one may have it', async () => {
    const redlock = await fixture.redlock({ leaseMs: 3_000 })
    const lease = await granted(redlock, 'customer:1')
    await until('it is everywhere', async () => (await holders('customer:1')).every(Boolean))
    const [first, second, third] = fixture.fleet.masters
    for (const server of [first, second]) {
      if (server !== undefined) await fixture.redis(server).del(leaseKey('customer:1'))
    }
    await third?.kill()
    expect(await lease.extend()).toMatchObject({ status: 'unreachable' })
    expect(lease.remainingMs()).toBeGreaterThan(0)
  })

  test('is released once, everywhere, by any of release(), await using and close()', async () => {
    const redlock = await fixture.redlock()
    const lease = await granted(redlock, 'customer:1')
    await Promise.all([lease.release(), lease.release()])
    expect(lease.signal.aborted).toBe(false)
    {
      await using again = await redlock.acquire('customer:1')
      expect(again.remainingMs()).toBeGreaterThan(0)
    }
    await redlock.acquire('customer:1')
    await redlock.close()
    expect((await holders('customer:1')).every((token) => token === null)).toBe(true)
    await expect(redlock.tryAcquire('customer:1')).rejects.toThrow(RedlockClosedError)
  })

  test('that is granted while its Redlock closes is released, and its caller hears of it', async () => {
    const redlock = await fixture.redlock()
    const asking = redlock.tryAcquire('customer:1')
    const refused = expect(asking).rejects.toThrow(RedlockClosedError)
    await redlock.close()
    await refused
    expect((await holders('customer:1')).every((token) => token === null)).toBe(true)
  })

  test('that was lost before its signal was read has an aborted signal', async () => {
    const redlock = await fixture.redlock()
    const lease = await granted(redlock, 'customer:1', { leaseMs: 100 })
    await until('it is over', () => lease.remainingMs() === 0)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(() => {
      lease.assertHeld()
    }).toThrow(LeaseLostError)
    expect(lease.signal.aborted).toBe(true)
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
  })

  test('using() returns or throws what the routine does, also after a loss', async () => {
    const redlock = await fixture.redlock()
    const business = new Error('card declined')
    await expect(redlock.using('customer:1', {}, () => Promise.reject(business))).rejects.toBe(
      business,
    )
    const done = await redlock.using('customer:1', { leaseMs: 300 }, async (lease) => {
      // Again, because an extension may give a key back meanwhile.
      await until('it is lost', async () => {
        await Promise.all(
          fixture.fleet.masters.map((server) => fixture.redis(server).del(leaseKey('customer:1'))),
        )
        return lease.signal.aborted
      })
      return 'finished anyway'
    })
    expect(done).toBe('finished anyway')
  })
})

describe('the fleet', () => {
  test('a master that comes back empty does not vote for one maxLeaseMs, but is healed', async () => {
    const redlock = await fixture.redlock({ leaseMs: 1_000, maxLeaseMs: 1_500 })
    const lease = await granted(redlock, 'customer:1', { autoExtend: true })
    const [first] = fixture.fleet.masters
    if (first === undefined) throw new Error('unreachable')
    await first.restart({ keepData: false })
    const state = (): string | undefined => redlock.status().masters[0]?.state
    await until('it is quarantined', () => state() === 'quarantined')
    expect(await redlock.tryAcquire('customer:2')).toMatchObject({ status: 'granted' })
    expect(await fixture.redis(first).get(leaseKey('customer:2'))).toBeNull()
    await until(
      'the held lease is back on it',
      async () => (await fixture.redis(first).get(leaseKey('customer:1'))) === lease.token,
    )
    await until('it votes', () => state() === 'voting')
    await until('it grants', async () => {
      const next = await granted(redlock, 'customer:3')
      const has = (await fixture.redis(first).get(leaseKey('customer:3'))) === next.token
      await next.release()
      return has
    })
  })

  test('one master is enough for development', async () => {
    const [first] = fixture.fleet.masters
    if (first === undefined) throw new Error('unreachable')
    const redlock = await fixture.redlock({ masters: [first.url] })
    expect(redlock.quorum).toBe(1)
    await granted(redlock, 'customer:1')
    expect(await redlock.tryAcquire('customer:1')).toMatchObject({ status: 'taken' })
  })
})
