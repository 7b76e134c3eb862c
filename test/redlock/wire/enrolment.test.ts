/**
 * The delayed restart: a server process that may have forgotten leases grants nothing until every
 * lease that it may have forgotten is over. What counts as "may have forgotten" is shown here on
 * real restarts.
 */
import type { Redis } from 'ioredis'
import { afterEach, expect, it } from 'vitest'
import {
  MasterRefusedError,
  Redlock,
  type AcquireOutcome,
  type MasterStatus,
  type RedlockOptions,
  silentLogger,
} from '../../../src/index.ts'
import {
  startServer,
  type RestartOptions,
  type ServerConfig,
  type TestServer,
} from '../../../src/testing/index.ts'
import { until } from '../../fixtures.ts'
import { ask as askAt } from '../../support/ask.ts'
import { item } from '../../support/proxied-masters.ts'
import { assertNoLeaks } from '../../support/leaks.ts'

assertNoLeaks()
const MAX_LEASE_MS = 1_200
const servers: TestServer[] = []
const clients: Redlock[] = []

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function start(config: ServerConfig = {}): Promise<TestServer> {
  const server = await startServer({ config })
  servers.push(server)
  return server
}

/** A fleet of one: what its only master says is what the fleet says. */
async function client(server: TestServer, options: Partial<RedlockOptions> = {}): Promise<Redlock> {
  const redlock = new Redlock({
    masters: [server.url],
    maxLeaseMs: MAX_LEASE_MS,
    leaseMs: 500,
    masterTimeoutMs: 500,
    namespace: 'ns',
    logger: silentLogger,
    ...options,
  })
  clients.push(redlock)
  await redlock.ready()
  return redlock
}

const only = (redlock: Redlock): MasterStatus => item(redlock.status().masters, 0)

const ask = <T>({ url }: TestServer, question: (redis: Redis) => Promise<T>): Promise<T> =>
  askAt(url, question)

const record = (server: TestServer): Promise<Record<string, string>> =>
  ask(server, (redis) => redis.hgetall('ns:master'))

/** Tries until it is granted, and returns what was said before. */
async function untilGranted(redlock: Redlock): Promise<readonly AcquireOutcome[]> {
  const refused: AcquireOutcome[] = []
  await until('a lease is granted', async () => {
    const outcome = await redlock.tryAcquire('r')
    if (outcome.status === 'granted') {
      await outcome.lease.release()
      return true
    }
    refused.push(outcome)
    return false
  })
  return refused
}

it('a server that is new to the fleet grants nothing for one longest lease', async () => {
  const server = await start()
  const startedAt = performance.now()
  const redlock = await client(server)
  expect(only(redlock)).toMatchObject({ state: 'quarantined' })
  expect(only(redlock).votesInMs).toBeGreaterThan(0)
  const [first] = await untilGranted(redlock)
  expect(performance.now() - startedAt).toBeGreaterThan(MAX_LEASE_MS)
  expect(first).toMatchObject({ status: 'unreachable' })
  expect(first?.status === 'unreachable' ? first.retryAfterMs : 0).toBeGreaterThan(0)
  // Counted from when its answer came here, which is a little later.
  await until('it is said to vote', () => Promise.resolve(only(redlock).state === 'voting'))
})

it('a known server does not wait again when another client connects', async () => {
  const server = await start()
  await client(server)
  const before = await record(server)
  const second = await client(server)
  const counted = { votesInMs: expect.any(String) as string }
  expect(await record(server)).toEqual({ ...before, ...counted })
  await untilGranted(second)
  expect(only(await client(server))).toMatchObject({ state: 'voting' })
  expect(await record(server)).toEqual({ ...before, votesInMs: '0' })
})

/**
 * Redis holds writes back for up to two seconds while an earlier `fsync` lasts; what is held back
 * does not survive.
 */
const untilWritten = (server: TestServer): Promise<void> =>
  until('the log of writes is in its file', async () =>
    (await ask(server, (redis) => redis.info('persistence'))).includes('aof_buffer_length:0'),
  )

/** A server that is in use, restarts, and is connected to again. */
async function afterRestart(config: ServerConfig, restart: RestartOptions = {}): Promise<string> {
  const server = await start(config)
  const redlock = await client(server)
  await redlock.bootstrap({ newFleet: true })
  expect(only(redlock).state).toBe('voting')
  await redlock.close()
  const before = await record(server)
  if (config['appendonly'] === 'yes') await untilWritten(server)
  await server.restart(restart)
  // Where something is written at all, the old record is still there: it alone must prove nothing.
  if (config['appendonly'] === 'yes') expect(await record(server)).toEqual(before)
  const again = await client(server)
  expect((await record(server))['runId']).not.toBe(before['runId'])
  return only(again).state
}

const EVERYSEC = { appendonly: 'yes', appendfsync: 'everysec' }
const ALWAYS = { appendonly: 'yes', appendfsync: 'always' }

const NOT_ON_REWRITE = { ...ALWAYS, 'no-appendfsync-on-rewrite': 'yes' }

it.each([
  ['without persistence', {}, {}, 'quarantined'],
  ['that may have lost its last second', EVERYSEC, {}, 'quarantined'],
  ['whose every write was on disk, before and after', ALWAYS, {}, 'voting'],
  ['whose writes are not on disk during a rewrite', NOT_ON_REWRITE, {}, 'quarantined'],
  ['whose writes are on disk only from now on', EVERYSEC, ALWAYS, 'quarantined'],
  ['whose writes are not on disk any more', ALWAYS, EVERYSEC, 'quarantined'],
])('a restart %s', async (_what, before, config, expected) => {
  expect(await afterRestart(before, { config })).toBe(expected)
})

it('a server that lost its data while it ran is noticed by the next call, and waits', async () => {
  const server = await start()
  const redlock = await client(server)
  await redlock.bootstrap({ newFleet: true })
  await ask(server, (redis) => redis.flushall())
  const startedAt = performance.now()
  const refused = await untilGranted(redlock)
  expect(performance.now() - startedAt).toBeGreaterThan(MAX_LEASE_MS)
  expect(JSON.stringify(refused[0])).toContain('lost its data')
  expect(JSON.stringify(refused)).toContain('grants nothing for another')
})

it('a quarantined master continues to extend and release', async () => {
  const server = await start(EVERYSEC)
  // A restart on a busy machine takes less than the lease, and than the quarantine.
  const redlock = await client(server, { maxLeaseMs: 20_000, leaseMs: 20_000 })
  await redlock.bootstrap({ newFleet: true })
  const lease = await redlock.acquire('r')
  await untilWritten(server)
  await server.restart()
  await until('it is quarantined', () => only(redlock).state === 'quarantined')
  expect((await redlock.tryAcquire('other')).status).toBe('unreachable')
  expect((await lease.extend()).status).toBe('extended')
  expect(await ask(server, (redis) => redis.get('ns:lease:r'))).toBe(lease.token)
  expect(only(redlock).state).toBe('quarantined')
  await lease.release()
  expect(await ask(server, (redis) => redis.get('ns:lease:r'))).toBeNull()
})

it('refuses a client with another longest lease, and names both', async () => {
  const server = await start()
  await client(server)
  const error: unknown = await client(server, { maxLeaseMs: 3_000 }).catch((e: unknown) => e)
  expect(error).toBeInstanceOf(MasterRefusedError)
  expect(String(error)).toContain("the fleet's `maxLeaseMs` is 1200, this client's is 3000")
  expect(String(error)).toContain('give every client the same')
  expect((await record(server))['maxLeaseMs']).toBe('1200')
})

it('refuses a client with another number of masters: its quorums may not overlap', async () => {
  const [first, second, third] = await Promise.all([start(), start(), start()])
  await client(first, { masters: [first.url, second.url, third.url] })
  const error: unknown = await client(first).catch((e: unknown) => e)
  expect(error).toBeInstanceOf(MasterRefusedError)
  expect(String(error)).toContain("the fleet has 3 masters, this client's `masters` are 1")
  expect(String(error)).toContain('run `bullmq-redlock resize`')
  expect(await clients.at(-1)?.tryAcquire('r')).toMatchObject({ status: 'unreachable' })
})

it('a refused client cannot enrol first at masters that come back without memory', async () => {
  const [first, second, third] = await Promise.all([start(), start(), start()])
  const masters = [first.url, second.url, third.url]
  const right = await client(first, { masters })
  await client(first, { masters: [first.url, second.url] }).catch(() => undefined)
  const states = (): readonly string[] => right.status().masters.map(({ state }) => state)
  for (let restarts = 0; restarts < 2; restarts++) {
    for (const server of [first, second]) {
      await server.restart({ keepData: false })
      const size = async (): Promise<string | undefined> => (await record(server))['fleetSize']
      await until('somebody is known to it', async () => (await size()) !== undefined)
      expect(await size()).toBe('3')
      await until('its own client is', () => !/connecting|enrolling/.test(states().join(' ')))
      expect(states()).not.toContain('refused')
    }
  }
})

it("clients recover from a master with another fleet's record when it is replaced", async () => {
  const [first, second, third] = await Promise.all([start(), start(), start()])
  await (await client(third, { masters: [third.url] })).close()
  await Promise.all([first.freeze(), second.freeze()]) // It answers before the others do.
  const refused = client(first, { masters: [first.url, second.url, third.url] })
  const right = clients.at(-1)
  const state = (index: number): string | undefined => right?.status().masters[index]?.state
  await until('it is refused', () => state(2) === 'refused')
  await Promise.all([first.thaw(), second.thaw()])
  await expect(refused).rejects.toThrow('the fleet has 1 master,')
  await third.restart({ keepData: false })
  await until('all vote', () => [0, 1, 2].every((index) => state(index) === 'voting'))
})

it('a master without memory accepts a client that most others know, though one refuses it', async () => {
  const five = await Promise.all([start(), start(), start(), start(), start()])
  const [first, , , , last] = five
  await (await client(last, { masters: [last.url] })).close()
  await last.freeze() // The others know the client before this one refuses it.
  const refused = client(first, { masters: five.map(({ url }) => url) })
  const right = clients.at(-1)
  const count = (wanted: string): number =>
    right?.status().masters.filter(({ state }) => state === wanted).length ?? 0
  await until('four know it', () => count('quarantined') + count('voting') === 4)
  await last.thaw()
  await refused.catch(() => undefined) // It may have been known by a quorum before.
  await until('one refuses it', () => count('refused') === 1)
  await first.restart({ keepData: false })
  await until('it is known again', async () => (await record(first))['fleetSize'] === '5')
})
