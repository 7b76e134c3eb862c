import { setTimeout as delay } from 'node:timers/promises'
import { CreateMode, createClient, type Client } from 'node-zookeeper-client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { silentLogger } from '../../../src/index.ts'
import {
  ZooKeeperLocks,
  type ZooKeeperLocksOptions,
} from '../../../src/services/zookeeper/index.ts'
import { systemClock } from '../../../src/clock.ts'
import { Session } from '../../../src/services/zookeeper/session.ts'
import { ZooKeeperDriver } from '../../../src/services/zookeeper/zookeeper-driver.ts'
import { bucketOf, firstOf, nodePrefix } from '../../../src/services/zookeeper/places.ts'
import { Touches } from '../../../src/services/zookeeper/touches.ts'
import { lockServiceCases } from '../lock-service-cases.ts'
import { aborted, until, useClosers } from '../../fixtures.ts'
import { describeService } from '../../support/describe-service.ts'
import { useBystander } from '../../support/undisturbed.ts'
import { networkOf, startProxy, type FaultProxy } from '../../support/proxy.ts'
import {
  startZooKeeper,
  TICK_MS,
  type ZooKeeperEnsemble,
} from '../../../scripts/lock-servers/zookeeper-server.ts'

/** Of the cases, which wait for the end of many leases. */
const SHORT_MS = 1_500
const LEASE_MS = 3_000
/** A server that is busy answers late. */
const LONG = { leaseMs: LEASE_MS, requestTimeoutMs: 2_000 }

const SHORT = { leaseMs: SHORT_MS, requestTimeoutMs: SHORT_MS }

const closers = useClosers()
const undisturbed = useBystander()

async function open(
  servers: string,
  options: Partial<ZooKeeperLocksOptions> = {},
): Promise<ZooKeeperLocks> {
  const locks = new ZooKeeperLocks({
    ...{ servers, ...LONG, tickMs: TICK_MS, logger: silentLogger },
    ...options,
  })
  closers.add(() => locks.close())
  await locks.ready()
  return locks
}

/** A client to do by hand what nobody should do. */
async function byHand(servers: string): Promise<Client> {
  const client = createClient(servers)
  const connected = new Promise<void>((resolve) => {
    client.once('connected', resolve)
  })
  client.connect()
  await connected
  closers.add(() => {
    client.close()
    return Promise.resolve()
  })
  return client
}

const parentOf = (resource: string): string => `/redlock/${bucketOf(resource)}`

function children(client: Client, path: string): Promise<string[]> {
  return new Promise((resolve) => {
    client.getChildren(path, (_error, names: string[] | undefined) => {
      resolve(names ?? [])
    })
  })
}

function remove(client: Client, path: string): Promise<void> {
  return new Promise((resolve) => {
    client.remove(path, () => {
      resolve()
    })
  })
}

describeService('zookeeper', 'ZooKeeperLocks on one server', () => {
  let ensemble: ZooKeeperEnsemble
  let proxy: FaultProxy
  beforeAll(async () => {
    ensemble = await startZooKeeper(1)
    proxy = await startProxy(ensemble.members[0]?.port ?? 0)
  })
  afterAll(async () => {
    await proxy.close()
    await ensemble.close()
  })

  describe('pass the cases for lock services', () => {
    const cases = lockServiceCases({
      network: networkOf(() => [proxy]),
      open: () => open(`127.0.0.1:${proxy.port}`, SHORT),
    })
    for (const { name, run } of cases) test(name, () => undisturbed(run))
  })

  test('never hold a resource twice, and wake one waiter at a time', async () => {
    const clients = [await open(ensemble.servers), await open(ensemble.servers)]
    let [holders, most, last] = [0, 0, 0]
    await Promise.all(
      Array.from({ length: 16 }, async (_, index) => {
        for (let round = 0; round < 6; round++) {
          const names = index % 3 === 0 ? ['hot', 'other'] : 'hot'
          const client = clients[index % 2] as ZooKeeperLocks
          const lease = await client.acquire(names, { waitMs: 60_000, autoExtend: true })
          most = Math.max(most, ++holders)
          expect(lease.fencingToken).toBeGreaterThan(last)
          last = lease.fencingToken
          holders--
          await lease.release()
        }
      }),
    )
    expect(most).toBe(1)
    const client = await byHand(ensemble.servers)
    expect(await children(client, parentOf('hot'))).toEqual([])
  })

  test("1: a frozen server costs the lease by the client's clock", async () => {
    const locks = await open(ensemble.servers)
    const lease = await locks.acquire('stopped', { autoExtend: true })
    const [member] = ensemble.members
    member?.process.freeze()
    try {
      await aborted(lease.signal)
      expect(performance.now()).toBeGreaterThanOrEqual(lease.trustedUntil)
    } finally {
      member?.process.thaw()
    }
    await (await locks.acquire('stopped', { waitMs: 20_000 })).release()
  })

  test('2: trust ends before the server expires the session', async () => {
    const locks = await open(`127.0.0.1:${proxy.port}`)
    const other = await open(ensemble.servers)
    const lease = await locks.acquire('cut-off', { autoExtend: true })
    await proxy.drop()
    const next = await other.acquire('cut-off', { waitMs: 20_000 })
    expect(performance.now()).toBeGreaterThan(lease.trustedUntil)
    expect(lease.signal.aborted).toBe(true)
    await next.release()
    await proxy.pass()
  })

  test('3: a node whose answer was lost does not block the line', async () => {
    const locks = await open(`127.0.0.1:${proxy.port}`, { requestTimeoutMs: 1_500 })
    const other = await open(ensemble.servers)
    await (await locks.acquire('orphan')).release()
    const hold = proxy.holdReplies()
    const attempt = locks.tryAcquire('orphan')
    await hold.held
    hold.lose()
    expect((await attempt).status).toBe('unreachable')
    await (await other.acquire('orphan', { waitMs: 20_000 })).release()
    const client = await byHand(ensemble.servers)
    await until('nothing is left of it', async () => {
      return (await children(client, parentOf('orphan'))).length === 0
    })
  })

  test('4, 5: a waiter continues when its predecessor vanishes or its connection breaks', async () => {
    const holder = await open(ensemble.servers)
    const waiting = await open(`127.0.0.1:${proxy.port}`)
    const lease = await holder.acquire('watched', { autoExtend: true })
    const acquiring = waiting.acquire('watched', { waitMs: 30_000 })
    await delay(300)
    proxy.reset() // Its watch goes with the connection.
    await lease.release()
    await (await acquiring).release()
  })

  test('6: tokens increase after the parent node was removed and made again', async () => {
    const locks = await open(ensemble.servers)
    const first = await locks.acquire('again')
    await first.release()
    const client = await byHand(ensemble.servers)
    await remove(client, parentOf('again'))
    const second = await locks.acquire('again')
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken)
    const [node = ''] = await children(client, parentOf('again'))
    expect(node).toMatch(/\.0000000000$/)
    await second.release()
  })

  test('7: nodes whose numbers wrap at 2^31 keep their order', async () => {
    const locks = await open(ensemble.servers)
    await (await locks.acquire('wraps')).release() // Makes the parent.
    const client = await byHand(ensemble.servers)
    const nodes = ['2147483647', '-2147483648'].map(
      (number) => `${parentOf('wraps')}/${nodePrefix('wraps', 'ab'.repeat(20))}${number}`,
    )
    for (const [index, node] of nodes.entries()) {
      await new Promise((resolve) => {
        client.create(node, Buffer.from(`holder-${index}`), CreateMode.EPHEMERAL, resolve)
      })
    }
    expect((await locks.inspect('wraps')).holder?.name).toContain('holder-0')
    await remove(client, nodes[0] ?? '')
    expect((await locks.inspect('wraps')).holder?.name).toContain('holder-1')
  })

  test('8: the negotiated timeout is reported', async () => {
    const locks = await open(ensemble.servers, {
      ...{ leaseMs: 300, requestTimeoutMs: 300, maxLeaseMs: 30_000 },
    })
    const lease = await locks.acquire('short')
    expect(lease.leaseMs).toBe(2 * TICK_MS)
    await lease.release()
  })

  test('10: a new session from the server ends the old one', async () => {
    const session = new Session({
      ...{ servers: `127.0.0.1:${proxy.port}`, timeoutMs: LEASE_MS, tickMs: TICK_MS },
      ...{ auth: undefined, clock: systemClock },
    })
    closers.add(() => session.closed())
    await session.connected()
    const before = session.client.getSessionId().toString('hex')
    // The client asks for no session that the server could know.
    const { connectionManager } = session.client as unknown as {
      connectionManager: { sessionId: Buffer; sessionPassword: Buffer }
    }
    connectionManager.sessionId = Buffer.alloc(8)
    connectionManager.sessionPassword = Buffer.alloc(16)
    proxy.reset()
    await until('the session is over', () => session.isOver)
    expect(session.client.getSessionId().toString('hex')).not.toBe(before)
    const asking = session.ask<unknown>((client, callback) => {
      client.exists('/', callback)
    })
    await expect(asking).rejects.toThrow('is over')
  })

  test('opens no session after the close', async () => {
    const driver = new ZooKeeperDriver(
      {
        ...{ servers: `127.0.0.1:${proxy.port}`, timeoutMs: LEASE_MS, tickMs: TICK_MS },
        ...{ auth: undefined, clock: systemClock },
      },
      'closed',
    )
    await driver.ready()
    await driver.close()
    const before = proxy.counters.connections
    const wish = { resources: ['a'], token: `${'ab'.repeat(20)}@me`, leaseMs: LEASE_MS }
    await expect(driver.abandon(wish)).rejects.toThrow('was closed')
    await expect(driver.acquire(wish)).rejects.toThrow('was closed')
    expect(proxy.counters.connections).toBe(before)
  })

  test('a node that was deleted by hand costs the lease at the next renewal', async () => {
    const locks = await open(ensemble.servers, { leaseMs: 6_000 })
    const lease = await locks.acquire('deleted', { autoExtend: true })
    const client = await byHand(ensemble.servers)
    const [node = ''] = await children(client, parentOf('deleted'))
    await remove(client, `${parentOf('deleted')}/${node}`)
    expect(await aborted(lease.signal)).toMatchObject({ code: 'LEASE_LOST' })
    expect(performance.now()).toBeLessThan(lease.trustedUntil)
  })

  test('inspect names the holder and hides its token', async () => {
    const locks = await open(ensemble.servers, { owner: 'worker-7' })
    const lease = await locks.acquire('seen')
    const seen = await locks.inspect('seen')
    expect(seen.holder).toMatchObject({ fencingToken: lease.fencingToken })
    expect(seen.holder?.name).toContain('worker-7')
    expect(JSON.stringify(seen)).not.toContain(lease.token)
    await lease.release()
    expect((await locks.inspect('seen')).holder).toBeUndefined()
  })

  test('bad options are refused by name', () => {
    expect(() => new ZooKeeperLocks({ servers: '' })).toThrow('`servers`')
    expect(() => new ZooKeeperLocks({ servers: 'a:1', tickMs: 0 })).toThrow('`tickMs`')
  })
})

describeService('zookeeper', 'ZooKeeperLocks on an ensemble of three', () => {
  let ensemble: ZooKeeperEnsemble
  beforeAll(async () => {
    ensemble = await startZooKeeper(3)
  })
  afterAll(() => ensemble.close())
  afterEach(async () => {
    for (const { process } of ensemble.members) {
      process.thaw()
      if (process.pid === 0) await process.restart()
    }
  })

  test('9: a client of a follower never sees two holders', async () => {
    const clients = await Promise.all(
      ensemble.members.map(({ port }) => open(`127.0.0.1:${port}`, { leaseMs: 3_000 })),
    )
    let [holders, most, granted] = [0, 0, 0]
    await Promise.all(
      clients.flatMap((client) =>
        [1, 2].map(async () => {
          for (let round = 0; round < 10; round++) {
            const outcome = await client.tryAcquire('lagging')
            if (outcome.status !== 'granted') continue
            granted++
            most = Math.max(most, ++holders)
            await delay(2)
            holders--
            await outcome.lease.release()
          }
        }),
      ),
    )
    expect(most).toBe(1)
    expect(granted).toBeGreaterThan(0)
  })

  test('a killed leader costs no lease of a session that moves in time', async () => {
    const locks = await open(ensemble.servers, { leaseMs: 8_000, requestTimeoutMs: 4_000 })
    const lease = await locks.acquire('survives', { autoExtend: true })
    const leader = await ensemble.leader()
    await leader.process.kill()
    await until('an extension goes to the new leader', async () => {
      return lease.signal.aborted || (await lease.extend()).status === 'extended'
    })
    expect(lease.signal.aborted).toBe(false)
    await lease.release()
  })

  test('10: an old lease stays lost in a new session', async () => {
    const locks = await open(ensemble.servers)
    const lease = await locks.acquire('expired', { autoExtend: true })
    for (const { process } of ensemble.members) process.freeze()
    await aborted(lease.signal)
    for (const { process } of ensemble.members) process.thaw()
    const next = await locks.acquire('expired', { waitMs: 30_000 })
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
    expect(lease.remainingMs()).toBe(0)
    await expect(lease.extend()).rejects.toMatchObject({ code: 'LEASE_LOST' })
    await lease.release()
    next.assertHeld()
    await next.release()
  })
})

describe('places of ZooKeeper', () => {
  const name = (resource: string, sequence: string): string =>
    `${nodePrefix(resource, 'ab'.repeat(20))}${sequence}`

  test('are ordered by their number, also where it wraps at 2^31', () => {
    const names = ['-2147483648', '2147483647', '-2147483647', '2147483646'].map((number) =>
      name('a', number),
    )
    expect(firstOf('a', names)?.name).toBe(name('a', '2147483646'))
    expect(firstOf('a', names, name('a', '-2147483648'))?.name).toBe(name('a', '2147483647'))
    expect(firstOf('a', names, name('a', '2147483646'))).toBeUndefined()
  })

  test('of other resources do not count, whatever their names', () => {
    const names = [name('a.b', '0000000001'), name('ä/?', '0000000002'), name('a', '0000000003')]
    expect(firstOf('a', names, name('a', '0000000003'))).toBeUndefined()
    expect(firstOf('ä/?', names)?.sequence).toBe(2)
  })
})

describe('the timeout of a session', () => {
  test('counts from a request only when a later write proves that the leader heard of it', () => {
    const touches = new Touches(100)
    expect(touches.provenBy(150, 50)).toBe(100)
    touches.answered(200, 210)
    touches.answered(300, 390)
    expect(touches.provenBy(250, 50)).toBe(100)
    expect(touches.provenBy(260, 50)).toBe(200)
    expect(touches.provenBy(430, 50)).toBe(200)
    expect(touches.provenBy(440, 50)).toBe(300)
  })

  test('starts anew where the connection broke', () => {
    const touches = new Touches(0)
    touches.answered(10, 11)
    touches.broken(500)
    touches.answered(600, 601)
    expect(touches.provenBy(610, 50)).toBe(500)
  })
})
