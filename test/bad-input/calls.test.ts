/**
 * Arguments of calls that cannot be right: a TypeError by name, and nothing is left on any master.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RedlockClosedError, type AcquireOptions, type Redlock } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { Harness } from '../hazards/harness.ts'
import { assertNoLeaks } from '../support/leaks.ts'

assertNoLeaks()
let fleet: Fleet
let harness: Harness
let redlock: Redlock

beforeAll(async () => {
  fleet = await startFleet({ masters: 1, queue: false })
  harness = await Harness.open(fleet)
  redlock = await harness.client({ direct: true })
})

afterAll(async () => {
  await harness[Symbol.asyncDispose]()
  await fleet.close()
})

/**
 * All three ways to get a lease. They reject and do not throw, because a caller may have only a
 * `catch`.
 */
function calls(resource: unknown, options: AcquireOptions): readonly Promise<unknown>[] {
  const name = resource as string
  return [
    redlock.tryAcquire(name, options),
    redlock.acquire(name, options),
    redlock.using(name, options, () => undefined),
  ]
}

async function expectRefused(
  refused: readonly Promise<unknown>[],
  ...parts: readonly string[]
): Promise<void> {
  for (const call of refused) {
    const error: unknown = await call.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(TypeError)
    for (const part of parts) expect(String(error)).toContain(part)
  }
  expect(redlock.status().leases).toBe(0)
}

it.each([
  ['nothing', undefined, '`undefined`'],
  ['an empty string', '', "`''`"],
  ['too long a string', 'x'.repeat(513), '(513 characters)'],
  ['half a character', 'caf\ud83d', 'a string of whole characters'],
  ['half a character among others', ['a', '\udc00'], 'a string of whole characters'],
  ['a number', 42, '`42` (number)'],
  ['an empty list', [], 'a value of type array'],
  ['a list with something else in it', ['a', null], '`null`'],
])('a resource that is %s', async (_what, resource, value) => {
  await expectRefused(calls(resource, {}), 'Expected `resource` to be a string', value)
})

it.each([
  ['leaseMs', { leaseMs: 30_001 }, 'at most `maxLeaseMs` (30000', '`30001`'],
  ['leaseMs', { leaseMs: 1_000.5 }, 'an integer', '`1000.5`'],
  ['leaseMs', { leaseMs: 99 }, 'an integer from 100', '`99`'],
  ['maxHoldMs', { maxHoldMs: 9_999 }, 'an integer >= 10000', '`9999`'],
  ['maxExtensions', { maxExtensions: 0.5 }, 'an integer >= 0', '`0.5`'],
  ['slots', { slots: 0 }, 'an integer from 1', '`0`'],
])('%s of %o', async (name, options, expected, value) => {
  await expectRefused(calls('r', options), `Expected \`${name}\` to be `, expected, value)
})

it('refuses an option that `bootstrap` does not have', async () => {
  const more = { newFleet: true, force: true } as const
  await expectRefused([redlock.bootstrap(more)], 'There is no option `force`. There are newFleet')
})

it("refuses a duration instead of options, or under another library's name", async () => {
  const duration = 5_000 as unknown as AcquireOptions
  await expectRefused(calls('r', duration), 'Expected `options` to be an object', '`5000` (number)')
  const ttl = { ttl: 5_000 } as AcquireOptions
  await expectRefused(calls('r', ttl), 'There is no option `ttl`. There are leaseMs, ')
  await redlock.using('r', { ttl: undefined } as AcquireOptions, () => undefined)
  const unheeded = redlock.tryAcquire('r', { waitMs: 5_000 } as AcquireOptions)
  await expectRefused([unheeded], 'There is no option `waitMs`')
})

it('refuses a routine in the place of the options', async () => {
  const using = redlock.using.bind(redlock) as (...args: readonly unknown[]) => Promise<unknown>
  const value = 'a value of type function'
  await expectRefused([using('r', () => 1)], 'Expected `options` to be an object', value)
  await expectRefused([using('r', {})], 'Expected `routine` to be a function of the lease, after')
})

it.each([[-1], [0.5], [Number.NaN], [Infinity]])('a waitMs of %s', async (waitMs) => {
  const waiting = [
    redlock.acquire('r', { waitMs }),
    redlock.using('r', { waitMs }, () => undefined),
  ]
  await expectRefused(waiting, 'Expected `waitMs` to be an integer >= 0', `\`${waitMs}\``)
})

it('refuses a controller in place of its signal', async () => {
  const signal = new AbortController() as unknown as AbortSignal
  await expect(redlock.acquire('r', { signal })).rejects.toThrow('Expected `signal` to be')
})

it('a lease can be logged as JSON, without the leases beside it and its token', async () => {
  await using held = await redlock.acquire('a')
  await using beside = await redlock.acquire('b')
  expect(beside.remainingMs()).toBeGreaterThan(0)
  const logged = JSON.parse(JSON.stringify({ status: 'granted', lease: held })) as unknown
  const { resources, fencingToken, leaseMs, trustedUntil } = held
  const lease = { resources, fencingToken, leaseMs, trustedUntil }
  expect(logged).toEqual({ status: 'granted', lease })
})

describe('a signal that has aborted', () => {
  it.each([
    ['an error', new RangeError('enough')],
    ['a word', 'enough'],
    ['the default', new DOMException('This operation was aborted', 'AbortError')],
  ])('rejects with its reason: %s', async (_what, reason) => {
    const signal = AbortSignal.abort(reason)
    const error: unknown = await redlock.acquire('r', { signal }).catch((e: unknown) => e)
    expect(error).toBe(reason)
    expect(await harness.holders('r')).toEqual([null])
  })

  it('rejects with its reason while the call waits', async () => {
    await using held = await redlock.acquire('r')
    const stop = new AbortController()
    const waiting = redlock.acquire('r', { waitMs: 10_000, signal: stop.signal })
    stop.abort('enough')
    expect(await waiting.catch((e: unknown) => e)).toBe('enough')
    expect(held.remainingMs()).toBeGreaterThan(0)
  })
})

it('calls after close', async () => {
  const closed = await harness.client({ direct: true })
  await closed.close()
  await expect(closed.tryAcquire('r')).rejects.toThrow(RedlockClosedError)
  await expect(closed.acquire('r')).rejects.toThrow(RedlockClosedError)
  await expect(closed.ready()).rejects.toThrow(
    'This client of the locks is closed. Create a new one.',
  )
})

it('refuses to hand over what is no lease of this Redlock', async () => {
  await using own = await redlock.acquire('r')
  const another = await harness.client({ direct: true })
  await using lease = await another.acquire('another')
  for (const given of [{ ...own }, lease]) {
    expect(() => redlock.handOver(given)).toThrow('Expected `lease` to be a lease of this Redlock')
  }
  expect(lease.remainingMs()).toBeGreaterThan(0)
})
