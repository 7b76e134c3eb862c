/**
 * The queue on a server with one replica: what a failover loses, and that all lines go on. Locks
 * are on servers of their own, so no two jobs of a customer overlap, whatever the queue forgets.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import type { Redlock } from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import { startSentinels, type Sentinels } from '../support/sentinels.ts'
import { Load, type LoadOptions } from './queue-load.ts'

const fixture = useFleet({ masters: 3, queue: false })
const LEASE_MS = 3_000
/** One lease and a moment, BullMQ's pause before it connects anew, and a machine that is busy. */
const STANDSTILL_MS = LEASE_MS + 2_000 + 1_000 + 2_000
/** What was done so shortly before may not have been copied, or written down. */
const SLACK_MS = 300
const LAG_MS = 700

interface Servers {
  readonly master: TestServer
  readonly replica: TestServer
  /** Between the two. */
  readonly link: FaultProxy
}

async function startServers(): Promise<Servers> {
  const config = { 'repl-diskless-sync-delay': '0', appendonly: 'yes' }
  const master = await startServer({ name: 'first', config })
  fixture.defer(() => master.close())
  const link = await startProxy(master.port)
  fixture.defer(() => link.close())
  const replicaof = `127.0.0.1 ${link.port}`
  const replica = await startServer({ name: 'second', config: { ...config, replicaof } })
  fixture.defer(() => replica.close())
  const redis = new Redis(replica.url)
  await until('it has copied', async () =>
    (await redis.info('replication')).includes('master_link_status:up'),
  )
  redis.disconnect()
  return { master, replica, link }
}

async function startLoad(options: Omit<LoadOptions, 'redlock'>): Promise<Load> {
  const redlock: Redlock = await fixture.redlock({ leaseMs: LEASE_MS, masterTimeoutMs: 900 })
  const load = new Load(fixture, { redlock, ...options })
  await load.start()
  return load
}

interface Losses {
  readonly lost: readonly number[]
  readonly repeated: readonly number[]
}

/**
 * Lets it go on for a while and end, and judges it.
 * @param since from when on the new master may have no copy.
 * @param until when it took over.
 */
async function judged(load: Load, since: number, tookOver: number): Promise<Losses> {
  await load.goesOn()
  await load.finish()
  expect(load.violations()).toEqual([])
  expect(load.standstillMs(tookOver)).toBeLessThan(STANDSTILL_MS)
  const [lost, repeated] = [load.lost(), load.repeated()]
  for (const at of [...lost, ...repeated]) {
    expect(at).toBeGreaterThan(since - SLACK_MS)
    expect(at).toBeLessThan(tookOver + STANDSTILL_MS)
  }
  return { lost, repeated }
}

describe('behind three Sentinels', () => {
  type Sentinel = Servers & { readonly sentinels: Sentinels; readonly load: Load }

  async function start(options: { readonly workMs?: number } = {}): Promise<Sentinel> {
    const servers = await startServers()
    const sentinels = await startSentinels('queue', servers.master)
    fixture.defer(() => sentinels.close())
    // Without the detector, a client waits for a master that is cut off, and asks no Sentinel.
    const connection = { ...sentinels.connection, failoverDetector: true }
    const load = await startLoad({ connect: () => connection as never, ...options })
    return { ...servers, sentinels, load }
  }

  async function tookOver({ sentinels, replica }: Sentinel): Promise<number> {
    await until('it is the master', async () => (await sentinels.masterPort()) === replica.port)
    return performance.now()
  }

  test.each<[string, (set: Sentinel) => Promise<void>]>([
    ['a failover under load', ({ sentinels }) => sentinels.failover()],
    ['kill -9 of the master under load', ({ master }) => master.kill()],
    ['a master that hangs under load', ({ master }) => master.freeze()],
  ])('%s: all goes on', async (_what, strike) => {
    const set = await start()
    const since = performance.now()
    await strike(set)
    const losses = await judged(set.load, since, await tookOver(set))
    console.log(_what, losses.lost.length, losses.repeated.length, set.load.standstillMs(since), set.load.errors)
  })

  test('a replica that lags: what it had not copied is lost, and the rest goes on', async () => {
    // Lines grow, so that there is something to lose.
    const set = await start({ workMs: 14 })
    const since = performance.now()
    await set.link.drop()
    await delay(LAG_MS)
    await set.master.kill()
    const { lost, repeated } = await judged(set.load, since, await tookOver(set))
    console.log(lost.length, repeated.length, set.load.standstillMs(since), set.load.errors)
    expect(lost.length).toBeGreaterThan(0)
    expect(repeated.length).toBeGreaterThan(0)
  })
})

test('a name that leads to another master: who is connected to the former one leaves it', async () => {
  const { master, replica } = await startServers()
  const name = await startProxy(master.port)
  fixture.defer(() => name.close())
  const load = await startLoad({ connect: () => ({ url: name.url }) })
  const since = performance.now()
  const [former, next] = [new Redis(master.url), new Redis(replica.url)]
  // All connections to the former master stay.
  await next.replicaof('NO', 'ONE')
  name.redirect(replica.port)
  await former.replicaof('127.0.0.1', replica.port)
  const losses = await judged(load, since, performance.now())
  console.log(losses.lost.length, losses.repeated.length, load.standstillMs(since), load.errors)
  for (const redis of [former, next]) redis.disconnect()
})
