import type { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { Redlock, silentLogger } from '../../../src/index.ts'
import type { TestServer } from '../../../src/testing/index.ts'
import { granted, useFleet } from '../../fixtures.ts'
import { hasCopied } from '../../support/has-copied.ts'

const fixture = useFleet({
  masters: 2,
  queue: false,
  config: { 'repl-diskless-sync-delay': '0' },
})

test('a master that took over the data of a former replica waits, although its process never restarted', async () => {
  const [serverA, serverB] = fixture.fleet.masters as [TestServer, TestServer]
  const [a, b] = [fixture.redis(serverA), fixture.redis(serverB)]
  const follow = async (replica: Redis, master: { host: string; port: number }): Promise<void> => {
    await replica.replicaof(master.host, master.port)
    await hasCopied(replica)
  }
  const namespace = fixture.namespace
  const options = { masters: [serverA.url], maxLeaseMs: 30_000, leaseMs: 30_000, namespace }
  const first = await fixture.redlock(options)
  await follow(b, serverA)
  await b.replicaof('NO', 'ONE')
  // B now has an old copy: the enrolment of A, and none of the leases that come.
  const lease = await granted(first, 'customer:1')
  await follow(a, serverB)
  await a.replicaof('NO', 'ONE')
  expect(await a.get(`${namespace}:lease:customer:1`)).toBeNull()
  // Not through the fixture, which ends the quarantine of a new fleet.
  const second = fixture.closing(new Redlock({ ...options, logger: silentLogger }))
  await second.ready()
  expect(await second.tryAcquire('customer:1')).toMatchObject({ status: 'unreachable' })
  expect(second.status().masters[0]?.state).toBe('quarantined')
  expect(lease.remainingMs()).toBeGreaterThan(0)
})
