/**
 * Servers that deny what managed offers deny, by their documents in 2026: a master votes, and a
 * queue runs. No such offer was rented.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { LockedQueue, LockedWorker, Redlock, silentLogger } from '../../../src/index.ts'
import { takePort } from '../../../src/testing/free-port.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { granted, until, useFleet } from '../../fixtures.ts'
import { tell } from '../../support/ask.ts'
import { SLOTS } from '../../support/redis-cluster.ts'
import { cli } from '../../tools/cli/run-cli.ts'

const fixture = useFleet({ masters: 0, queue: false })
const directory = await mkdtemp(join(tmpdir(), 'managed-'))
afterAll(() => rm(directory, { recursive: true }))

const ADMIN = 'BGREWRITEAOF BGSAVE CONFIG DEBUG MIGRATE REPLICAOF SAVE SHUTDOWN'.split(' ')
const DENIED: Readonly<Record<string, readonly string[]>> = {
  ElastiCache: [...ADMIN, 'SLAVEOF', 'SYNC'],
  Memorystore: [...ADMIN, 'ACL', 'CLIENT', 'CLUSTER', 'COMMAND', 'LASTSAVE', 'MONITOR', 'OBJECT'],
  'Aiven for Valkey': [
    ...[...ADMIN, 'ACL', 'CLUSTER', 'COMMAND', 'FAILOVER', 'LASTSAVE', 'MONITOR', 'SLAVEOF'],
  ],
}

async function serverWithout(commands: readonly string[]): Promise<TestServer> {
  const file = join(directory, `${commands.join('-')}.conf`)
  await writeFile(file, commands.map((command) => `rename-command ${command} ""\n`).join(''))
  return fixture.closing(await startServer({ config: { include: file } }))
}

test.each(Object.entries(DENIED))('%s: a master votes, and a queue runs', async (_what, denied) => {
  const [master, server] = [await serverWithout(denied), await serverWithout(denied)]
  const { namespace } = fixture
  const redlock = await fixture.redlock({ masters: [master.url] })
  const other = await fixture.redlock({ masters: [master.url] })
  const lease = await granted(redlock, 'customer:1')
  const waiting = other.acquire('customer:1', { waitMs: 30_000 })
  expect(await lease.extend()).toMatchObject({ status: 'extended' })
  await lease.release()
  await (await waiting).release()

  const connection = { url: server.url }
  const resource = (): string => 'customer:1'
  const queue = fixture.closing(new LockedQueue(namespace, { connection, resource }))
  const ran: string[] = []
  const worker = new LockedWorker(namespace, ({ name }) => Promise.resolve(ran.push(name)), {
    ...{ connection, redlock, resource, logger: silentLogger },
  })
  fixture.defer(() => worker.close())
  await queue.addBulk(['a', 'b', 'c'].map((name) => ({ name, data: {} })))
  await until('all have run', () => ran.length === 3)
  expect(ran).toEqual(['a', 'b', 'c'])

  const args = ['doctor', '--master', master.url, '--namespace', namespace]
  const { code, out } = await cli([...args, '--queue-redis', server.url], {})
  expect([code, out]).toEqual([0, expect.stringContaining('healthy: 1 of 1 master votes')])
})

const ALLOW = 'use a server that allows INFO, TIME, SCRIPT LOAD, EVAL and EVALSHA'

test.each(['EVAL', 'EVALSHA', 'SCRIPT', 'TIME'])(
  'without %s: refused, with what to do',
  async (command) => {
    const { url } = await serverWithout([command])
    const redlock = fixture.closing(new Redlock({ masters: [url], logger: silentLogger }))
    const refused = `refuses what a lease needs: ERR unknown command '${command.toLowerCase()}'; ${ALLOW}`
    await expect(redlock.ready()).rejects.toThrow(refused)
  },
)

test('in cluster mode: refused, with what to do', async () => {
  const busPort = await takePort('127.0.0.1')
  const config = { 'cluster-enabled': 'yes', 'cluster-port': String(busPort) }
  const server = fixture.closing(await startServer({ config }))
  await tell(server, 'CLUSTER', 'ADDSLOTSRANGE', 0, SLOTS - 1)
  await until('it serves', async () =>
    String(await tell(server, 'CLUSTER', 'INFO')).includes('cluster_state:ok'),
  )
  const redlock = fixture.closing(new Redlock({ masters: [server.url], logger: silentLogger }))
  await expect(redlock.ready()).rejects.toThrow(/cluster node; use a server without cluster mode/)
  const { out } = await cli(['doctor', '--master', server.url], {})
  expect(out).toContain('fix: use a server without cluster mode')
})

test('`doctor` says what a master must allow', async () => {
  const { url } = await serverWithout(['EVALSHA'])
  expect((await cli(['doctor', '--master', url], {})).out).toContain(`fix: ${ALLOW}`)
})
