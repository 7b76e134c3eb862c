/** Calls that leave together: who waits for whom, and that they do not share a fate. */
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { systemClock, type Clock } from '../../../src/clock.ts'
import { Redlock, type AcquireOutcome, silentLogger } from '../../../src/index.ts'
import { callOf, CallQueue } from '../../../src/redlock/wire/calls.ts'
import type { Asker, Master } from '../../../src/redlock/wire/master.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'

const TIME = '1763838000 123456'

interface Sent {
  readonly names: readonly string[]
  answer(reply: unknown): void
  fail(error: Error): void
}

/** Waiting for a reply has no limit: a busy machine reaches none. */
const TIMELESS: Clock = { ...systemClock, after: () => ({ cancel: () => undefined }) }

function queue(clock = systemClock): { readonly calls: CallQueue; readonly sent: Sent[] } {
  const sent: Sent[] = []
  const calls = new CallQueue({
    clock,
    master: { index: 0 } as Master,
    silenceMs: 10_000,
    sender: {
      enrolled: () => undefined,
      disconnect: () => undefined,
      send: (entries, _bytes, heard) => {
        const fail = (error: Error): void => {
          heard(undefined, error)
        }
        sent.push({ names: namesIn(entries), answer: heard, fail })
      },
    },
    onTime: () => undefined,
    onError: () => undefined,
  })
  return { calls, sent }
}

interface TestAsker extends Asker {
  isSettled: boolean
  isSent: boolean
}

function call(name: string, heard: unknown[] = []): TestAsker {
  const asker: TestAsker = {
    isSettled: false,
    isSent: false,
    leaving: () => {
      if (asker.isSettled) return undefined
      asker.isSent = true
      return callOf({ verb: 'echo', token: name })
    },
    hear: (_, result) => heard.push(result.kind === 'replied' ? result.reply : result.detail),
  }
  return asker
}

/**
 * Until what was asked has left, and what was answered has been passed on: a call leaves at the end
 * of a turn.
 */
async function turn(): Promise<void> {
  for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve))
}

/** The words of a batch's entries. */
function namesIn(entries: string): readonly string[] {
  return [...entries.matchAll(/echo\0(.*?)\0/g)].map(([, name = '']) => name)
}

/** With two more, as many as keep the next ones waiting. */
const OTHERS = ['y', 'z']

const names = ({ names: sent }: Sent): readonly string[] => sent

describe('a queue of calls', () => {
  test('a request to an idle master leaves in the same turn', async () => {
    const { calls, sent } = queue()
    calls.ask(call('a'))
    await turn()
    expect(sent.map(names)).toEqual([['a']])
  })

  test('requests of one turn leave together, as do those that wait for a reply', async () => {
    const { calls, sent } = queue(TIMELESS)
    const heard: unknown[][] = [[], [], []]
    const [one, two, three] = heard
    calls.ask(call('a', one))
    calls.ask(call('b', two))
    for (const name of OTHERS) calls.ask(call(name))
    await turn()
    calls.ask(call('c', three))
    calls.ask(call('d'))
    await new Promise((resolve) => setImmediate(resolve))
    expect(sent.map(names)).toEqual([['a', 'b', ...OTHERS]])
    sent[0]?.answer([`**++ ${TIME}`, ['A'], ['failed:', 'user_script: 3: WRONGTYPE of b']])
    await turn()
    expect(sent.map(names)).toEqual([
      ['a', 'b', ...OTHERS],
      ['c', 'd'],
    ])
    sent[1]?.answer([`*+ ${TIME}`, ['C']])
    await turn()
    expect(heard).toEqual([[['A']], ['WRONGTYPE of b'], [['C']]])
  })

  test('requests do not wait for the reply to a few others', async () => {
    const { calls, sent } = queue()
    for (const name of ['a', ...OTHERS]) {
      calls.ask(call(name))
      await turn()
    }
    expect(sent.map(names)).toEqual([['a'], ...OTHERS.map((name) => [name])])
  })

  test('no call waits long behind a silent master', async () => {
    const { calls, sent } = queue()
    const first = ['a', 'b', ...OTHERS]
    for (const name of first) calls.ask(call(name))
    await turn()
    calls.ask(call('c'))
    await new Promise((resolve) => setTimeout(resolve, 30))
    expect(sent.map(names)).toEqual([first, ['c']])
  })

  test('no more than 64 leave together', () => {
    const { calls, sent } = queue()
    for (let index = 0; index < 192; index++) calls.ask(call(String(index)))
    expect(sent.map((one) => one.names.length)).toEqual([64, 64, 64])
  })

  test('a call that was abandoned before it left never leaves', async () => {
    const { calls, sent } = queue()
    calls.ask(call('a'))
    const late = call('late')
    calls.ask(late)
    late.isSettled = true
    await turn()
    expect(sent.map(names)).toEqual([['a']])
    expect(late.isSent).toBe(false)
  })

  test('a broken connection fails all calls that left, and withdraws the others', async () => {
    const { calls, sent } = queue()
    const heard: unknown[] = []
    calls.ask(call('a', heard))
    await turn()
    const waiting = call('b', heard)
    calls.ask(waiting)
    calls.close({ kind: 'failed', reason: 'not-ready', detail: 'gone', mayHaveRun: false })
    expect(waiting.isSent).toBe(false)
    sent[0]?.fail(new Error('closed'))
    await turn()
    expect(heard).toEqual(['gone', 'closed'])
    expect(sent).toHaveLength(1)
  })

  test('a short reply fails the calls that it omits', async () => {
    const { calls, sent } = queue()
    const heard: unknown[] = []
    for (const name of ['a', 'b']) calls.ask(call(name, heard))
    await turn()
    sent[0]?.answer([`* ${TIME}`, ['A']])
    await turn()
    expect(heard).toEqual([['A'], 'the batch was not answered in full'])
  })
})

describe('on a real server', () => {
  let server: TestServer
  let redis: Redis
  const open: Redlock[] = []

  beforeAll(async () => {
    server = await startServer()
    redis = new Redis(server.url)
  })

  afterEach(async () => {
    for (const redlock of open.splice(0)) await redlock.close()
  })

  afterAll(async () => {
    redis.disconnect()
    await server.close()
  })

  async function connect(): Promise<Redlock> {
    const redlock = new Redlock({ masters: [server.url], namespace: 'batch', logger: silentLogger })
    open.push(redlock)
    await redlock.bootstrap({ newFleet: true })
    return redlock
  }

  const many = (redlock: Redlock, count: number): Promise<readonly AcquireOutcome[]> =>
    Promise.all(Array.from({ length: count }, (_, index) => redlock.tryAcquire(`r${index}`)))

  async function evals(): Promise<number> {
    const stats = await redis.info('commandstats')
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
  }

  test('hundreds of acquires at once cost a few trips, and each has its own answer', async () => {
    const redlock = await connect()
    const before = await evals()
    const outcomes = await many(redlock, 300)
    expect(await evals()).toBeLessThan(before + 20)
    const leases = outcomes.flatMap((outcome) =>
      outcome.status === 'granted' ? [outcome.lease] : [],
    )
    expect(leases).toHaveLength(300)
    for (const [index, { resource, token }] of leases.entries()) {
      expect(resource).toBe(`r${index}`)
      expect(await redis.get(`batch:lease:${resource}`)).toBe(token)
    }
    await Promise.all(leases.map((lease) => lease.release()))
    expect(await redis.keys('batch:lease:*')).toEqual([])
  })

  test('a resource that is requested twice in one batch is granted once', async () => {
    const redlock = await connect()
    await redlock.tryAcquire('other')
    const outcomes = await Promise.all([
      redlock.tryAcquire('x'),
      redlock.tryAcquire('same'),
      redlock.tryAcquire('same'),
      redlock.tryAcquire('same'),
    ])
    expect(outcomes.map(({ status }) => status).sort()).toEqual([
      'granted',
      'granted',
      'taken',
      'taken',
    ])
  })
})
