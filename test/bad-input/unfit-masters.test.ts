/**
 * Servers that answer and must not vote, and servers that do not answer: each is named, with what
 * to do about it.
 */
import { expect, it } from 'vitest'
import {
  LeaseExistsError,
  LeaseTooShortError,
  MasterRefusedError,
  QuorumUnreachableError,
  Redlock,
  type RedlockOptions,
  silentLogger,
} from '../../src/index.ts'
import {
  startFleet,
  startServer,
  type Fleet,
  type ServerConfig,
  type TestServer,
} from '../../src/testing/index.ts'
import { isGranted, until, useClosers } from '../fixtures.ts'
import { tell } from '../support/ask.ts'
import { Harness } from '../hazards/harness.ts'
import { item } from '../support/proxied-masters.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { startProxy } from '../support/proxy.ts'

assertNoLeaks()
const { closing } = useClosers()

const masters = async (count: number): Promise<Fleet> =>
  closing(await startFleet({ masters: count, queue: false }))

const server = async (config: ServerConfig): Promise<TestServer> =>
  closing(await startServer({ config }))

const open = (urls: readonly string[], options: Partial<RedlockOptions> = {}): Redlock =>
  closing(new Redlock({ masters: urls, namespace: 'ns', logger: silentLogger, ...options }))

async function whyNotReady(redlock: Redlock): Promise<unknown> {
  return redlock.ready().then(
    () => undefined,
    (error: unknown) => error,
  )
}

const nameOf = (url: string): string => new URL(url).host

it('fewer than a quorum: the error says how many are needed, which are silent, and why', async () => {
  const fleet = await masters(5)
  await Promise.all(fleet.masters.slice(0, 3).map((master) => master.kill()))
  const redlock = open(fleet.urls)
  const error = await whyNotReady(redlock)
  expect(error).toBeInstanceOf(QuorumUnreachableError)
  expect(String(error)).toContain('Fewer than 3 of 5 `masters`')
  expect(String(error)).toContain('Check the servers named here')
  for (const url of fleet.urls.slice(0, 3)) expect(String(error)).toContain(nameOf(url))
  expect(String(error)).toContain('ECONNREFUSED')

  expect(await redlock.tryAcquire('r')).toMatchObject({ status: 'unreachable' })
  const refused = redlock.acquire('r', { waitMs: 100 })
  await expect(refused).rejects.toThrow(QuorumUnreachableError)
  await expect(refused).rejects.toThrow('can vote: the fleet grants no lease on `r`')
})

it.each([
  ['two names of one host', (port: number): string => `redis://localhost:${port}`],
  ['another database of it', (port: number): string => `redis://127.0.0.1:${port}/1`],
])('the same server twice, by %s', async (_what, alias) => {
  const fleet = await masters(2)
  const first = item(fleet.masters, 0)
  const error = await whyNotReady(open([...fleet.urls, alias(first.port)]))
  expect(error).toBeInstanceOf(MasterRefusedError)
  expect(String(error)).toContain('is the same server as')
  expect(String(error)).toContain(`${first.port}`)
  expect(String(error)).toContain('list distinct servers in `masters`')
})

it('the same server twice, through a proxy, is never two votes', async () => {
  const fleet = await masters(2)
  await using proxy = await startProxy(item(fleet.masters, 0).port)
  const redlock = open([...fleet.urls, proxy.url], { maxLeaseMs: 500, leaseMs: 500 })
  expect(await whyNotReady(redlock)).toBeInstanceOf(MasterRefusedError)
  const refused = (): number =>
    redlock.status().masters.filter(({ state }) => state === 'refused').length
  expect(refused()).toBe(1)
  // When the other server goes, one server in two disguises is left: one vote of the two that are
  // needed.
  await until('two servers are a quorum of three', () => isGranted(redlock, 'r'))
  await item(fleet.masters, 1).kill()
  expect((await redlock.tryAcquire('r')).status).toBe('unreachable')
  await redlock.close()
})

it('two swapped addresses change nothing: a server is known by its id', async () => {
  const fleet = await masters(3)
  const redlock = open(fleet.urls)
  await redlock.bootstrap({ newFleet: true })
  await using lease = await redlock.acquire('r')
  const swapped = open([...fleet.urls].reverse())
  await swapped.ready()
  expect((await swapped.tryAcquire('r')).status).toBe('taken')
  expect(lease.remainingMs()).toBeGreaterThan(0)
})

/** One refused master of three. */
async function expectOneRefused(
  refused: TestServer,
  problem: RegExp,
  fix: string,
): Promise<Redlock> {
  const redlock = open([...(await masters(2)).urls, refused.url], { maxLeaseMs: 500, leaseMs: 500 })
  const status = await redlock.ready()
  const [one, ...others] = status.masters.filter(({ state }) => state === 'refused')
  expect(others).toEqual([])
  expect(one?.name).toBe(nameOf(refused.url))
  expect(one?.reason).toMatch(problem)
  expect(one?.reason).toContain(fix)
  return redlock
}

it('a replica does not vote; the others do', async () => {
  const first = item((await masters(1)).masters, 0)
  const replica = await server({ replicaof: `${first.host} ${first.port}` })
  const fix = 'list only independent masters'
  await expectOneRefused(replica, /^is a replica/, fix)
})

it.each([['allkeys-lru'], ['volatile-ttl']])(
  'a server that evicts (%s) does not vote until it is repaired; the others do',
  async (policy) => {
    const evicting = await server({ 'maxmemory-policy': policy })
    const problem = new RegExp(`^may evict leases: maxmemory-policy is ${policy}`)
    const fix = '`CONFIG SET maxmemory-policy noeviction`'
    const redlock = await expectOneRefused(evicting, problem, fix)
    await until('two of three grant', () => isGranted(redlock, 'r'))

    await tell(evicting, 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    const refused = (): boolean => redlock.status().masters.some(({ state }) => state === 'refused')
    await until('it is looked at again', () => !refused())
  },
)

it('two refused masters of three leave no quorum: says which, why, and what to do', async () => {
  const evicting = [0, 1].map(() => server({ 'maxmemory-policy': 'allkeys-lru' }))
  const urls = (await Promise.all(evicting)).map(({ url }) => url)
  const error = await whyNotReady(open([...(await masters(1)).urls, ...urls]))
  expect(error).toBeInstanceOf(MasterRefusedError)
  for (const url of urls) expect(String(error)).toContain(`${nameOf(url)}: may evict leases`)
  expect(String(error)).toContain('`CONFIG SET maxmemory-policy noeviction`')
})

it('a lease that is shorter than its round trips', async () => {
  await using fleet = await startFleet({ masters: 3, queue: false })
  await using harness = await Harness.open(fleet)
  for (const proxy of harness.masters.proxies) proxy.delay({ repliesMs: 60 })
  const error = await whyNotReady(harness.unready({ leaseMs: 150 }))
  expect(error).toBeInstanceOf(LeaseTooShortError)
  if (!(error instanceof LeaseTooShortError)) return
  for (const proxy of harness.masters.proxies)
    expect(proxy.counters.replies.delayed).toBeGreaterThan(0)
  expect(error.roundTripMs).toBeGreaterThanOrEqual(60)
  expect(error.message).toContain('`leaseMs` is 150')
  expect(error.message).toContain(`takes ${error.roundTripMs} ms`)
  expect(error.message).toContain(`set \`leaseMs\` to at least ${error.neededMs}`)
  // What it says is enough is enough, with what a busy machine adds to a round trip.
  expect(await whyNotReady(harness.unready({ leaseMs: 10 * error.neededMs }))).toBeUndefined()
})

it('refuses a bootstrap where a lease exists, also under a key prefix of the address', async () => {
  const fleet = await masters(1)
  const { host, port } = item(fleet.masters, 0)
  const address = { host, port, keyPrefix: 'app:' }
  const options = { masters: [address], namespace: 'ns', logger: silentLogger, maxLeaseMs: 500 }
  const redlock = closing(new Redlock({ ...options, leaseMs: 500 }))
  await redlock.ready()
  await using lease = await redlock.acquire('r', { waitMs: 5_000, autoExtend: true })
  const error: unknown = await redlock.bootstrap({ newFleet: true }).catch((e: unknown) => e)
  expect(error).toBeInstanceOf(LeaseExistsError)
  expect(String(error)).toContain(`${host}:${port} holds a lease`)
  expect(String(error)).toContain('Bootstrap only a fleet on which no worker has run')
  expect(lease.remainingMs()).toBeGreaterThan(0)
})

it('all masters are new: the error says when they vote and what to do, and blames no network', async () => {
  const fleet = await masters(3)
  const redlock = open(fleet.urls)
  await redlock.ready()
  const refused = redlock.acquire('r', { waitMs: 0 })
  await expect(refused).rejects.toThrow(
    /vote in \d+ ms\. If this fleet is new, run `bullmq-redlock bootstrap`/,
  )
  await expect(refused).rejects.not.toThrow('network')
})
