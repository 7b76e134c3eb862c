/** Servers that answer and must not vote, and servers that do not answer: each is named, with what to do about it. */
import { afterAll, afterEach, expect, it } from 'vitest'
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
import { until } from '../fixtures.ts'
import { item, Lab } from '../hazards/lab.ts'
import { watchLeaks } from '../support/leaks.ts'
import { startProxy } from '../support/proxy.ts'

const leaks = watchLeaks()
const servers: { close(): Promise<void> }[] = []
const clients: Redlock[] = []

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

afterAll(() => leaks.assertNone())

async function masters(count: number, config: ServerConfig = {}): Promise<Fleet> {
  const fleet = await startFleet({ masters: count, queue: false, config })
  servers.push(fleet)
  return fleet
}

async function server(config: ServerConfig): Promise<TestServer> {
  const started = await startServer({ config })
  servers.push(started)
  return started
}

function open(urls: readonly string[], options: Partial<RedlockOptions> = {}): Redlock {
  const redlock = new Redlock({ masters: urls, namespace: 'ns', logger: silentLogger, ...options })
  clients.push(redlock)
  return redlock
}

async function whyNotReady(redlock: Redlock): Promise<unknown> {
  return redlock.ready().then(
    () => undefined,
    (error: unknown) => error,
  )
}

const nameOf = (url: string): string => new URL(url).host

it('fewer than a quorum: says how many are needed, and which do not answer and why', async () => {
  const fleet = await masters(5)
  await Promise.all(fleet.masters.slice(0, 3).map((master) => master.kill()))
  const redlock = open(fleet.urls)
  const error = await whyNotReady(redlock)
  expect(error).toBeInstanceOf(QuorumUnreachableError)
  expect(String(error)).toContain('needs 3 of 5 `masters`')
  expect(String(error)).toContain('Check the servers named here')
  for (const url of fleet.urls.slice(0, 3)) expect(String(error)).toContain(nameOf(url))
  expect(String(error)).toContain('ECONNREFUSED')

  expect(await redlock.tryAcquire('r')).toMatchObject({ status: 'unreachable' })
  const refused = redlock.acquire('r', { waitMs: 100 })
  await expect(refused).rejects.toThrow(QuorumUnreachableError)
  await expect(refused).rejects.toThrow('The lease on `r` needs 3 of 5')
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
  // When the other server goes, one server in two disguises is left: one vote of the two that are needed.
  const granted = async (): Promise<boolean> => {
    const outcome = await redlock.tryAcquire('r')
    if (outcome.status === 'granted') await outcome.lease.release()
    return outcome.status === 'granted'
  }
  await until('two servers are a quorum of three', granted)
  await item(fleet.masters, 1).kill()
  expect((await redlock.tryAcquire('r')).status).toBe('unreachable')
  await redlock.close()
})

it('a replica', async () => {
  const fleet = await masters(2)
  const first = item(fleet.masters, 0)
  const replica = await server({ replicaof: `${first.host} ${first.port}` })
  const error = await whyNotReady(open([...fleet.urls, replica.url]))
  expect(error).toBeInstanceOf(MasterRefusedError)
  expect(String(error)).toContain(`${nameOf(replica.url)}: is a replica`)
  expect(String(error)).toContain('list only independent masters in `masters`')
})

it.each([['allkeys-lru'], ['volatile-ttl']])('a server that evicts (%s)', async (policy) => {
  const fleet = await masters(2)
  const evicting = await server({ 'maxmemory-policy': policy })
  const error = await whyNotReady(open([...fleet.urls, evicting.url]))
  expect(error).toBeInstanceOf(MasterRefusedError)
  expect(String(error)).toContain(`${nameOf(evicting.url)}: may evict leases`)
  expect(String(error)).toContain(`maxmemory-policy is ${policy}`)
  expect(String(error)).toContain('set `maxmemory-policy noeviction`')
})

it('a lease that is shorter than its round trips', async () => {
  await using fleet = await startFleet({ masters: 3, queue: false })
  await using lab = await Lab.open(fleet)
  for (const proxy of lab.proxies) proxy.delay({ repliesMs: 60 })
  const error = await whyNotReady(lab.unready({ leaseMs: 150 }))
  expect(error).toBeInstanceOf(LeaseTooShortError)
  if (!(error instanceof LeaseTooShortError)) return
  for (const proxy of lab.proxies) expect(proxy.counters.replies.delayed).toBeGreaterThan(0)
  expect(error.roundTripMs).toBeGreaterThanOrEqual(60)
  expect(error.message).toContain('`leaseMs` is 150')
  expect(error.message).toContain(`takes ${error.roundTripMs} ms`)
  expect(error.message).toContain(`set \`leaseMs\` to at least ${error.neededMs}`)
  // What it says is enough is enough, with what a busy machine adds to a round trip.
  expect(await whyNotReady(lab.unready({ leaseMs: 10 * error.neededMs }))).toBeUndefined()
})

it('a bootstrap where a lease exists, also under a key prefix of the address', async () => {
  const fleet = await masters(1)
  const { host, port } = item(fleet.masters, 0)
  const address = { host, port, keyPrefix: 'app:' }
  const options = { masters: [address], namespace: 'ns', logger: silentLogger, maxLeaseMs: 500 }
  const redlock = new Redlock({ ...options, leaseMs: 500 })
  clients.push(redlock)
  await redlock.ready()
  await using lease = await redlock.acquire('r', { waitMs: 5_000, autoExtend: true })
  const error: unknown = await redlock.bootstrap().catch((e: unknown) => e)
  expect(error).toBeInstanceOf(LeaseExistsError)
  expect(String(error)).toContain(`${host}:${port} holds a lease`)
  expect(String(error)).toContain('Bootstrap only a fleet on which no worker has run')
  expect(lease.remainingMs()).toBeGreaterThan(0)
})
