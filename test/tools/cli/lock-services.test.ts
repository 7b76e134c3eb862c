/** The command line with `--locks`, on the real servers of each service. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { LockCluster } from '../../../scripts/lock-servers/lock-cluster.ts'
import { KINDS, LOCK_SERVERS } from '../../../scripts/lock-servers/lock-servers.ts'
import { LockedQueue, silentLogger } from '../../../src/index.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { openLocks } from '../../../src/tools/operator/open-locks.ts'
import { until } from '../../fixtures.ts'
import { describeService } from '../../support/describe-service.ts'
import { openStory } from '../../stories/lock-services.ts'
import { cli, runningCli } from './run-cli.ts'

const MODULE = 'test/tools/cli/ledger-worker-child.ts'

for (const kind of KINDS) {
  describeService(kind, `the command line with leases of ${kind}`, () => {
    let redis: TestServer
    let cluster: LockCluster
    let env: NodeJS.ProcessEnv
    beforeAll(async () => {
      const starting = LOCK_SERVERS[kind].start(1)
      ;[redis, cluster] = await Promise.all([startServer({ name: 'queue' }), starting])
      env = { BULLMQ_REDLOCK_LOCKS: cluster.address, BULLMQ_REDLOCK_TIMEOUT_MS: '4000' }
    })
    afterAll(async () => {
      await redis.close()
      await cluster.close()
    })

    test('doctor, leases, inspect and why show what the service reports', async () => {
      const locks = await openStory(cluster.address)
      const lease = await locks.acquire('customer:42', { autoExtend: true })
      const slot = await locks.acquire('gpu', { autoExtend: true, slots: 2 })

      const doctor = await cli(['doctor', '--json'], { env })
      const found = doctor.json<{
        healthy: boolean
        servers: { role: string; version: string }[]
      }>()
      expect(found.servers).toMatchObject([
        { role: expect.stringMatching(/leader|standalone|primary/) as string },
      ])
      // Debian's etcd 3.4 has a fault that the doctor names.
      const isOld = kind === 'etcd' && /^3\.4/.test(found.servers[0]?.version ?? '')
      expect([doctor.code, found.healthy]).toEqual(isOld ? [1, false] : [0, true])

      const leases = await cli(['leases', '--match', 'customer:*', '--json'], { env })
      expect(leases.code).toBe(0)
      expect(leases.json<{ leases: object[] }>().leases).toMatchObject([
        { resource: 'customer:42', state: 'held', fencingToken: lease.fencingToken, votes: 1 },
      ])
      expect(leases.out).not.toContain(lease.token)

      const held = await cli(['inspect', 'customer:42'], { env })
      expect(held.code).toBe(0)
      expect(held.out).toContain(`with fencing token ${lease.fencingToken}`)
      expect(held.out).not.toMatch(/master/i)
      expect((await cli(['leases'], { env })).out).not.toMatch(/master|votes/i)
      const slots = await cli(['inspect', 'gpu', '--json'], { env })
      expect(slots.json<{ slots: object[] }>().slots).toMatchObject([
        { resource: slot.resource, fencingToken: slot.fencingToken },
      ])

      const queue = new LockedQueue('jobs', {
        connection: { url: redis.url },
        resource: ({ customerId }: { customerId: number }) => `customer:${customerId}`,
      })
      const job = await queue.add('post', { customerId: 42 })
      const args = ['why', 'jobs', job.id ?? '', '--queue-redis', redis.url]
      expect((await cli(args, { env })).out).toContain('customer:42')
      await queue.obliterate({ force: true })
      await queue.close()

      await lease.release()
      await slot.release()
      expect((await cli(['inspect', 'customer:42'], { env })).out).toContain('customer:42 is free')
      await locks.close()
    })

    test('work gives the service to its modules, and is ready while it answers', async () => {
      await using working = runningCli(
        ['work', MODULE, '--health-port', '0', '--health-host', '127.0.0.1'],
        { ...env, BULLMQ_REDLOCK_QUEUE: redis.url, QUEUE: 'works' },
      )
      const [, base = ''] = await working.line(/health at (http:\/\/[\d.:]+)\/healthz/)
      const ready = (): Promise<Response> => fetch(`${base}/readyz`)
      await until('it is ready', async () => (await ready()).status === 200)
      expect(await (await ready()).json()).toMatchObject({ masters: { voting: 1, quorum: 1 } })
      const queue = new LockedQueue('works', {
        connection: { url: redis.url },
        resource: ({ customerId }: { customerId: number }) => `customer:${customerId}`,
      })
      const job = await queue.add('post', { customerId: 1 })
      await working.line(new RegExp(`finished ${job.id ?? ''}$`))
      const metrics = await (await fetch(`${base}/metrics`)).text()
      expect(metrics).toMatch(/redlock_\w*acquire\w*\{/)
      await queue.close()
      working.kill('SIGTERM')
      expect((await working.end()).code).toBe(0)
    })

    test('dashboard shows the servers, the leases and one resource', async () => {
      const locks = await openStory(cluster.address)
      const lease = await locks.acquire('customer:7', { autoExtend: true })
      await using serving = runningCli(['dashboard', '--port', '0'], env)
      const [, url = ''] = await serving.line(/dashboard at (\S+)/)
      const get = async (path: string): Promise<unknown> => (await fetch(url + path)).json()
      expect(await get('state')).toMatchObject({
        fleet: { voting: 1, quorum: 1, masters: [{ state: 'votes' }] },
        leases: { rows: [{ resource: 'customer:7', fencingToken: lease.fencingToken }] },
      })
      expect(await get('resource?name=customer:7')).toMatchObject({
        ...{ state: 'held', holder: { fencingToken: lease.fencingToken }, slots: [] },
      })
      await lease.release()
      await locks.close()
    })

    test('a command about masters says which commands there are', async () => {
      const said = await cli(['release', 'customer:42', '--yes'], { env })
      expect(said.code).toBe(2)
      expect(said.err).toContain('With --locks, use doctor, leases')
    })

    test('a server that is away: exit code 3, and why; it is named, and no master', async () => {
      const locks = await openLocks(cluster.address, { logger: silentLogger })
      await locks.ready()
      const { service } = await locks.health()
      expect(locks.status().masters).toEqual([{ name: service, state: 'voting' }])
      await cluster.members[0]?.process.kill()
      const acquired = locks.acquire('customer:42', { waitMs: 0 })
      const error = await acquired.then(() => undefined, String)
      expect(error).toContain(`${service} grants no lease on \`customer:42\``)
      expect(error).not.toMatch(/master|quorum of/i)
      expect(locks.status().masters).toMatchObject([{ name: service, state: 'connecting' }])
      await locks.close()
      const soon = { env: { ...env, BULLMQ_REDLOCK_TIMEOUT_MS: '1000' } }
      const doctor = await cli(['doctor'], soon)
      expect(doctor.code).toBe(3)
      expect(doctor.out).toContain(`NO LEASES from ${service}: `)
      for (const args of [['inspect', 'customer:42'], ['leases']]) {
        const said = await cli(args, soon)
        expect(said.code, said.err).toBe(3)
        expect(said.err).toContain('does not answer')
        expect(said.out).toContain(`not known: ${service} does not answer`)
        expect(`${said.out}${said.err}`).not.toContain(`answer: ${service} did not answer`)
        expect(said.out).not.toMatch(/master|votes|that answer/i)
      }
    })
  })
}

test('an address of another form is refused, and not repeated', async () => {
  const said = await cli(['doctor', '--locks', 'mysql://root:geheim@db/app'])
  expect(said.code).toBe(2)
  expect(said.err).toContain('Expected --locks to be')
  expect(said.err).not.toContain('geheim')
  const both = await cli(['doctor', '--locks', 'etcd:http://a:1', '--master', 'redis://a:1'])
  expect(both.err).toContain('Both --master and --locks are given')
})
