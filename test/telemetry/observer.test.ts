/** What observers may and may not do to a lock, and how resources become labels. */
import { describe, expect, test } from 'vitest'
import { openTelemetry, type Logger, type Observer, silentLogger } from '../../src/index.ts'
import { ResourceClasses } from '../../src/telemetry/resource-classes.ts'
import { granted, useFleet } from '../fixtures.ts'

const fixture = useFleet({ masters: 3 })

test('an observer that throws from every method changes nothing and is reported once', async () => {
  const errors: object[] = []
  const logger: Logger = { ...silentLogger, error: (fields) => errors.push(fields) }
  const fail = (): never => {
    throw new Error('broken observer')
  }
  const methods = ['closed', 'voted', 'attempted', 'waited', 'extended', 'ended', 'released']
  const observer: Observer = {
    opened: () => Object.fromEntries(methods.map((name) => [name, fail])),
  }
  const redlock = await fixture.redlock({ observer, logger })
  const lease = await redlock.acquire('customer:1')
  expect((await lease.extend()).status).toBe('extended')
  await lease.release()
  await redlock.close()
  expect(errors).toEqual([{ event: 'observer:threw', error: 'Error: broken observer' }])
})

test('an observer that does not listen gets no report of a lease and its end', async () => {
  const told: string[] = []
  const methods = ['voted', 'attempted', 'waited', 'ended', 'released']
  const tell = (name: string) => (): void => void told.push(name)
  let listens = false
  const observer: Observer = {
    opened: () => ({
      ...Object.fromEntries(methods.map((name) => [name, tell(name)])),
      listens: () => listens,
    }),
  }
  const redlock = await fixture.redlock({ observer })
  await (await redlock.acquire('customer:1')).release()
  expect(told).toEqual([])
  const lease = await redlock.acquire('customer:1')
  listens = true
  await lease.release()
  expect(told).toContain('ended')
  expect(told).toContain('released')
})

test('an observer gets the end of each lease and the vote of each master', async () => {
  const told: unknown[][] = []
  const tell =
    (name: string) =>
    (...args: unknown[]): void => {
      told.push([name, ...args])
    }
  const observer: Observer = {
    opened: () => ({
      voted: tell('voted'),
      attempted: tell('attempted'),
      extended: tell('extended'),
      ended: tell('ended'),
      released: tell('released'),
    }),
  }
  const redlock = await fixture.redlock({ observer })
  const lease = await granted(redlock, 'customer:1')
  await lease.extend()
  await redlock.handOver(lease)?.release()
  await redlock.close()
  const names = told.map(([name]) => name).filter((name) => name !== 'voted')
  expect(names).toEqual(['attempted', 'extended', 'ended', 'attempted', 'ended', 'released'])
  const ends = told.filter(([name]) => name === 'ended').map(([, , how]) => how)
  expect(ends).toEqual(['handed-over', 'released'])
  const votes = told.flatMap(([name, , question, outcome]) =>
    name === 'voted' ? [`${String(question)}:${String(outcome)}`] : [],
  )
  expect(votes.filter((vote) => vote === 'acquire:granted')).toHaveLength(3)
  expect(votes.filter((vote) => vote === 'extend:extended')).toHaveLength(3)
  expect(votes.filter((vote) => vote === 'release:released')).toHaveLength(3)
})

describe('a resource class', () => {
  test('is the part before the first colon, and never a raw resource', () => {
    const classes = new ResourceClasses()
    expect(classes.of(['customer:42'])).toBe('customer')
    expect(classes.of(['account:a:b', 'zone:1'])).toBe('account')
    expect(classes.of(['Ms Smith'])).toBe('other')
    expect(classes.of([':x'])).toBe('other')
  })

  test('is one of a limited number, then other', () => {
    const classes = new ResourceClasses({ maxResourceClasses: 2 })
    expect(['a:1', 'b:1', 'c:1', 'a:2'].map((name) => classes.of([name]))).toEqual([
      ...['a', 'b', 'other', 'a'],
    ])
  })

  test("is other when the user's function throws", () => {
    const resourceClass = (): never => {
      throw new Error('no')
    }
    expect(new ResourceClasses({ resourceClass }).of(['a:1'])).toBe('other')
  })

  test('bad options are refused by name', () => {
    const bad = { resourceClass: 'customer' } as never
    expect(() => openTelemetry(bad)).toThrow(/`resourceClass`/)
    const mistyped = { resourceClas: String }
    expect(() => openTelemetry(mistyped as never)).toThrow('Is it `resourceClass`?')
    expect(() => openTelemetry({ maxResourceClasses: -1 })).toThrow(/`maxResourceClasses`/)
  })
})
