/**
 * What one Redlock offers beyond a single lease: several resources, slots, reentrancy, hand over,
 * wake-ups.
 */
import type { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { systemClock, type Clock } from '../../src/clock.ts'
import {
  LeaseLostError,
  listen,
  RedlockClosedError,
  type Lease,
  type LeaseOptions,
  type Redlock,
} from '../../src/index.ts'
import { slotNames } from '../../src/lock/slots.ts'
import { TOKENS_PER_GRANT } from '../../src/redlock/verbs.ts'
import { granted, isGranted, until, useFleet } from '../fixtures.ts'

const fixture = useFleet({ masters: 5 })

const master = (index: number): Redis => fixture.redis(fixture.fleet.masters[index])
const allMasters = (): Redis[] => [0, 1, 2, 3, 4].map(master)

/** Until so many clients wait for `a` on every master. */
async function untilWaiting(count: number, limitMs?: number): Promise<void> {
  const key = `${fixture.namespace}:wait:a`
  await untilEverywhere(`${count} wait`, async (each) => (await each.zcard(key)) === count, limitMs)
}

/** Until so many clients hear of releases on every master. */
async function untilListening(count: number): Promise<void> {
  const channel = `${fixture.namespace}:released`
  await untilEverywhere(`${count} listen`, async (client) => {
    return Number((await client.pubsub('NUMSUB', channel))[1]) === count
  })
}

async function untilEverywhere(
  what: string,
  isSo: (client: Redis) => Promise<boolean>,
  limitMs?: number,
): Promise<void> {
  const clients = allMasters()
  await until(what, async () => (await Promise.all(clients.map(isSo))).every(Boolean), limitMs)
}

describe('several resources', () => {
  test('are granted together, under one fencing token above all of their counters', async () => {
    const redlock = await fixture.redlock()
    const before = await granted(redlock, 'account:b')
    await before.release()
    const lease = await redlock.acquire(['account:b', 'account:a', 'account:b'])
    expect(lease.resources).toEqual(['account:a', 'account:b'])
    expect(lease.resource).toBe('account:a + account:b')
    expect(lease.fencingToken).toBeGreaterThan(before.fencingToken)
    expect(await isGranted(redlock, 'account:a')).toBe(false)
    expect(await isGranted(redlock, 'account:b')).toBe(false)
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
    await lease.release()
    const after = await granted(redlock, 'account:a')
    expect(after.fencingToken).toBeGreaterThan(lease.fencingToken)
  })

  test('crosswise transfers never deadlock', async () => {
    const redlock = await fixture.redlock()
    const accounts = ['a', 'b', 'c', 'd']
    let transfers = 0
    const inside = new Set<string>()
    const transfer = async (from: string, to: string): Promise<void> => {
      await redlock.using([from, to], { waitMs: 15_000 }, async () => {
        expect(inside.has(from) || inside.has(to)).toBe(false)
        inside.add(from).add(to)
        await new Promise((resolve) => setTimeout(resolve, 1))
        inside.delete(from)
        inside.delete(to)
        transfers++
      })
    }
    const pairs = accounts.flatMap((from) =>
      accounts.filter((to) => to !== from).map((to) => [from, to] as const),
    )
    await Promise.all(pairs.map(([from, to]) => transfer(from, to)))
    expect(transfers).toBe(12)
  })
})

describe('slots', () => {
  test('admit that number of holders and no more', async () => {
    const redlock = await fixture.redlock()
    const options = { slots: 3 }
    const leases = [
      await granted(redlock, 'gpu', options),
      await granted(redlock, 'gpu', options),
      await granted(redlock, 'gpu', options),
    ]
    expect(new Set(leases.map(({ resource }) => resource)).size).toBe(3)
    expect(await redlock.tryAcquire('gpu', options)).toMatchObject({ status: 'taken' })
    const waiting = redlock.acquire('gpu', { ...options, waitMs: 60_000 })
    const places = (slot: number): Promise<number> =>
      master(4).zcard(`${fixture.namespace}:wait:${leases[slot]?.resource}`)
    await until('it is in line for each', async () => {
      const all = await Promise.all([0, 1, 2].map(places))
      return all.every((count) => count === 1)
    })
    await leases[1]?.release()
    const lease = await waiting
    expect(lease.resource).toBe(leases[1]?.resource)
    // What it holds it leaves with its release; it does not stay in line for the others.
    await until('it waits for the others no more', async () => {
      return (await places(0)) + (await places(2)) === 0
    })
    await lease.release()
    await until('nobody is in line', async () => (await places(1)) === 0)
  })

  test('leave no place where the first one was taken', async () => {
    const clock = { ...systemClock, random: () => 0 }
    const redlock = await fixture.redlock({ clock, leaseMs: 60_000, maxLeaseMs: 60_000 })
    const first = await redlock.acquire('gpu', { slots: 2 })
    const second = await redlock.acquire('gpu', { slots: 2 })
    const line = `${fixture.namespace}:wait:${first.resource}`
    await until('it is in no line', async () => (await master(0).zcard(line)) === 0, 20_000)
    await Promise.all([first.release(), second.release()])
  })

  test('of several resources are taken one of each, all or none', async () => {
    const redlock = await fixture.redlock()
    const both = ['customer:1', 'plan:gold']
    const slots = { 'plan:gold': 3 }
    const leases = [
      await granted(redlock, 'plan:gold', { slots }),
      await granted(redlock, 'plan:gold', { slots }),
      await granted(redlock, both, { slots }),
    ]
    expect(leases[2]?.resources).toEqual(['customer:1', expect.stringMatching(/^plan:gold#[123]$/)])
    expect(await redlock.tryAcquire('plan:gold', { slots })).toMatchObject({ status: 'taken' })
    const refused = await redlock.tryAcquire(['customer:2', 'plan:gold'], { slots })
    expect(refused).toMatchObject({
      status: 'taken',
      resource: expect.stringMatching(/^plan:gold#[123]$/) as string,
    })
    await leases[0]?.release()
    // The one free slot is found, and the resource that is held is named.
    expect(await redlock.tryAcquire(both, { slots })).toMatchObject({ resource: 'customer:1' })
    const free = await granted(redlock, ['customer:2', 'plan:gold'], { slots })
    expect(free.resources).toContain(leases[0]?.resource)
  })

  test('the one free slot of each of two resources is found', async () => {
    const redlock = await fixture.redlock()
    const slots = { 'plan:gold': 4, upstream: 3 }
    for (let tries = 0; tries < 5; tries++) {
      const plan = await Promise.all([1, 2, 3].map(() => granted(redlock, 'plan:gold', { slots })))
      const upstream = await Promise.all([1, 2].map(() => granted(redlock, 'upstream', { slots })))
      const both = await granted(redlock, ['plan:gold', 'upstream'], { slots })
      expect(both.resources).toHaveLength(2)
      await Promise.all([...plan, ...upstream, both].map((lease) => lease.release()))
    }
  })

  test('are a number, or a map of numbers', async () => {
    const redlock = await fixture.redlock()
    await expect(redlock.tryAcquire('a', { slots: { a: 0 } })).rejects.toThrow(/`slots\["a"\]`/)
    await expect(redlock.tryAcquire('a', { slots: [2] as never })).rejects.toThrow(/`slots`/)
    await expect(redlock.tryAcquire('a', { slots: 1.5 })).rejects.toThrow(/`slots`/)
  })
})

describe('using inside using', () => {
  test('joins the lease, and the last user releases it', async () => {
    const redlock = await fixture.redlock()
    let outlives: Promise<unknown> = Promise.resolve()
    let end: () => void = () => undefined
    const mayEnd = new Promise<void>((resolve) => {
      end = resolve
    })
    await redlock.using(['a', 'b'], {}, async (outer) => {
      await redlock.using('a', {}, (inner) => {
        expect(inner).toBe(outer)
      })
      expect(outer.remainingMs()).toBeGreaterThan(0)
      outlives = redlock.using('b', {}, () => mayEnd)
    })
    expect(await isGranted(redlock, 'a')).toBe(false)
    end()
    await outlives
    await until('it is free', () => isGranted(redlock, 'a'))
  })

  test('does not wait for itself: a wider inner call says what to do', async () => {
    const redlock = await fixture.redlock()
    await redlock.using('a', {}, async () => {
      const wider = redlock.using(['a', 'b'], {}, () => 'never')
      await expect(wider).rejects.toThrow(/take all of them in the outer call/)
    })
  })

  test('in another context is another holder', async () => {
    const redlock = await fixture.redlock()
    let inside = 0
    const work = async (): Promise<void> => {
      await redlock.using('a', {}, async () => {
        expect(++inside).toBe(1)
        await new Promise((resolve) => setTimeout(resolve, 5))
        inside--
      })
    }
    await Promise.all([work(), work(), work()])
  })

  test('of a lost lease throws instead of running', async () => {
    const redlock = await fixture.redlock()
    await redlock.using('a', {}, async (lease) => {
      for (let index = 0; index < 5; index++) {
        await master(index).del(`${fixture.namespace}:lease:a`)
      }
      await expect(lease.extend()).rejects.toThrow(LeaseLostError)
      await expect(redlock.using('a', {}, () => 'never')).rejects.toThrow(LeaseLostError)
    })
  })
})

/** The lease of the next one. */
function successorOf(redlock: Redlock, lease: Lease, options?: Omit<LeaseOptions, 'slots'>): Lease {
  const next = redlock.handOver(lease, options)
  if (next === undefined) throw new Error('it was not handed over')
  return next
}

describe('hand over', () => {
  test('gives the successor a larger token, and lets no client in between', async () => {
    const redlock = await fixture.redlock()
    const rival = await fixture.redlock()
    const first = await granted(redlock, 'a')
    let lease = first
    for (let turn = 0; turn < 50; turn++) {
      await lease.extend()
      const next = successorOf(redlock, lease)
      expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
      expect(lease.remainingMs()).toBe(0)
      expect(await isGranted(rival, 'a')).toBe(false)
      lease = next
    }
    expect(first.signal.aborted).toBe(false)
    expect(redlock.status().leases).toBe(1)
    await lease.release()
    await until('it is free', () => isGranted(rival, 'a'))
  })

  test('of a new lease asks no master, and lengthens nothing', async () => {
    const asked: string[] = []
    const stop = listen({
      on: {
        'master:voted': ({ question }, namespace) => {
          if (namespace === fixture.namespace) asked.push(question)
        },
      },
    })
    fixture.defer(stop)
    const redlock = await fixture.redlock()
    const first = await granted(redlock, 'a')
    await until('all have answered', () => asked.length === 5)
    const second = successorOf(redlock, first)
    expect(asked).toHaveLength(5)
    expect(second.token).toBe(first.token)
    expect(second.fencingToken).toBe(first.fencingToken + 1)
    expect(second.trustedUntil).toBe(first.trustedUntil)
    expect(redlock.status().leases).toBe(1)

    await first.release() // It is over, and takes nothing away from the next one.
    await expect(first.extend()).rejects.toThrow(LeaseLostError)
    expect(await isGranted(redlock, 'a')).toBe(false)
    expect(await second.extend()).toMatchObject({ status: 'extended' })
    expect(second.trustedUntil).toBeGreaterThan(first.trustedUntil)
    await second.release()
    expect(second.remainingMs()).toBe(0)
    await until('it is free', () => isGranted(redlock, 'a'))
  })

  test('has a token for each, smaller than that of the next holder', async () => {
    const redlock = await fixture.redlock()
    const rival = await fixture.redlock()
    const first = await granted(redlock, 'a')
    let lease = first
    for (let turn = 1; turn < TOKENS_PER_GRANT; turn++) {
      lease = successorOf(redlock, lease)
      expect(lease.fencingToken).toBe(first.fencingToken + turn)
    }
    expect(lease.token).toBe(first.token)
    // The last token is used up. The counters on the masters are behind these tokens, and clocks
    // too.
    expect(redlock.handOver(lease)).toBeUndefined()
    lease.assertHeld()
    await lease.release()
    const next = await redlock.acquire('a')
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
    await next.release()
    await until('it is free', () => isGranted(redlock, 'a'))
    const far = await granted(rival, 'a')
    // Whoever proposes a token of the past is granted one after all that may have been used.
    for (let index = 0; index < 5; index++) {
      const ahead = String(far.fencingToken + 1_000_000)
      await master(index).set(`${fixture.namespace}:fence:a`, ahead)
    }
    await far.release()
    const ahead = await granted(rival, 'a')
    expect(ahead.fencingToken).toBe(far.fencingToken + 1_000_000 + TOKENS_PER_GRANT)
  })

  test('of another length is declined, and the lease is as it was', async () => {
    const redlock = await fixture.redlock()
    const lease = await granted(redlock, 'a')
    expect(redlock.handOver(lease, { leaseMs: lease.leaseMs - 1 })).toBeUndefined()
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
  })

  test('of a renewed lease renews the rest, and is declined when half of it is gone', async () => {
    await fixture.undisturbed(async () => {
      const redlock = await fixture.redlock({ leaseMs: 3_000 })
      const lease = await granted(redlock, 'a')
      await until('a third is gone', () => lease.remainingMs() < 1_900)
      const kept = successorOf(redlock, lease, { autoExtend: true })
      expect(kept.token).toBe(lease.token)
      expect(kept.trustedUntil).toBe(lease.trustedUntil)
      await until('it was renewed', () => kept.trustedUntil > lease.trustedUntil)
      const last = successorOf(redlock, kept)
      await until('half is gone', () => last.remainingMs() < 1_500)
      expect(redlock.handOver(last, { autoExtend: true })).toBeUndefined()
      last.assertHeld()
    })
  })

  test('begins anew to count how long and how often', async () => {
    const redlock = await fixture.redlock()
    const lease = await granted(redlock, 'a', { maxExtensions: 1 })
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
    expect(await lease.extend()).toMatchObject({ status: 'limit', option: 'maxExtensions' })
    const next = successorOf(redlock, lease, { maxExtensions: 1 })
    expect(next.token).toBe(lease.token)
    expect(await next.extend()).toMatchObject({ status: 'extended' })
    expect(await next.extend()).toMatchObject({ status: 'limit' })
  })

  test('of a lease that is over throws', async () => {
    const redlock = await fixture.redlock()
    const lease = await granted(redlock, 'a')
    await lease.release()
    expect(() => redlock.handOver(lease)).toThrow(LeaseLostError)
  })
})

/**
 * None of its delays ends, so that nothing but an announcement can wake a waiter, however long the
 * machine stands still.
 */
const WOKEN_ONLY: Clock = {
  ...systemClock,
  after: (delayMs, run) =>
    delayMs > 1 ? { cancel: () => undefined } : systemClock.after(delayMs, run),
}

describe('waiting', () => {
  test('ends at the announcement of the release', async () => {
    const redlock = await fixture.redlock()
    const waiter = await fixture.redlock({ clock: WOKEN_ONLY })
    const channel = `${fixture.namespace}:released`
    const masters = allMasters()
    for (let turn = 0; turn < 10; turn++) {
      const lease = await granted(redlock, 'a')
      const waiting = waiter.acquire('a', { waitMs: 10_000 })
      // The holder and the waiter may have raced for a minority; a quorum of marks is what counts.
      await until('it waits and listens on a quorum', async () => {
        const marks = await Promise.all(
          masters.map(async (client) => {
            const [, listeners] = await client.pubsub('NUMSUB', channel)
            const marked = await client.exists(`${fixture.namespace}:wait:a`)
            return Number(listeners === 1 && marked === 1)
          }),
        )
        return marks.reduce((sum, mark) => sum + mark, 0) >= 3
      })
      await lease.release()
      await (await waiting).release()
    }
  })

  test('of the client that releases needs no further announcement', async () => {
    const holder = await fixture.redlock()
    const waiter = await fixture.redlock({ clock: WOKEN_ONLY })
    const lease = await granted(holder, 'a')
    const first = waiter.acquire('a', { waitMs: 10_000 })
    await untilWaiting(1)
    const second = waiter.acquire('a', { waitMs: 10_000 })
    await untilWaiting(2)
    await untilListening(1)
    await lease.release()
    const turn = await first
    for (const client of allMasters()) {
      fixture.defer(() => client.acl('SETUSER', 'default', '+subscribe'))
      await client.acl('SETUSER', 'default', '-subscribe')
      await client.client('KILL', 'TYPE', 'PUBSUB')
    }
    await turn.release()
    await (await second).release()
  })

  test('of a client that closes ends at once, and leaves its place', async () => {
    const options = { leaseMs: 60_000, maxLeaseMs: 60_000 }
    const holder = await fixture.redlock(options)
    const waiter = await fixture.redlock({ ...options, clock: WOKEN_ONLY })
    const lease = await granted(holder, 'a')
    const waiting = expect(waiter.acquire('a')).rejects.toThrow(RedlockClosedError)
    await untilWaiting(1)
    await waiter.close()
    await waiting
    await untilWaiting(0, 20_000)
    await lease.release()
  })

  test('of a client that closes leaves no place that its first request takes meanwhile', async () => {
    const options = { leaseMs: 60_000, maxLeaseMs: 60_000 }
    const [holder, waiter] = [await fixture.redlock(options), await fixture.redlock(options)]
    const leases = [await granted(holder, 'a'), await granted(holder, 'b#1')]
    const places = async (): Promise<number> => {
      const keys = ['a', 'b#1', 'b#2'].map((name) => `${fixture.namespace}:wait:${name}`)
      const counts = [0, 1, 2, 3, 4].flatMap((at) => keys.map((key) => master(at).zcard(key)))
      return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0)
    }
    const refused = [waiter.acquire('a'), waiter.acquire('b', { slots: 2 })].map((acquiring) =>
      expect(acquiring).rejects.toThrow(RedlockClosedError),
    )
    await waiter.close()
    await Promise.all(refused)
    await until('it has no place', async () => (await places()) === 0, 20_000)
    await Promise.all(leases.map((lease) => lease.release()))
  })

  test('is known to who asks for what clients wait', async () => {
    const [redlock, waiter] = [await fixture.redlock(), await fixture.redlock()]
    const leases = [await granted(redlock, 'a'), await granted(redlock, 'b')]
    const waited = (): Promise<readonly string[] | undefined> => redlock.waitedFor(['a', 'b', 'c'])
    expect(await waited()).toEqual([])
    const waiting = waiter.acquire('b', { waitMs: 10_000 })
    // Each time another master is asked.
    await until('all masters say so', async () => {
      const answers = await Promise.all([0, 1, 2, 3, 4].map(waited))
      return answers.every((names) => names?.join() === 'b')
    })
    await Promise.all(leases.map((lease) => lease.release()))
    await (await waiting).release()
    expect(await waited()).toEqual([])
  })

  test('is known without the place of a holder that itself waited', async () => {
    const [first, redlock] = [await fixture.redlock(), await fixture.redlock()]
    const lease = await granted(first, 'a')
    const waiting = redlock.acquire('a', { waitMs: 10_000 })
    await untilWaiting(1)
    await lease.release()
    const waited = (): Promise<readonly string[] | undefined> => redlock.waitedFor(['a'])
    const held = await waiting
    const key = `${fixture.namespace}:wait:a`
    const places = await Promise.all(allMasters().map((client) => client.zcard(key)))
    expect(Math.max(...places)).toBeGreaterThan(0)
    expect(await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map(waited))).toEqual(Array(8).fill([]))
    const passed = redlock.handOver(held)
    const another = first.acquire('a', { waitMs: 10_000 })
    await until('it says that another one waits', async () => (await waited())?.join() === 'a')
    await passed?.release()
    await (await another).release()
  })

  test('is known of all leases of a worker, and of slots of the longest name', async () => {
    const redlock = await fixture.redlock()
    const [slot = ''] = slotNames('x'.repeat(512), 1_000).slice(-1)
    const lease = await granted(redlock, slot)
    const names = Array.from({ length: 1_000 }, (_, index) => `r${index}`)
    expect(await redlock.waitedFor([slot, ...names])).toEqual([])
    await lease.release()
  })

  test('is in the order of arrival, also for a client that comes when the resource is free', async () => {
    // The lease of the holder lasts until all wait.
    const options = { clock: WOKEN_ONLY, leaseMs: 60_000, maxLeaseMs: 60_000 }
    const holder = await fixture.redlock(options)
    const lease = await granted(holder, 'a')
    const order: number[] = []
    const waiting: Promise<void>[] = []
    for (let index = 0; index < 6; index++) {
      const redlock = await fixture.redlock(options)
      const waited = redlock.using('a', { waitMs: 60_000 }, async () => {
        order.push(index)
        await new Promise((resolve) => setTimeout(resolve, 5))
      })
      waiting.push(waited)
      await untilWaiting(index + 1)
    }
    await untilListening(6)
    await lease.release()
    // The holder again, at once: it is nearer than all that wait, and must not be asked before
    // them.
    await holder.using('a', { waitMs: 60_000 }, () => order.push(6))
    await Promise.all(waiting)
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6])
    await untilWaiting(0)
  })

  test('is in the order of the calls, where a master meets them in one millisecond', async () => {
    const options = { clock: WOKEN_ONLY, leaseMs: 60_000, maxLeaseMs: 60_000 }
    const [holder, redlock] = [await fixture.redlock(options), await fixture.redlock(options)]
    // One that does not listen yet goes again by itself.
    const first = await granted(holder, 'first')
    const waiter = redlock.acquire('first', { waitMs: 60_000 })
    await untilListening(1)
    await first.release()
    await (await waiter).release()

    const lease = await granted(holder, 'a')
    const key = `${fixture.namespace}:lease:a`
    await untilEverywhere('it is held', async (client) => (await client.get(key)) !== null)
    const calls = Array.from({ length: 12 }, (_, index) => index)
    const order: number[] = []
    const waiting = calls.map((call) =>
      redlock.using('a', { waitMs: 60_000 }, () => order.push(call)),
    )
    await untilWaiting(12)
    await lease.release()
    await Promise.all(waiting)
    expect(order).toEqual(calls)
  })

  test('a dead waiter delays the others for a moment only', async () => {
    await fixture.undisturbed(async () => {
      const holder = await fixture.redlock()
      const lease = await granted(holder, 'a')
      for (const index of [0, 1, 2, 3, 4]) {
        await master(index).zadd(`${fixture.namespace}:wait:a`, Date.now() + 1_000, 'dead')
      }
      const waiting = (await fixture.redlock()).acquire('a', { waitMs: 20_000 })
      await until('both are in line', async () => {
        return (await master(4).zcard(`${fixture.namespace}:wait:a`)) === 2
      })
      const releasedAt = performance.now()
      await lease.release()
      await waiting
      // The one second for which it might sleep.
      expect(performance.now() - releasedAt).toBeLessThan(900)
    })
  })

  test.each([
    ['where no answer has come by then', { pauseMs: 200, handedOver: false }],
    ['of whoever it was handed over to', { pauseMs: 0, handedOver: true }],
  ])('ends on every master with the lease, %s', async (_case, { pauseMs, handedOver }) => {
    const holder = await fixture.redlock()
    const waiter = await fixture.redlock()
    const lease = await granted(holder, 'a')
    const waiting = waiter.acquire('a', { waitMs: 60_000 })
    await untilWaiting(1)
    if (pauseMs > 0) for (const index of [3, 4]) await master(index).client('PAUSE', pauseMs)
    await lease.release()
    const next = await waiting
    const last = handedOver ? successorOf(waiter, next) : next
    await last.release()
    await untilWaiting(0)
  })

  test('marks the resource only while a client waits, and the mark expires', async () => {
    const redlock = await fixture.redlock()
    const lease = await granted(redlock, 'a')
    const mark = `${fixture.namespace}:wait:a`
    await redlock.tryAcquire('a')
    expect(await master(0).exists(mark)).toBe(0)
    await expect(redlock.acquire('a', { waitMs: 100 })).rejects.toThrow()
    expect(await master(0).pttl(mark)).toBeLessThanOrEqual(100)
    await lease.release()
  })
})
