/** A queue on a Redis Cluster: the address of any node is enough. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { LockedQueue, ShardedQueue } from '../../../src/index.ts'
import { shardOf } from '../../../src/sharded/placement.ts'
import type { TestServer } from '../../../src/testing/index.ts'
import { until, useFleet } from '../../fixtures.ts'
import { moveSlot, ownerOf, startCluster } from '../../support/redis-cluster.ts'
import { QueueServer, takesWrites } from '../../../src/tools/operator/queue-server.ts'
import { dashboardHandler } from '../../../src/tools/dashboard/index.ts'
import { listen } from '../dashboard/harness.ts'
import { cli, runningCli, type Said } from './run-cli.ts'
import { fleetEnv } from '../../support/fleet-env.ts'

const fixture = useFleet({ masters: 1, queue: false })
let nodes: readonly TestServer[] = []
beforeAll(async () => {
  // A node that is frozen is away, and no other one declares that it has failed.
  nodes = await startCluster({ config: { 'cluster-node-timeout': '120000' } })
})
afterAll(async () => {
  await Promise.all(nodes.map((node) => node.close()))
})

describe.each([0, 1, 2])('by the address of node %i', (index) => {
  let name = ''
  let queue: LockedQueue<{ customerId: number }>
  beforeEach(() => {
    name = fixture.namespace
    const connection = fixture.cluster(nodes)
    const resource = ({ customerId }: { customerId: number }): string => `customer:${customerId}`
    queue = new LockedQueue(name, { connection, prefix: '{bull}', resource })
    fixture.defer(() => queue.close())
  })

  const say = (args: readonly string[], prefix = '{bull}'): Promise<Said> => {
    const BULLMQ_REDLOCK_QUEUE = nodes[index]?.url
    const env = { ...fixture.env, BULLMQ_REDLOCK_QUEUE, BULLMQ_REDLOCK_PREFIX: prefix }
    return cli(args, { env })
  }

  it('pause, limit and limits', async () => {
    await queue.add('post', { customerId: 1 })
    expect(await say(['pause', name, 'customer:1'])).toMatchObject({ code: 0, err: '' })
    expect((await queue.getLimits('customer:1')).paused).toBeDefined()
    expect((await say(['limit', name, 'customer:2', '--slots', '4'])).code).toBe(0)
    expect((await queue.getLimits('customer:2')).slots).toMatchObject({ slots: 4 })
    const { limits } = (await say(['limits', name, '--json'])).json<{ limits: unknown[] }>()
    expect(limits).toMatchObject([{ resource: 'customer:1' }, { resource: 'customer:2' }])
  })

  it('why, inspect and cancel', async () => {
    await fixture.redlock()
    const [first, second] = await queue.addBulk(
      [1, 1].map((customerId) => ({ name: 'post', data: { customerId } })),
    )
    expect((await say(['why', name, second?.id ?? ''])).out).toContain('1 ahead of it')
    const { line } = (await say(['inspect', 'customer:1', '--json'])).json<{
      line: { queue: string }[]
    }>()
    expect(line.filter((one) => one.queue === name)).toMatchObject([
      { jobId: first?.id },
      { jobId: second?.id },
    ])
    const cancelled = await say(['cancel', name, '--resource', 'customer:1', '--yes'])
    expect(cancelled).toMatchObject({ code: 0 })
    expect(await queue.getFailedCount()).toBe(2)
    expect((await say(['leave-lines', name, '--yes'])).code).toBe(0)
  })

  it('retry, skip and doctor', async () => {
    await fixture.redlock()
    const { id = '' } = await queue.add('post', { customerId: 1 })
    expect((await say(['skip', name, id])).out).toContain('holds no line')
    expect((await say(['cancel', name, '--job', id, '--yes'])).code).toBe(0)
    expect((await say(['retry', name, id])).out).toContain('waits again')
    expect(await queue.getFailedCount()).toBe(0)
    const { out, err } = await say(['doctor'])
    expect(out + err).not.toMatch(/MOVED|non local/)
  })

  it('work runs jobs, and drains', async () => {
    await fixture.redlock()
    const jobs = await queue.addBulk(
      [1, 2, 1].map((customerId) => ({ name: 'post', data: { customerId } })),
    )
    await using working = runningCli(['work', 'test/tools/cli/ledger-worker-child.ts'], {
      ...{ ...fixture.env, BULLMQ_REDLOCK_QUEUE: nodes[index]?.url, QUEUE: name },
      BULLMQ_REDLOCK_PREFIX: '{bull}',
    })
    for (const { id = '' } of jobs) await working.line(new RegExp(`finished ${id}$`))
    working.kill('SIGTERM')
    expect((await working.end()).code).toBe(0)
  })

  it('a prefix without braces: says what to write', async () => {
    const said = await say(['limits', name], 'bull')
    expect(said.code).toBe(1)
    expect(said.err).toContain('is a cluster: give its prefix in braces, such as {bull}')
  })
})

it('a node that is away: doctor finds it, and what is on the others is told', async () => {
  const [named, , away] = nodes
  const shards = 3
  const connection = fixture.cluster(nodes)
  const resource = ({ name }: { name: string }): string => name
  const { namespace: prefix, fleet } = fixture
  const queue = fixture.closing(new ShardedQueue('calls', { connection, shards, prefix, resource }))
  const at = (shard: number): string => {
    const names = Array.from({ length: 99 }, (_, nr) => `customer:${nr}`)
    return names.find((name) => shardOf([name], shards) === shard) ?? ''
  }
  const { id = '' } = await queue.add('call', { name: at(1) })
  await queue.add('call', { name: at(0) }, { jobId: 'mine', timestamp: Date.now() - 90_000 })
  const { id: lost = '' } = await queue.add('call', { name: at(2) })
  await fixture.redlock()
  await away?.freeze()
  fixture.defer(() => away?.thaw() ?? Promise.resolve())
  const env = {
    ...fleetEnv(fleet.urls, prefix, named?.url),
    BULLMQ_REDLOCK_PREFIX: prefix,
    BULLMQ_REDLOCK_TIMEOUT_MS: '300',
  }
  const where = `${away?.host ?? ''}:${away?.port ?? 0}`
  const doctor = await cli(['doctor', '--json'], { env })
  expect(doctor.code).toBe(1)
  const { findings } = doctor.json<{ findings: unknown[] }>()
  const ofJobs = { code: 'long-wait', where: 'queue calls' }
  const fact = expect.stringMatching(/^at least 2 jobs wait, and job mine/) as string
  expect(findings).toContainEqual(expect.objectContaining({ ...ofJobs, fact }))
  expect(findings).toContainEqual(
    expect.objectContaining({ code: 'unreachable', severity: 'error', where: `queue ${where}` }),
  )
  const options = { masters: fleet.urls, queueRedis: named?.url ?? '', namespace: prefix, prefix }
  const handler = fixture.closing(dashboardHandler({ ...options, timeoutMs: 300 }))
  const { queues, history } = await (await listen(fixture, handler)).state()
  const missing = expect.stringContaining(where) as string
  expect(queues).toMatchObject([{ queue: 'calls', waiting: 2, missing }])
  expect(history.at(-1)).not.toHaveProperty('waiting')
  for (const shard of [0, 1]) {
    const seen = await cli(['inspect', at(shard)], { env })
    expect(seen.code).toBe(1)
    expect(seen.out).toMatch(/1 +calls +\S+ +waiting/)
    expect(seen.out).toContain(`not all queues are known: node ${where} of the cluster does not`)
  }
  const unseen = await cli(['inspect', at(2), '--json'], { env })
  const { line } = unseen.json<{ line: { problem: string } }>()
  expect(line.problem).toContain(where)
  for (const known of [id, 'mine']) {
    const why = await cli(['why', 'calls', known], { env })
    expect(why).toMatchObject({ code: 0, err: '' })
    expect(why.out).toContain('waits for a free worker')
  }
  for (const args of [
    ['why', 'calls', lost],
    ['why', 'calls', 'nobody'],
    ['pause', 'calls', at(2)],
    ['limits', 'calls'],
  ]) {
    const { code, err } = await cli(args, { env })
    expect([code, err]).toEqual([1, expect.stringContaining(`node ${where} of the cluster does`)])
  }
})

it('the node of the first shard is away: the page has a row of the queue, and says why', async () => {
  const [away, named] = nodes
  const { namespace: prefix, fleet } = fixture
  const connection = fixture.cluster(nodes)
  const resource = ({ name }: { name: string }): string => name
  const queue = new ShardedQueue('calls', { connection, shards: 3, prefix, resource })
  fixture.defer(() => queue.close())
  await queue.addBulk(
    [1, 2, 3, 4].map((nr) => ({ name: 'call', data: { name: `customer:${nr}` } })),
  )
  await fixture.redlock()
  await away?.freeze()
  fixture.defer(() => away?.thaw() ?? Promise.resolve())
  const options = { masters: fleet.urls, queueRedis: named?.url ?? '', namespace: prefix, prefix }
  const handler = fixture.closing(dashboardHandler({ ...options, timeoutMs: 300 }))
  const served = await listen(fixture, handler)
  const missing = expect.stringContaining(`:${away?.port ?? 0} of the cluster does not`) as string
  expect((await served.state()).queues).toMatchObject([{ queue: 'calls', waiting: 0, missing }])
  await away?.thaw()
  await until('it is whole', async () => {
    const { queues } = await served.state()
    return JSON.stringify(queues).includes('"waiting":4')
  })
})

describe('a cluster with troubles', () => {
  const env = (): NodeJS.ProcessEnv => ({
    ...fixture.env,
    BULLMQ_REDLOCK_QUEUE: nodes[0]?.url,
    BULLMQ_REDLOCK_PREFIX: '{moved}',
  })

  it('a slot that moves: commands say so, and answer when it has moved', async () => {
    const connection = fixture.cluster(nodes)
    const queue = new LockedQueue('calls', {
      ...{ connection, prefix: '{moved}', resource: () => 'customer:1' },
    })
    fixture.defer(() => queue.close())
    await fixture.redlock()
    const { id = '' } = await queue.add('call', {})
    const server = new QueueServer(nodes[0]?.url ?? '', 2_000)
    await moveSlot(nodes, `{moved}:calls:${id}`, async () => {
      const why = await cli(['why', 'calls', id], { env: env() })
      expect(why.err).toContain('a slot of the cluster moves to another node: ask again')
      expect(why.err).not.toMatch(/ASK|does not answer/)
      await takesWrites(server, `{moved}:calls:${id}`)
    })
    const why = await cli(['why', 'calls', id], { env: env() })
    expect(why.out).toContain('waits for a free worker')
    server.close()
  })

  it('slots that no node has: doctor says so; and who would need them is not ready', async () => {
    await fixture.redlock()
    const clients = nodes.map((node) => fixture.redis(node))
    const slot = Number(await clients[0]?.cluster('KEYSLOT', '{lost}'))
    const owner = clients[await ownerOf(clients, '{lost}')]
    const server = new QueueServer(nodes[0]?.url ?? '', 2_000)
    fixture.defer(async () => {
      await owner?.cluster('ADDSLOTS', slot).catch(() => undefined)
      server.close()
    })
    for (const redis of clients) await redis.cluster('DELSLOTS', slot).catch(() => undefined)
    await until('it is down', async () => {
      return String(await clients[0]?.cluster('INFO')).includes('cluster_state:fail')
    })
    const doctor = await cli(['doctor'], { env: env() })
    expect(doctor.code).toBe(1)
    expect(doctor.out).toMatch(/error +queue .*: its cluster serves 0 of 16384 slots/)
    const refused = await takesWrites(server, '{lost}:calls:meta').catch((error: unknown) => error)
    expect(String(refused)).toMatch(/^Error: 127.0.0.1:\d+ answers: CLUSTERDOWN/)
    expect(server.whyUnanswered(refused)).toMatch(
      /^the queue's Redis .* cannot be used: .* answers: CL/,
    )
    await owner?.cluster('ADDSLOTS', slot)
    await until('it is whole', async () => {
      const after = await cli(['doctor'], { env: env() })
      return !after.out.includes('its cluster serves')
    })
  })

  it('a node that is away: only queues on it are not ready', async () => {
    const server = new QueueServer(nodes[0]?.url ?? '', 500)
    const clients = nodes.map((node) => fixture.redis(node))
    fixture.defer(() => {
      server.close()
    })
    const [here = '', there = ''] = await Promise.all(
      [0, 2].map(async (index) => {
        for (let nr = 0; ; nr++) {
          if ((await ownerOf(clients, `{${nr}}`)) === index) return `{${nr}}:calls:meta`
        }
      }),
    )
    await takesWrites(server, there)
    await nodes[2]?.freeze()
    fixture.defer(() => nodes[2]?.thaw() ?? Promise.resolve())
    await takesWrites(server, here)
    await expect(takesWrites(server, there)).rejects.toThrow('does not answer')
  })

  it('a node that is away: a worker with a shard there is not ready', async () => {
    await fixture.redlock()
    const clients = nodes.map((node) => fixture.redis(node))
    const queue = fixture.namespace
    const covered = (value: string): Promise<unknown> =>
      Promise.all(
        clients.map((redis) => redis.config('SET', 'cluster-require-full-coverage', value)),
      )
    await covered('no') // The others go on.
    // No shard has this key, which the prefix of the command line would mean.
    const unused = await ownerOf(clients, `{moved}:${queue}:meta`)
    const away = nodes[unused === 2 ? 1 : 2]
    fixture.defer(async () => {
      await away?.thaw()
      await covered('yes')
    })
    const args = ['--health-port', '0', '--health-host', '127.0.0.1', '--timeout-ms', '500']
    await using working = runningCli(['work', 'test/tools/cli/ledger-worker-child.ts', ...args], {
      ...env(),
      ...{ QUEUE: queue, SHARDS: '3' },
    })
    const [, base = ''] = await working.line(/health at (http:\/\/[\d.:]+)\/healthz/)
    const status = async (): Promise<number> => (await fetch(`${base}/readyz`)).status
    await until('it is ready', async () => (await status()) === 200)
    await away?.freeze()
    await until('it is not', async () => (await status()) === 503)
    await away?.thaw()
    await until('it is ready again', async () => (await status()) === 200)
  })
})
