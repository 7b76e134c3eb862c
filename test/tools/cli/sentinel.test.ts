/** A queue's server that Sentinels watch: commands, programs and the page follow it. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { LockedQueue } from '../../../src/index.ts'
import { startServer } from '../../../src/testing/index.ts'
import { dashboardHandler } from '../../../src/tools/dashboard/index.ts'
import { until, useFleet } from '../../fixtures.ts'
import { startSentinels } from '../../support/sentinels.ts'
import { listen } from '../dashboard/harness.ts'
import { cli, runningCli, type Said } from './run-cli.ts'

const fixture = useFleet({ masters: 1, queue: false })

it('doctor, why, work and the page follow a failover', async () => {
  const first = fixture.closing(await startServer())
  const second = await startServer({ config: { replicaof: `${first.host} ${first.port}` } })
  fixture.defer(() => second.close())
  const sentinels = fixture.closing(await startSentinels('shop', first))
  const { connection } = sentinels
  const queueRedis = { ...connection, sentinels: [...connection.sentinels], failoverDetector: true }
  const directory = await mkdtemp(join(tmpdir(), 'sentinel-'))
  fixture.defer(() => rm(directory, { recursive: true }))
  const file = join(directory, 'config.json')
  const { urls: masters } = fixture.fleet
  const { namespace } = fixture
  await writeFile(file, JSON.stringify({ masters, namespace, queueRedis, timeoutMs: 2_000 }))
  const env = { BULLMQ_REDLOCK_CONFIG: file, QUEUE: 'calls' }
  const say = (...args: readonly string[]): Promise<Said> => cli(args, { env })
  await fixture.redlock({ leaseMs: 6_000 })

  const queue = new LockedQueue<{ customerId: number }>('calls', {
    connection: queueRedis,
    resource: ({ customerId }) => `customer:${customerId}`,
  })
  queue.on('error', () => undefined)
  fixture.defer(() => queue.close())
  const { id = '' } = await queue.add('post', { customerId: 1 })
  expect((await say('why', 'calls', id)).out).toContain('waits for a free worker')
  expect((await say('doctor')).out).toContain('queue shop (Sentinel): writes nothing to disk')
  const handler = dashboardHandler({ masters, namespace, queueRedis, timeoutMs: 2_000 })
  fixture.defer(() => handler.close())
  const page = await listen(fixture, handler)
  expect((await page.state()).queues).toMatchObject([{ queue: 'calls', waiting: 1 }])

  await using working = runningCli(['work', 'test/tools/cli/ledger-worker-child.ts'], {
    ...{ PATH: process.env['PATH'] },
    ...env,
  })
  await working.line(new RegExp(`finished ${id}$`))
  const replica = new Redis(second.url)
  fixture.defer(() => {
    replica.disconnect()
    return Promise.resolve()
  })
  await until('the replica has it', async () => (await replica.zcard('bull:calls:completed')) === 1)
  await first.kill()
  await until('it is replaced', async () => (await sentinels.masterPort()) === second.port)
  await until('commands follow', async () => {
    return (await say('why', 'calls', id)).out === `Job ${id} has completed.\n`
  })
  await until('the page follows', async () => {
    const { queues } = await page.state()
    return JSON.stringify(queues).includes('"done":1')
  })
  const next = await queue.add('post', { customerId: 1 })
  await working.line(new RegExp(`finished ${next.id ?? ''}$`))
  working.kill('SIGTERM')
  expect((await working.end()).code).toBe(0)

  const [{ host, port } = first] = connection.sentinels
  const sentinel = new Redis({ host, port })
  fixture.defer(() => {
    sentinel.disconnect()
    return Promise.resolve()
  })
  const subscribed = async (): Promise<boolean> =>
    String(await sentinel.call('CLIENT', 'LIST')).includes(' sub=1 ')
  expect(await subscribed()).toBe(true)
  await handler.close()
  await queue.close()
  await until('no connection to a Sentinel is left', async () => !(await subscribed()))
})
