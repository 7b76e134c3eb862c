/** What listeners may and may not do to a lock, and how resources become labels. */
import { describe, expect, test } from 'vitest'
import {
  listen,
  openTelemetry,
  silentLogger,
  type FactName,
  type Facts,
  type Listener,
  type Logger,
} from '../../src/index.ts'
import { Channel } from '../../src/channel.ts'
import { ResourceClasses } from '../../src/telemetry/open-telemetry.ts'
import { granted, until, useFleet } from '../fixtures.ts'

const fixture = useFleet({ masters: 3 })
const OF_LEASES = [
  ...(['lock:opened', 'lock:closed', 'master:voted', 'lease:attempted', 'lease:waited'] as const),
  ...(['lease:granted', 'lease:extended', 'lease:ended', 'lease:freed'] as const),
]

/** Listens to the locks of this test alone. */
function listening(
  told: (event: FactName, fact: Facts[FactName]) => void,
  hears?: Listener['hears'],
): void {
  const entries = OF_LEASES.map((event) => [
    event,
    (fact: Facts[FactName], namespace: string | undefined): void => {
      if (namespace === fixture.namespace) told(event, fact)
    },
  ])
  const on = Object.fromEntries(entries) as Listener['on']
  fixture.defer(listen({ on, ...(hears && { hears }) }))
}

test('a listener that throws at every fact changes nothing and is reported once', async () => {
  const errors: object[] = []
  const logger: Logger = { ...silentLogger, error: (fields) => errors.push(fields) }
  listening(() => {
    throw new Error('broken listener')
  })
  const redlock = await fixture.redlock({ logger })
  const lease = await redlock.acquire('customer:1')
  expect((await lease.extend()).status).toBe('extended')
  await lease.release()
  await redlock.close()
  expect(errors).toEqual([{ event: 'listener:threw', error: 'Error: broken listener' }])
})

test('a listener that hears nothing is told nothing of a lease and its end', async () => {
  const told: string[] = []
  let hears = false
  listening(
    (event) => told.push(event),
    () => hears,
  )
  const redlock = await fixture.redlock()
  await (await redlock.acquire('customer:1')).release()
  expect(told).toEqual([])
  hears = true
  await until('it is asked again', async () => {
    await (await redlock.acquire('customer:1')).release()
    return told.includes('lease:ended') && told.includes('lease:freed')
  })
})

test('a listener that comes when another one goes is asked at once', () => {
  const channel = new Channel(undefined, [], () => undefined)
  const on: Listener['on'] = { 'lease:granted': () => undefined }
  const stop = listen({ on, hears: () => false })
  fixture.defer(stop)
  expect(channel.hears('lease:granted')).toBe(false)
  stop()
  fixture.defer(listen({ on }))
  expect(channel.hears('lease:granted')).toBe(true)
})

test('a listener is told the end of each lease and the vote of each master', async () => {
  const told: (readonly [FactName, Record<string, unknown>])[] = []
  listening((event, fact) => told.push([event, fact as unknown as Record<string, unknown>]))
  const redlock = await fixture.redlock()
  const lease = await granted(redlock, 'customer:1')
  await lease.extend()
  await redlock.handOver(lease)?.release()
  await redlock.close()
  const own = told.filter(([event]) => event.startsWith('lease:'))
  expect(own.map(([event]) => event)).toEqual([
    ...['lease:attempted', 'lease:granted', 'lease:extended', 'lease:ended'],
    ...['lease:granted', 'lease:attempted', 'lease:ended', 'lease:freed'],
  ])
  const ends = own.filter(([event]) => event === 'lease:ended').map(([, { how }]) => how)
  expect(ends).toEqual(['handed-over', 'released'])
  const votes = told
    .filter(([event]) => event === 'master:voted')
    .map(([, { question, outcome }]) => `${String(question)}:${String(outcome)}`)
  expect(votes.filter((vote) => vote === 'extend:extended')).toHaveLength(3)
  expect(votes.filter((vote) => vote === 'release:released')).toHaveLength(3)
})

test('what a listener runs a step in gets what the step returns, and may throw', async () => {
  const kinds: string[] = []
  fixture.defer(
    listen({
      on: {},
      within: (what, run) => {
        kinds.push(what.kind)
        const running = run()
        if (what.kind === 'step') throw new Error('broken listener')
        return running
      },
    }),
  )
  const { channel, errors } = own()
  const job = { id: '1', queueName: 'q', opts: {} }
  let runs = 0
  const run = (): Promise<number> => Promise.resolve(++runs)
  expect(await channel.within({ kind: 'job', job }, run)).toBe(1)
  const lease = { resource: 'r', fencingToken: 1 }
  expect(await channel.within({ kind: 'step', job, lease, step: 'charge' }, run)).toBe(2)
  expect(kinds).toEqual(['job', 'step'])
  expect(errors).toHaveLength(1)
})

test('several listeners of one name are one: the last', () => {
  const told: string[] = []
  const of = (name: string): Listener => ({
    on: { 'breaker:open': () => void told.push(name) },
  })
  listen(of('first'), 'page')
  fixture.defer(listen(of('second'), 'page'))
  own().channel.tell('breaker:open', { queue: 'q', reason: '' })
  expect(told).toEqual(['second'])
})

test('a listener is an object with `on`', () => {
  const named = listen as unknown as (event: string, listener: () => void) => void
  expect(() => {
    named('lease:granted', () => undefined)
  }).toThrow('Expected `listener` to be an object with `on`')
  expect(() => listen({} as Listener)).toThrow('Expected `listener.on` to be an object')
})

function own(): { readonly channel: Channel; readonly errors: unknown[] } {
  const errors: unknown[] = []
  return { channel: new Channel(undefined, [], (error) => errors.push(error)), errors }
}

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
    expect(() => {
      openTelemetry(bad)
    }).toThrow(/`resourceClass`/)
    const mistyped = { resourceClas: String }
    expect(() => {
      openTelemetry(mistyped as never)
    }).toThrow('Is it `resourceClass`?')
    expect(() => {
      openTelemetry({ maxResourceClasses: -1 })
    }).toThrow(/`maxResourceClasses`/)
  })
})
