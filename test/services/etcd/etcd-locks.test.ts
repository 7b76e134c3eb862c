import { once } from 'node:events'
import { createServer, request as httpRequest, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { silentLogger, type Lease } from '../../../src/index.ts'
import { EtcdLocks, type EtcdLocksOptions } from '../../../src/services/etcd/index.ts'
import { lockServiceCases } from '../lock-service-cases.ts'
import { aborted, until, useClosers } from '../../fixtures.ts'
import { describeService } from '../../support/describe-service.ts'
import { useBystander } from '../../support/undisturbed.ts'
import { networkOf, startProxy, type FaultProxy } from '../../support/proxy.ts'
import {
  DEFAULT_TIMING,
  post,
  startEtcd,
  type EtcdCluster,
} from '../../../scripts/lock-servers/etcd-server.ts'

/** Of the cases, which wait for the end of many leases. */
const SHORT_MS = 1_000
const LEASE_MS = 3_000
/** A server that is busy answers late. */
const LONG = { leaseMs: LEASE_MS, requestTimeoutMs: 2_000 }

const SHORT = { leaseMs: SHORT_MS, requestTimeoutMs: SHORT_MS }

const closers = useClosers()
const undisturbed = useBystander()

async function open(
  endpoints: readonly string[],
  options: Partial<EtcdLocksOptions> = {},
): Promise<EtcdLocks> {
  const locks = new EtcdLocks({ endpoints, ...LONG, logger: silentLogger, ...options })
  closers.add(() => locks.close())
  await locks.ready()
  return locks
}

/** A gateway before a member, whose watches and answers are those of the test. */
interface Gateway {
  readonly url: string
  target: string
  watched: ((response: ServerResponse) => void) | undefined
  /** What it says instead of a member's answer. */
  said: ((answer: string) => string) | undefined
  /** How late its answers come. */
  lateMs: number
  /** It tells its status only to users who have logged in. */
  isGuarded: boolean
  count(path: string): number
}

/** As etcd 3.6 says it: an error has no field `error`, and that of a stream has fewer fields. */
function newer(answer: string): string {
  const { error, ...said } = JSON.parse(answer) as {
    error?: string | { readonly grpc_code: number; readonly message: string }
  }
  if (typeof error !== 'object') return JSON.stringify(said)
  return JSON.stringify({ error: { code: error.grpc_code, message: error.message } })
}

async function startGateway(target: string): Promise<Gateway> {
  const paths: (string | undefined)[] = []
  const server = createServer((request, response) => {
    paths.push(request.url)
    if (request.url === '/v3/watch' && gateway.watched !== undefined) {
      request.resume()
      gateway.watched(response)
      return
    }
    const { method, headers } = request
    if (gateway.isGuarded && request.url?.endsWith('/status') && !headers.authorization) {
      response.end('{"code":16,"message":"etcdserver: invalid auth token"}')
      return
    }
    const url = new URL(request.url ?? '', gateway.target)
    const { said } = gateway
    const forwarded = httpRequest(url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, { 'content-type': 'application/json' })
      if (said === undefined && gateway.lateMs === 0) answer.pipe(response)
      else
        textOf(answer).then(
          (text) => setTimeout(() => response.end(said?.(text) ?? text), gateway.lateMs),
          () => response.destroy(),
        )
    })
    forwarded.on('error', () => response.destroy())
    request.pipe(forwarded)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.add(() => {
    server.closeAllConnections()
    server.close()
    return Promise.resolve()
  })
  const gateway: Gateway = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ...{ target, watched: undefined, said: undefined, lateMs: 0, isGuarded: false },
    count: (path) => paths.filter((one) => one === path).length,
  }
  return gateway
}

const keyOf = (resource: string): string =>
  Buffer.from(`redlock/lease/${resource}`).toString('base64')

describeService('etcd', 'EtcdLocks on one member', () => {
  let cluster: EtcdCluster
  let proxy: FaultProxy
  beforeAll(async () => {
    cluster = await startEtcd(1)
    proxy = await startProxy(cluster.members[0]?.port ?? 0)
  })
  afterAll(async () => {
    await proxy.close()
    await cluster.close()
  })

  describe('pass the cases for lock services', () => {
    const cases = lockServiceCases({
      network: networkOf(() => [proxy]),
      open: () => open([`http://127.0.0.1:${proxy.port}`], { ...SHORT }),
    })
    for (const { name, run } of cases) test(name, () => undisturbed(run))
  })

  test('5: a transaction whose answer was lost is found again as its own', async () => {
    const locks = await open([`http://127.0.0.1:${proxy.port}`, ...cluster.urls], {
      leaseMs: 20_000,
      requestTimeoutMs: 1_000,
    })
    await (await locks.acquire('cut')).release()
    const hold = proxy.holdReplies()
    const acquiring = locks.tryAcquire('cut')
    await hold.held // The lease is granted, and its answer is held back.
    const outcome = await acquiring
    hold.release()
    expect(outcome.status).toBe('granted')
  })

  test('7: a key that was deleted by hand costs the lease at the next renewal', async () => {
    const locks = await open(cluster.urls)
    const lease = await locks.acquire('deleted', { autoExtend: true })
    await post(cluster.urls[0] ?? '', '/v3/kv/deleterange', { key: keyOf('deleted') })
    expect(await aborted(lease.signal)).toMatchObject({ code: 'LEASE_LOST' })
    expect(performance.now()).toBeLessThan(lease.trustedUntil)
  })

  test('8: a release spares a key that another holder made', async () => {
    const locks = await open(cluster.urls, { leaseMs: 5_000 })
    const other = await open(cluster.urls, { leaseMs: 5_000 })
    const first = await locks.acquire('again')
    await post(cluster.urls[0] ?? '', '/v3/kv/deleterange', { key: keyOf('again') })
    const second = await other.acquire('again')
    await first.release()
    expect((await locks.tryAcquire('again')).status).toBe('taken')
    await second.release()
  })

  test('9: a watch that was compacted away leads to a new read', async () => {
    const locks = await open(cluster.urls)
    const lease = await locks.acquire('compacted', { autoExtend: true })
    const other = await open(cluster.urls)
    const acquiring = other.acquire('compacted', { waitMs: 20_000 })
    for (let round = 0; round < 5; round++) {
      await post(cluster.urls[0] ?? '', '/v3/kv/put', { key: keyOf('noise'), value: 'AA==' })
    }
    const { header } = (await (
      await post(cluster.urls[0] ?? '', '/v3/kv/range', { key: keyOf('noise') })
    ).json()) as { header: { revision: string } }
    await post(cluster.urls[0] ?? '', '/v3/kv/compaction', { revision: header.revision })
    await lease.release()
    await (await acquiring).release()
  })

  test('10: a thousand leases outlive a blocked event loop, and none is left behind', async () => {
    const url = cluster.urls[0] ?? ''
    const locks = await open(cluster.urls, {
      leaseMs: 20_000,
      maxLeaseMs: 20_000,
      requestTimeoutMs: 10_000,
    })
    const leases: Lease[] = []
    for (let index = 0; index < 1_000; index += 50) {
      const some = Array.from({ length: 50 }, (_, of) =>
        locks.acquire(`many:${index + of}`, { autoExtend: true }),
      )
      leases.push(...(await Promise.all(some)))
    }
    const taken = await Promise.all(
      leases.slice(0, 50).map(({ resource }) => locks.tryAcquire(resource)),
    )
    expect(new Set(taken.map(({ status }) => status))).toEqual(new Set(['taken']))
    const blockedUntil = performance.now() + 3_000
    while (performance.now() < blockedUntil) {
      // Nothing else runs.
    }
    await delay(1_000)
    for (const lease of leases) expect(lease.signal.aborted).toBe(lease.remainingMs() === 0)
    expect(leases.filter(({ signal }) => signal.aborted)).toHaveLength(0)
    for (let index = 0; index < 1_000; index += 50) {
      await Promise.all(leases.slice(index, index + 50).map((lease) => lease.release()))
    }
    const left = (await (await post(url, '/v3/lease/leases', {})).json()) as { leases?: unknown[] }
    expect(left.leases ?? []).toHaveLength(0)
  })

  describe('an endpoint of another cluster', () => {
    let second: EtcdCluster
    beforeAll(async () => {
      second = await startEtcd(1)
    })
    afterAll(() => second.close())
    const [ours, theirs] = [() => cluster.urls[0] ?? '', () => second.urls[0] ?? '']

    test('has failed from the moment when its address is used again', async () => {
      const reused = await startGateway(ours())
      const locks = await open([reused.url, ours()], { leaseMs: 5_000 })
      expect(locks.clusterId).toMatch(/^\d+$/)
      const lease = await locks.acquire('reused')
      reused.target = theirs()
      expect((await lease.extend()).status).toBe('extended')
      const other = await open([ours()])
      expect((await other.tryAcquire('reused')).status).toBe('taken')
      // Neither does a refusal count: "requested lease not found".
      reused.target = ours()
      const again = await open([reused.url, ours()], { leaseMs: 5_000 })
      const freed = await again.acquire('freed')
      reused.target = theirs()
      await freed.release()
      expect((await other.inspect('freed')).holder).toBeUndefined()
      await lease.release()
    })

    test('gets no lease of a client that starts', async () => {
      const down = 'http://127.0.0.1:1'
      const locks = await open([theirs(), ours(), ours()])
      expect(locks.clusterId).toBe((await open([ours()])).clusterId)
      const few = /^Fewer than half of the `endpoints` of etcd answer\. Start the others/
      for (const [endpoints, said] of [
        [[ours(), theirs()], 'Give those of one cluster'],
        [[down, down, theirs()], few],
        [[down, down], few],
      ] as const) {
        const mixed = new EtcdLocks({ endpoints, leaseMs: LEASE_MS, logger: silentLogger })
        closers.add(() => mixed.close())
        const outcome = await mixed.tryAcquire('mixed')
        expect(outcome).toMatchObject({ status: 'unreachable' })
        await expect(mixed.ready()).rejects.toThrow(said)
      }
    })
  })

  test.each([
    ['an object that says nothing', '{}'],
    ['a message', '{"message":"no Route matched with those values"}'],
    ['an error without a code', '{"status":503,"error":"Service Unavailable"}'],
    ['a code that is none of etcd', '{"code":503,"message":"Service Unavailable"}'],
  ])('an endpoint that answers with %s has failed', async (_what, answer) => {
    const [url = ''] = cluster.urls
    const gateway = await startGateway(url)
    for (const verb of ['extend', 'release'] as const) {
      gateway.said = undefined
      const locks = await open([gateway.url, url], { leaseMs: 5_000 })
      const lease = await locks.acquire('proxied')
      gateway.said = () => answer
      if (verb === 'extend') expect((await lease.extend()).status).toBe('extended')
      await lease.release()
      expect((await locks.inspect('proxied')).holder).toBeUndefined()
    }
  })

  describe('a watch that', () => {
    const error = { error: { grpc_code: 14, http_code: 503, message: 'server is shutting down' } }
    const page = '<html>\n<h1>503</h1>\n</html>\n'
    const BROKEN: Readonly<Record<string, (response: ServerResponse) => void>> = {
      'ends at once': (response) => response.end(),
      'is a page of a proxy': (response) => response.writeHead(503).end(page),
      'is a page that does not end': (response) => response.writeHead(200).write(page),
      'has an error line': (response) => response.write(`${JSON.stringify(error)}\n`),
      'has null in a line': (response) => response.write('null\n{"result":null}\n'),
      'has no object in a line': (response) => response.write('{"result":"events"}\n5\n'),
      'has a line without an end': (response) => response.write('{'.repeat(2_000_000)),
      'is cut in a line': (response) => {
        response.write('{"result":{"eve')
        setTimeout(() => response.destroy(), 20)
      },
      'is refused': (response) => response.write('{"result":{"created":true,"canceled":true}}\n'),
    }
    for (const [what, answer] of Object.entries(BROKEN)) {
      test(`${what} costs nothing but time, and little of it`, async () => {
        const gateway = await startGateway(cluster.urls[0] ?? '')
        gateway.watched = answer
        const locks = await open([gateway.url])
        const holder = await open(cluster.urls)
        const lease = await holder.acquire('watched', { autoExtend: true })
        const before = gateway.count('/v3/lease/grant')
        const uncaught = vi.fn()
        process.on('uncaughtException', uncaught)
        const acquiring = locks.acquire('watched', { waitMs: 20_000 })
        await delay(1_000)
        process.off('uncaughtException', uncaught)
        expect(uncaught).not.toHaveBeenCalled()
        expect(gateway.count('/v3/lease/grant') - before).toBeLessThan(5)
        await lease.release()
        await (await acquiring).release()
      })
    }
  })

  test('members that are late grant leases, as long as they answer within a request', async () => {
    const url = cluster.urls[0] ?? ''
    const gateways = await Promise.all([1, 2, 3].map(() => startGateway(url)))
    const locks = await open(gateways.map((gateway) => gateway.url))
    for (const gateway of gateways) gateway.lateMs = LONG.requestTimeoutMs * 0.4
    await (await locks.acquire('late', { waitMs: 10 * LEASE_MS })).release()
  })

  test('an attempt that has written no key asks a member that is late for nothing more', async () => {
    const gateway = await startGateway(cluster.urls[0] ?? '')
    const locks = await open([gateway.url], { requestTimeoutMs: 100 })
    const revokes = gateway.count('/v3/lease/revoke')
    gateway.lateMs = 150
    const outcome = await locks.tryAcquire('late')
    // Its lease has no key, and ends by itself.
    await delay(LEASE_MS / 2)
    expect(outcome.status).toBe('unreachable')
    expect(gateway.count('/v3/lease/revoke') - revokes).toBe(0)
  })

  test('namespaces that nest stay apart', async () => {
    const outer = await open(cluster.urls, { namespace: 'a' })
    const inner = await open(cluster.urls, { namespace: 'a/lease/x' })
    const one = await outer.acquire('x/lease/y', { autoExtend: true })
    const two = await inner.acquire('y', { waitMs: 0 })
    expect(await outer.leases(10)).toMatchObject([{ resource: 'x/lease/y' }])
    expect(await inner.leases(10)).toMatchObject([{ resource: 'y' }])
    await one.release()
    await two.release()
  })

  test('ready says why no lease can be had', async () => {
    const full = await startEtcd(1, { more: ['--quota-backend-bytes', '1'] })
    const gateway = await startGateway(full.urls[0] ?? '')
    gateway.said = newer
    try {
      for (const endpoints of [full.urls, [gateway.url]]) {
        const locks = new EtcdLocks({ endpoints, logger: silentLogger })
        await expect(locks.ready()).rejects.toThrow(/^etcdserver: .*space/)
        await locks.close()
      }
    } finally {
      await full.close()
    }
  })

  test('bad options are refused by name', () => {
    expect(() => new EtcdLocks({ endpoints: [] })).toThrow('`endpoints`')
    expect(() => new EtcdLocks({ endpoints: ['10.0.0.1:2379'] })).toThrow('`endpoints`')
    expect(() => new EtcdLocks({ endpoints: ['http://a'], user: 'x' } as never)).toThrow('`user`')
  })
})

describeService('etcd', 'EtcdLocks on a cluster of three', () => {
  let cluster: EtcdCluster
  beforeAll(async () => {
    cluster = await startEtcd(3, DEFAULT_TIMING)
  })
  afterAll(() => cluster.close())
  afterEach(async () => {
    for (const { process } of cluster.members) {
      process.thaw()
      if (process.pid === 0) await process.restart()
    }
  })

  test('2: reports the two seconds that the server grants for a TTL of one', async () => {
    const locks = await open(cluster.urls, { leaseMs: 1_000, requestTimeoutMs: 1_000 })
    const startedAt = performance.now()
    const lease = await locks.acquire('short')
    expect(lease.leaseMs).toBe(2_000)
    expect(lease.trustedUntil).toBeLessThan(startedAt + 2_000 + (performance.now() - startedAt))
    await lease.release()
  })

  test('3: a live lease that an old leader revokes is lost at the next renewal, or stays', async () => {
    const leader = await cluster.leader()
    const others = cluster.members.filter((member) => member !== leader)
    const locks = await open(
      others.map(({ url }) => url),
      { leaseMs: 3_000, maxHoldMs: 60_000 },
    )
    const lease = await locks.acquire('revoked', { autoExtend: true })
    leader.process.freeze()
    await delay(5_000) // Longer than the lease, which the others renew meanwhile.
    const isHeld = lease.remainingMs() > 0
    leader.process.thaw()
    await delay(3_000)
    // etcd 3.4.23 may revoke it now. Whatever it does, the holder and the server agree.
    const inspected = await locks.inspect('revoked')
    if (inspected.holder === undefined) await aborted(lease.signal)
    console.info(`The lease was ${lease.signal.aborted ? 'revoked by the old leader' : 'kept'}.`)
    expect(isHeld || lease.signal.aborted).toBe(true)
    if (!lease.signal.aborted) expect(inspected.holder?.fencingToken).toBe(lease.fencingToken)
    await lease.release()
  })

  test('4: a restart of the whole cluster frees no lease early', async () => {
    const locks = await open(cluster.urls, { leaseMs: 8_000, requestTimeoutMs: 3_000 })
    const lease = await locks.acquire('restart')
    await Promise.all(cluster.members.map(({ process }) => process.kill()))
    for (const { process } of cluster.members) process.launch()
    await Promise.all(cluster.members.map(({ process }) => process.ready()))
    const other = await open(cluster.urls, { leaseMs: 8_000 })
    while (lease.remainingMs() > 0) {
      expect((await other.tryAcquire('restart')).status).not.toBe('granted')
      await delay(100)
    }
    const next = await other.acquire('restart', { waitMs: 30_000 })
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
    await next.release()
  })

  test('6: a member without a quorum extends nothing', async () => {
    const leader = await cluster.leader()
    const locks = await open([leader.url], { leaseMs: 6_000 })
    const lease = await locks.acquire('partitioned')
    for (const member of cluster.members) if (member !== leader) member.process.freeze()
    await delay(200) // One that runs at this moment stops a little later, and may answer before.
    const before = lease.trustedUntil
    const outcome = await lease.extend()
    expect(outcome.status).toBe('unreachable')
    expect(lease.trustedUntil).toBe(before)
    await aborted(lease.signal)
  })

  test('a member that is down or frozen costs no lease', async () => {
    const leader = await cluster.leader()
    const locks = await open(cluster.urls, { leaseMs: 6_000, requestTimeoutMs: 3_000 })
    const lease = await locks.acquire('survives', { autoExtend: true })
    await leader.process.kill()
    await until('an extension goes to the others', async () => {
      return (await lease.extend()).status === 'extended'
    })
    lease.assertHeld()
    await lease.release()
  })
})

async function addRoot(url: string): Promise<void> {
  await post(url, '/v3/auth/user/add', { name: 'root', password: 'secret' })
  await post(url, '/v3/auth/role/add', { name: 'root' })
  await post(url, '/v3/auth/user/grant', { user: 'root', role: 'root' })
  await post(url, '/v3/auth/enable', {})
}

describeService('etcd', 'EtcdLocks with users', () => {
  test.each([
    ['errors of 3.4', undefined, false],
    ['errors of 3.6', newer, false],
    ['a status for users only', undefined, true],
  ])(
    'log in, and again when the server has forgotten the token (%s)',
    async (_of, said, isGuarded) => {
      const cluster = await startEtcd(1)
      try {
        const [url = ''] = cluster.urls
        const gateway = await startGateway(url)
        Object.assign(gateway, { said, isGuarded })
        await addRoot(url)
        const wrong = { username: 'root', password: 'wrong' }
        await expect(open([gateway.url], wrong)).rejects.toThrow(/password/)
        const locks = await open([gateway.url], { username: 'root', password: 'secret' })
        await (await locks.acquire('with-user')).release()
        await cluster.members[0]?.process.kill() // Simple tokens end with their member.
        await cluster.members[0]?.process.restart()
        await (await locks.acquire('with-user', { waitMs: 10_000 })).release()
        await locks.close()
      } finally {
        await cluster.close()
      }
    },
  )

  test('a password that is set later is tried again, also where the status needs one', async () => {
    const cluster = await startEtcd(1)
    try {
      const gateway = await startGateway(cluster.urls[0] ?? '')
      gateway.isGuarded = true
      const user = { username: 'root', password: 'secret' }
      const locks = new EtcdLocks({ endpoints: [gateway.url], ...user, logger: silentLogger })
      closers.add(() => locks.close())
      await expect(locks.acquire('early', { waitMs: 0 })).rejects.toThrow(/let this client in/)
      await addRoot(gateway.target)
      await (await locks.acquire('later', { waitMs: 5_000 })).release()
    } finally {
      await cluster.close()
    }
  })
})
