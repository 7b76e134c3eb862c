/**
 * The queue on a server with one replica: what a failover loses, and that all lines go on. Locks
 * are on servers of their own, so no two jobs of a customer overlap, whatever the queue forgets.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { silentLogger } from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import { startSentinels, type Sentinels } from '../support/sentinels.ts'
import { Load } from './queue-load.ts'
import { ask } from '../support/ask.ts'
import { hasCopied } from '../support/has-copied.ts'

const fixture = useFleet({ masters: 3, queue: false })
const LAG_MS = 700

interface Servers {
  readonly master: TestServer
  readonly replica: TestServer
  /** Between the two. */
  readonly link: FaultProxy
}

async function startServers(): Promise<Servers> {
  const config = { 'repl-diskless-sync-delay': '0', appendonly: 'yes' }
  const master = fixture.closing(await startServer({ name: 'first', config }))
  const link = fixture.closing(await startProxy(master.port))
  const replicaof = `127.0.0.1 ${link.port}`
  const replica = await startServer({ name: 'second', config: { ...config, replicaof } })
  fixture.defer(() => replica.close())
  await ask(replica.url, hasCopied)
  return { master, replica, link }
}

describe('behind three Sentinels', () => {
  type Watched = Servers & { readonly sentinels: Sentinels; readonly load: Load }

  async function start(workMs?: number): Promise<Watched> {
    const servers = await startServers()
    const sentinels = fixture.closing(await startSentinels('queue', servers.master))
    // Without the detector, a client waits for a master that hangs, and asks no Sentinel.
    const connection = { ...sentinels.connection, failoverDetector: true }
    const options = { connect: () => connection, ...(workMs !== undefined && { workMs }) }
    return { ...servers, sentinels, load: await Load.start(fixture, options) }
  }

  async function tookOver({ sentinels, replica }: Watched): Promise<number> {
    await until('it is the master', async () => (await sentinels.masterPort()) === replica.port)
    return performance.now()
  }

  test.each<[string, (watched: Watched) => Promise<void>]>([
    ['a failover under load', ({ sentinels }) => sentinels.failover()],
    ['kill -9 of the master under load', ({ master }) => master.kill()],
    ['a master that hangs under load', ({ master }) => master.freeze()],
  ])('%s: the workers go on with the new master', async (_what, strike) => {
    const watched = await start()
    await watched.load.startSlow()
    const since = performance.now()
    await strike(watched)
    await watched.load.judge(since, await tookOver(watched))
  })

  test('a replica that lags: what it had not copied is lost, and the rest goes on', async () => {
    // Lines grow, so that there is something to lose.
    const watched = await start(14)
    const since = performance.now()
    await watched.link.drop()
    await watched.load.startSlow()
    await delay(LAG_MS)
    await watched.master.kill()
    const { lost, repeated } = await watched.load.judge(since, await tookOver(watched))
    expect(lost.length).toBeGreaterThan(0)
    expect(repeated.length).toBeGreaterThan(0)
  })
})

test('a master that Sentinels name and that is a lock master, too, is reported', async () => {
  const { master } = await startServers()
  const sentinels = await startSentinels('queue', master)
  fixture.defer(() => sentinels.close())
  const redlock = await fixture.redlock({ masters: [master.url] })
  const said: object[] = []
  fixture.lockedWorker(() => Promise.resolve(), {
    ...{ connection: sentinels.connection, redlock, resource: () => 'customer:1' },
    logger: { ...silentLogger, warn: (fields: object): unknown => said.push(fields) },
  })
  await until('it is said', () => said.length > 0, 20_000)
  expect(said[0]).toMatchObject({ event: 'queue:is-master', master: new URL(master.url).host })
})

test('a name that leads to another master: clients leave the former one', async () => {
  const { master, replica } = await startServers()
  const name = fixture.closing(await startProxy(master.port))
  const load = await Load.start(fixture, { connect: () => ({ url: name.url }) })
  const [former, next] = [new Redis(master.url), new Redis(replica.url)]
  await load.startSlow()
  const since = performance.now()
  await next.replicaof('NO', 'ONE')
  name.redirect(replica.port)
  // All connections to it stay, and it takes no more writes.
  await former.replicaof('127.0.0.1', replica.port)
  for (const redis of [former, next]) redis.disconnect()
  await load.judge(since, performance.now())
})
