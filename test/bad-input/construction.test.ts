/**
 * Options that cannot be right are refused before anything connects: the message names the option,
 * the value and the fix.
 */
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { shownValue } from '../../src/redact.ts'
import { Redlock, silentLogger, type RedlockOptions } from '../../src/index.ts'

const FIVE = [1, 2, 3, 4, 5].map((n) => `redis://127.0.0.1:1000${n}`)

/**
 * What the constructor says. A constructor that says nothing would have connected: it is closed.
 */
function refusal(options: unknown): string {
  let made: Redlock | undefined
  try {
    made = new Redlock(options as RedlockOptions)
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError)
    return error instanceof Error ? error.message : ''
  }
  void made.close()
  throw new Error('It was not refused')
}

const withFive = (options: object): object => ({ masters: FIVE, logger: silentLogger, ...options })

describe('masters', () => {
  it.each([
    ['nothing', undefined, '`undefined`'],
    ['no object', 'redis://127.0.0.1:10001', '(string)'],
  ])('%s instead of options', (_what, options, value) => {
    const message = refusal(options)
    expect(message).toContain('an object with `masters`')
    expect(message).toContain(value)
  })

  it.each([
    ['leaseMS', 'Is it `leaseMs`?'],
    ['quorum', 'There are masters, previous, masterTimeoutMs, '],
  ])('refuses an option that does not exist: %s', (name, hint) => {
    const message = refusal(withFive({ [name]: 3 }))
    expect(message).toContain(`There is no option \`${name}\`. ${hint}`)
    expect(message).not.toMatch(/\b(clock|connect)\b/)
  })

  it.each([
    ['missing', undefined, '`undefined`'],
    ['one URL instead of a list', 'redis://127.0.0.1:10001', '(string)'],
    ['an empty list', [], 'a value of type array'],
  ])('%s', (_what, masters, value) => {
    const message = refusal({ masters })
    expect(message).toMatch(
      /^Expected `masters` to be a list of redis:\/\/ URLs or ioredis options/,
    )
    expect(message).toContain(value)
  })

  it.each([
    ['another protocol', 'http://127.0.0.1:10001'],
    ['no protocol', '127.0.0.1:10001'],
    ['no host', 'redis://'],
    ['no host and a path', 'redis:///0'],
    ['no port behind the colon', 'redis://127.0.0.1:port'],
    ['a port that is none', 'redis://127.0.0.1:99999'],
    ['a query, which ioredis would take options from', `${FIVE[1] ?? ''}?enableOfflineQueue=true`],
    ['a number', 6379],
    ['null', null],
  ])('%s', (_what, address) => {
    const message = refusal({ masters: [FIVE[0], address] })
    expect(message).toMatch(/^Expected `masters\[1\]` to be a redis:\/\/ or rediss:\/\/ URL/)
    expect(message).toContain('or an ioredis options object')
    expect(message).toContain(typeof address === 'string' ? shownValue(address) : String(address))
  })

  it('does not print the password of an address that it refuses', () => {
    const message = refusal({ masters: ['http://worker:open-sesame@127.0.0.1:10001'] })
    expect(message).toContain('127.0.0.1:10001')
    expect(message).not.toContain('open-sesame')
  })

  it.each([['app:lease'], ['app:fence:x'], ['app:master']])(
    'refuses a namespace whose keys could be those of another: %s',
    (namespace) => {
      const message = refusal({ masters: FIVE, namespace })
      expect(message).toContain('Expected `namespace` to be a name without a part such as')
    },
  )

  it('refuses a name with half a character', () => {
    expect(refusal({ masters: FIVE, owner: 'a\ud800' })).toContain('well-formed Unicode')
  })

  it('the same server twice', () => {
    const message = refusal({ masters: [...FIVE, `${FIVE[0] ?? ''}/`] })
    expect(message).toContain('Expected `masters` to be distinct servers')
    expect(message).toContain('two addresses of one server would count as two votes')
    expect(message).toContain(`'${new URL(FIVE[0] ?? '').host}'`)
    const options = { host: '127.0.0.1', port: 10_001 }
    const password = 'correct-horse'
    for (const twice of [{ ...options, password }, `redis://:${password}@127.0.0.1:10001`]) {
      const said = refusal({ masters: [twice, twice] })
      expect(said).toContain('distinct servers')
      expect(said).toContain('127.0.0.1:10001')
      expect(said).not.toContain(password)
    }
  })

  it('refuses a connection that the caller made, such as that of the queue', () => {
    const shared = new Redis({ lazyConnect: true })
    const message = refusal({ masters: [FIVE[0], shared] })
    expect(message).toMatch(/^Expected `masters\[1\]` to be an address, not a connection/)
    expect(message).toContain('Redlock makes its own, because a shared one queues and re-sends')
    shared.disconnect()
  })

  it('refuses a server that Sentinel replaces', () => {
    const address = { sentinels: [{ host: '127.0.0.1', port: 26_379 }], name: 'shop' }
    const message = refusal({ masters: [FIVE[0], address] })
    expect(message).toMatch(/^Expected `masters\[1\]` to be one server by itself: after a failover/)
  })
})

describe('durations and counts', () => {
  it.each([
    ['leaseMs', { leaseMs: 30_001 }, 'at most `maxLeaseMs` (30000', '30001'],
    ['leaseMs', { leaseMs: 2_000, maxLeaseMs: 1_000 }, 'at most `maxLeaseMs` (1000', '2000'],
    ['leaseMs', { leaseMs: 5 }, 'an integer from 100', '5'],
    ['leaseMs', { leaseMs: 1_000.5 }, 'an integer', '1000.5'],
    ['leaseMs', { leaseMs: Number.NaN }, 'an integer', 'NaN'],
    ['leaseMs', { leaseMs: '10s' }, 'an integer', "'10s'"],
    ['maxLeaseMs', { maxLeaseMs: 0 }, 'an integer from 100', '0'],
    ['maxLeaseMs', { maxLeaseMs: 30_000.5 }, 'an integer', '30000.5'],
    ['maxLeaseMs', { maxLeaseMs: Infinity }, 'an integer', 'Infinity'],
    ['driftFactor', { driftFactor: -0.1 }, 'a number from 0 to 0.5', '-0.1'],
    ['driftFactor', { driftFactor: Number.NaN }, 'a number', 'NaN'],
    ['masterTimeoutMs', { masterTimeoutMs: 0 }, 'an integer from 1 to 10000', '0'],
    ['masterTimeoutMs', { masterTimeoutMs: 10_001 }, 'an integer from 1 to 10000', '10001'],
    ['connectTimeoutMs', { connectTimeoutMs: 1.5 }, 'an integer', '1.5'],
    ['maxClockSkewMs', { maxClockSkewMs: 15_001 }, 'an integer from 1 to 15000', '15001'],
    ['fenceTtlMs', { fenceTtlMs: 1_000 }, 'an integer >= 300000', '1000'],
    ['maxHoldMs', { maxHoldMs: 9_999 }, 'an integer >= 10000', '9999'],
    ['maxExtensions', { maxExtensions: -1 }, 'an integer >= 0', '-1'],
    ['namespace', { namespace: '' }, 'a string of 1 to 256 characters', "''"],
    ['owner', { owner: 42 }, 'a string of 1 to 256 characters', '42'],
  ])('%s %o', (name, options, expected, value) => {
    const message = refusal(withFive(options))
    expect(message).toContain(`Expected \`${name}\` to be `)
    expect(message).toContain(expected)
    expect(message).toContain(`\`${value}\``)
  })
})
