import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { CreateMode, createClient, type Client } from 'node-zookeeper-client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { RedlockClosedError, silentLogger } from '../../../src/index.ts'
import {
  ZooKeeperLocks,
  type ZooKeeperLocksOptions,
} from '../../../src/services/zookeeper/index.ts'
import { systemClock } from '../../../src/clock.ts'
import { Session, Touches } from '../../../src/services/zookeeper/session.ts'
import { ZooKeeperDriver } from '../../../src/services/zookeeper/zookeeper-driver.ts'
import { bucketOf, firstOf, nodePrefix } from '../../../src/services/zookeeper/nodes.ts'
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

  test('3: an attempt that makes the parent leaves no node, where its last answer is late and lost', async () => {
    const options = { namespace: 'cold', leaseMs: 8_000, requestTimeoutMs: 900 }
    const locks = await open(`127.0.0.1:${proxy.port}`, options)
    const client = await byHand(ensemble.servers)
    const made = (): Promise<string[]> => children(client, `/cold/${bucketOf('new')}`)
    // Its second `create` leaves after three answers. What was abandoned is looked for before that.
    proxy.delay({ repliesMs: 600 })
    const attempt = locks.tryAcquire('new')
    await until('its node is there', async () => (await made()).length > 0)
    await delay(450) // The answer to the look is here, and that to the `create` is not.
    proxy.reset()
    proxy.delay({ repliesMs: 0 })
    expect((await attempt).status).toBe('unreachable')
    await until('nothing is left of it', async () => (await made()).length === 0)
  })

  test('3: a waiter leaves no node of an attempt that the servers answered late', async () => {
    const slow = { leaseMs: 6_000, requestTimeoutMs: 300 }
    const holder = await open(ensemble.servers, { leaseMs: 6_000 })
    const waiting = await open(`127.0.0.1:${proxy.port}`, slow)
    const client = await byHand(ensemble.servers)
    for (const standMs of [400, 2_200]) {
      const lease = await holder.acquire('late', { autoExtend: true })
      const acquiring = waiting.acquire('late', { waitMs: 30_000 })
      await delay(200) // A waiter tries again every second, by itself.
      const hold = proxy.holdReplies()
      await delay(standMs)
      hold.release()
      await lease.release()
      await (await acquiring).release()
      // Nor one that was given up.
      const last = await holder.acquire('late', { autoExtend: true })
      const giving = waiting.acquire('late', { waitMs: 200 }).catch(() => undefined)
      const again = proxy.holdReplies()
      await Promise.all([giving, delay(standMs)])
      again.release()
      await last.release()
      await until('nothing is left', async () => {
        return (await children(client, parentOf('late'))).length === 0
      })
    }
  }, 60_000)

  describe('what a server or a proxy sends does not end the process:', () => {
    /** Its connections: to the server, or to a test that answers. */
    async function startBetween(
      answer: (client: Socket, server: Socket | undefined) => void,
      isForwarding: boolean,
    ): Promise<number> {
      const sockets = new Set<Socket>()
      const listener = createServer((client) => {
        const server = isForwarding
          ? connect(ensemble.members[0]?.port ?? 0, '127.0.0.1')
          : undefined
        for (const socket of [client, ...(server === undefined ? [] : [server])]) {
          sockets.add(socket)
          socket.on('error', () => undefined)
          socket.on('close', () => {
            client.destroy()
            server?.destroy()
          })
        }
        answer(client, server)
      })
      listener.listen(0, '127.0.0.1')
      await once(listener, 'listening')
      closers.add(() => {
        for (const socket of sockets) socket.destroy()
        listener.close()
        return Promise.resolve()
      })
      return (listener.address() as AddressInfo).port
    }

    const uncaught = vi.fn()
    beforeEach(() => {
      uncaught.mockClear()
      process.on('uncaughtException', uncaught)
    })
    afterEach(() => {
      process.off('uncaughtException', uncaught)
      expect(uncaught).not.toHaveBeenCalled()
    })

    test.each([1, 3, 5, 30])('a reply that is cut after %i bytes', async (bytes) => {
      let [isCut, cuts] = [false, 0]
      const port = await startBetween((client, server) => {
        if (server === undefined) return
        client.pipe(server)
        server.on('data', (data) => {
          client.write(isCut ? data.subarray(0, bytes) : data)
          if (isCut) client.end()
          if (isCut) cuts++
          isCut = false
        })
      }, true)
      const locks = await open(`127.0.0.1:${port}`, { leaseMs: 4_000, requestTimeoutMs: 1_000 })
      const lease = await locks.acquire('cut', { autoExtend: true })
      for (let round = 1; round <= 3; round++) {
        isCut = true
        await until('a reply is cut', () => cuts === round)
        await until('the lease is extended', async () => {
          return (await lease.extend()).status === 'extended'
        })
      }
      await lease.release()
    })

    test('an answer to another request', async () => {
      let isWrong = false
      const port = await startBetween((client, server) => {
        if (server === undefined) return
        client.pipe(server)
        server.on('data', (data) => {
          // Its number stands behind the size.
          if (isWrong && data.readInt32BE(4) > 0) data.writeInt32BE(1_000_000, 4)
          client.write(data)
        })
      }, true)
      const locks = await open(`127.0.0.1:${port}`, { leaseMs: 6_000, requestTimeoutMs: 1_000 })
      isWrong = true
      await expect(locks.inspect('forgotten')).rejects.toThrow('CONNECTION_LOSS')
      isWrong = false
      await (await locks.acquire('forgotten', { waitMs: 6_000 })).release()
    })

    test('an error that the library does not know', async () => {
      let isOdd = true
      const [noNode, quotaExceeded] = [-101, -125].map((code) => {
        const bytes = Buffer.alloc(4)
        bytes.writeInt32BE(code)
        return bytes
      })
      const port = await startBetween((client, server) => {
        if (server === undefined || noNode === undefined) return
        client.pipe(server)
        server.on('data', (data) => {
          for (let at = 0; isOdd && (at = data.indexOf(noNode, at)) >= 0; at += 4) {
            quotaExceeded?.copy(data, at)
          }
          client.write(data)
        })
      }, true)
      const servers = `127.0.0.1:${port}`
      const options = { leaseMs: 6_000, requestTimeoutMs: 4_000, logger: silentLogger }
      const locks = new ZooKeeperLocks({ servers, ...options, namespace: 'odd', tickMs: TICK_MS })
      closers.add(() => locks.close())
      const answers = [{ master: 'ZooKeeper', answer: expect.stringContaining('LOSS') as unknown }]
      expect(await locks.tryAcquire('odd')).toMatchObject({ status: 'unreachable', answers })
      isOdd = false
      await (await locks.acquire('odd', { waitMs: 6_000 })).release()
    })

    const frame = (...bytes: number[]): Buffer => Buffer.from(bytes)
    test.each([
      ['a page', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
      ['a negative size', frame(0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8)],
      ['an empty reply', frame(0, 0, 0, 0, 0, 0, 0, 0)],
      ['a short reply', frame(0, 0, 0, 2, 1, 2, 0, 0)],
      [
        'a reply with a size of its own',
        frame(0, 0, 0, 20, ...Array.from({ length: 20 }, () => 127)),
      ],
    ])('%s', async (_what, bytes) => {
      const port = await startBetween(
        (client) => client.on('data', () => client.write(bytes)),
        false,
      )
      const locks = new ZooKeeperLocks({ servers: `127.0.0.1:${port}`, logger: silentLogger })
      closers.add(() => locks.close())
      expect((await locks.tryAcquire('garbage')).status).toBe('unreachable')
    })
  })

  describe('ready', () => {
    const unready = (servers: string): Promise<void> => {
      const locks = new ZooKeeperLocks({ servers, leaseMs: LEASE_MS, logger: silentLogger })
      closers.add(() => locks.close())
      return locks.ready()
    }

    test('rejects without a server, and with a path that does not exist', async () => {
      await expect(unready('127.0.0.1:1')).rejects.toThrow('granted no lease within')
      await expect(unready(`${ensemble.servers}/missing`)).rejects.toThrow('Create it')
    })

    test.each(['.', '..', 'a/b', 'zoo keeper', '%'])('namespace %s', async (namespace) => {
      const locks = await open(ensemble.servers, { namespace })
      await (await locks.acquire('named')).release()
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

  test('8: the negotiated timeout is reported, and no reason to hold a lease longer than it may be', async () => {
    const locks = await open(ensemble.servers, {
      ...{ leaseMs: 300, requestTimeoutMs: 300, maxLeaseMs: 30_000 },
    })
    const lease = await locks.acquire('short')
    expect(lease.leaseMs).toBe(2 * TICK_MS)
    await lease.release()
    const held = await locks.acquire('short', { maxHoldMs: 300 })
    expect(held.remainingMs()).toBeLessThanOrEqual(300)
    await aborted(held.signal) // It is released then, and not at the end of the session.
    await (await locks.acquire('short', { maxHoldMs: 300 })).release()
  })

  test('10: a new session from the server ends the old one', async () => {
    const session = new Session({
      ...{ servers: `127.0.0.1:${proxy.port}`, timeoutMs: LEASE_MS, tickMs: TICK_MS },
      ...{ auth: undefined, clock: systemClock },
    })
    closers.add(() => session.closed())
    await session.connected
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
    await expect(session.ask('exists', '/')).rejects.toThrow('is over')
  })

  test('is closed in the turn in which it was opened', async () => {
    const locks = new ZooKeeperLocks({ servers: `127.0.0.1:${proxy.port}`, logger: silentLogger })
    const refused = expect(locks.acquire('a')).rejects.toBeInstanceOf(RedlockClosedError)
    await locks.close()
    await refused
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

  test('a session that is too short for `tickMs` grants nothing, and says so to all', async () => {
    const { servers } = ensemble
    const options = { leaseMs: 1_000, tickMs: 5 * TICK_MS, logger: silentLogger }
    const locks = closers.closing(new ZooKeeperLocks({ servers, ...options }))
    const answer = expect.stringContaining('Set `tickMs` to the `tickTime`') as unknown
    expect((await locks.inspect('short')).ungranted).toBeUndefined()
    await expect(locks.ready()).rejects.toThrow('is too short for a `tickMs` of 2000')
    expect((await locks.inspect('short')).ungranted).toEqual(answer)
    const answers = [{ master: 'ZooKeeper', answer }]
    expect(await locks.tryAcquire('short')).toMatchObject({ status: 'unreachable', answers })
    expect(locks.status().masters).toMatchObject([{ reason: answer }])
  })

  test('bad options are refused by name', () => {
    expect(() => new ZooKeeperLocks({ servers: '' })).toThrow('`servers`')
    expect(() => new ZooKeeperLocks({ servers: 'a:1', tickMs: 0 })).toThrow('`tickMs`')
    for (const servers of ['a:port', 'a:99999', 'a:1/../b', 'a:1/b/', 'zk://a:1', 'u:p@a:1']) {
      expect(() => new ZooKeeperLocks({ servers })).toThrow('`servers`')
    }
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

  test('3: an attempt whose session moved to a server that lags leaves no node', async () => {
    const proxies = new Map<number, FaultProxy>()
    const slow = await startZooKeeper(3, async (port) => {
      const proxy = await startProxy(port)
      proxies.set(port, proxy)
      return proxy.port
    })
    const leader = await slow.leader()
    const follower = slow.members.find((member) => member !== leader)
    const [near, peers] = [proxies.get(leader.port), proxies.get(leader.peerPorts[0] ?? 0)]
    const servers = `127.0.0.1:${near?.port ?? 0},127.0.0.1:${follower?.port ?? 0}`
    const session = { servers, timeoutMs: 8_000, tickMs: TICK_MS, auth: undefined }
    const client = await byHand(`127.0.0.1:${leader.port}`)
    const drivers: ZooKeeperDriver[] = []
    try {
      let driver: ZooKeeperDriver
      // The library begins with any of its servers.
      do {
        driver = new ZooKeeperDriver({ ...session, clock: systemClock }, 'redlock')
        drivers.push(driver)
        await driver.ready()
      } while (near?.counters.open === 0)
      const wish = { resources: ['moved'], token: `${'ab'.repeat(20)}@me`, leaseMs: 8_000 }
      await driver.acquire(wish)
      await driver.abandon(wish)
      peers?.delay({ repliesMs: 700 })
      const acquiring = driver.acquire(wish)
      await delay(100) // The leader has it, and no quorum yet.
      await near?.refuse()
      await expect(acquiring).rejects.toThrow('CONNECTION_LOSS')
      await driver.abandon(wish)
      await delay(2_000)
      expect(await children(client, parentOf('moved'))).toEqual([])
    } finally {
      await Promise.all(drivers.map((one) => one.close()))
      await slow.close()
      await Promise.all([...proxies.values()].map((proxy) => proxy.close()))
    }
  }, 90_000)

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

  test('forgets what only a write could prove that was given up long ago', () => {
    const touches = new Touches(0)
    for (const at of [10, 100, 200_000, 200_100]) touches.answered(at, at)
    expect(touches.provenBy(61, 50)).toBe(0)
    expect(touches.provenBy(200_050, 50)).toBe(200_000)
  })

  test('starts anew where the connection broke', () => {
    const touches = new Touches(0)
    touches.answered(10, 11)
    touches.broken(500)
    touches.answered(600, 601)
    expect(touches.provenBy(610, 50)).toBe(500)
  })
})
