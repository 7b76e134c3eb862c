/**
 * A queue's Redis that answers, and refuses writes: it is full, its disk fails, it has become a
 * replica. No program is ready then, questions are answered, and the log says when it is over.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { afterEach, expect, it, vi } from 'vitest'
import type { Cli } from '../../../src/tools/cli/cli.ts'
import type { RunnableWorker } from '../../../src/tools/cli/work/load-workers.ts'
import { reporter } from '../../../src/tools/cli/work/reporter.ts'
import { until, useFleet } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { openRedis } from './open-redis.ts'
import { cli, runningCli } from './run-cli.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 1 })
const MODULE = 'test/tools/cli/ledger-worker-child.ts'

afterEach(() => {
  vi.useRealTimers()
})

/** No file takes the place of a directory. */
async function failSnapshots(redis: Redis): Promise<void> {
  await mkdir(await snapshotPath(redis), { recursive: true })
  await redis.config('SET', 'save', '3600 1')
  await redis.bgsave()
  await until('it has failed', async () =>
    (await redis.info('persistence')).includes('rdb_last_bgsave_status:err'),
  )
}

async function snapshotPath(redis: Redis): Promise<string> {
  const [, dir = ''] = await redis.config('GET', 'dir')
  return join(dir, 'dump.rdb')
}

type Act = (redis: Redis) => Promise<unknown>

const REFUSALS: readonly (readonly [name: string, says: RegExp, fall: Act, heal: Act])[] = [
  [
    'its memory is full',
    /^OOM it is full/,
    (redis) => redis.config('SET', 'maxmemory', '1'),
    (redis) => redis.config('SET', 'maxmemory', '0'),
  ],
  [
    'it lacks replicas',
    /^NOREPLICAS /,
    (redis) => redis.config('SET', 'min-replicas-to-write', '1'),
    (redis) => redis.config('SET', 'min-replicas-to-write', '0'),
  ],
  [
    'its snapshots fail',
    /^MISCONF /,
    failSnapshots,
    async (redis) => {
      await rm(await snapshotPath(redis), { recursive: true, force: true })
      await redis.config('SET', 'save', '')
    },
  ],
  [
    'it is a replica',
    /^READONLY /,
    (redis) => redis.replicaof('127.0.0.1', fixture.fleet.masters[0]?.port ?? 0),
    (redis) => redis.replicaof('NO', 'ONE'),
  ],
]

it.each(REFUSALS)('%s: no worker is ready, and `why` answers', async (_name, says, fall, heal) => {
  const queue = `q-${fixture.namespace}`
  const { url } = fixture.fleet.queue
  await fixture.redlock({ leaseMs: 6_000 })
  const locked = fixture.lockedQueue({ resource: () => 'customer:1' }, queue)
  await locked.add('post', {}, { jobId: 'a' })
  await locked.pause()
  await locked.close()
  await using working = runningCli(
    ['work', MODULE, '--health-port', '0', '--health-host', '127.0.0.1'],
    { ...fixture.env, QUEUE: queue },
  )
  const [, base = ''] = await working.line(/health at (http:\S+)\/healthz/)
  const ready = async (): Promise<{ readonly queueRedis?: string }> => {
    return (await (await fetch(`${base}/readyz`)).json()) as { readonly queueRedis?: string }
  }
  await until('it is ready', async () => (await fetch(`${base}/readyz`)).status === 200)
  const redis = openRedis(url, fixture)
  fixture.defer(() => heal(redis))
  await fall(redis)
  await until('it says so', async () => says.test((await ready()).queueRedis ?? ''))
  const why = await cli(['why', queue, 'a'], { env: fixture.env })
  // A replica may have copied its master by now, and lost the queue.
  expect(why.out + why.err).toMatch(/waits for a free worker|There is no queue/)
  expect(why.err).not.toContain('does not answer')
  expect((await cli(['doctor'], { env: fixture.env })).out).toMatch(
    /error +queue .*(refuse.? writes|replica)/,
  )
  await heal(redis)
  await until('it is ready again', async () => (await fetch(`${base}/readyz`)).status === 200)
  working.kill('SIGTERM')
  await working.end()
})

it('a user that is denied a command changes no limit by half, and is told which', async () => {
  const { url, host, port } = fixture.fleet.queue
  const redis = openRedis(url, fixture)
  const rules = ['reset', 'on', '>secret', '~*', '&*', '+@all', '-lpush']
  await redis.call('ACL', 'SETUSER', 'clerk', ...rules)
  const queue = `q-${fixture.namespace}`
  const locked = fixture.lockedQueue({ resource: () => 'customer:1' }, queue)
  await locked.pauseResource('customer:1')
  await locked.add('post', {}, { jobId: 'a' })
  const denied = ['--queue-redis', `redis://clerk:secret@${host}:${port}`]
  for (const args of [
    ['resume', queue, 'customer:1'],
    ['limit', queue, 'customer:1', '--slots', '2'],
    ['cancel', queue, '--job', 'a', '--yes'],
    ['leave-lines', queue, '--yes'],
  ]) {
    const said = await cli([...args, ...denied])
    expect([args[0], said.code]).toEqual([args[0], 1])
    expect(said.err.replace(/\s+/g, ' ')).toContain(
      `of queue \`bull:${queue}\` may not call LPUSH, so`,
    )
  }
  expect((await cli(['limits', queue, ...denied])).out).toMatch(/^customer:1 +paused \(by/m)
  const why = await cli(['why', queue, 'a', '--resource', 'customer:1', ...denied])
  expect(why.out).toContain('waits for its resource to be resumed')
})

/** A worker that says nothing but what the test makes it say. */
function silent(): {
  say: (message: string) => void
  said: string[]
  ready: () => void
  commands: { status: string }
  backend: { isSilent: boolean }
} {
  const said: string[] = []
  let ready = (): void => undefined
  const commands = { status: 'ready' }
  const backend = {
    isSilent: false,
    connection: { _client: commands },
    blockingConnection: { _client: { status: 'ready' } },
    on: (_event: string, heard: () => void) => (ready = heard),
  }
  const worker = { name: 'q', getBackend: () => backend } as unknown as RunnableWorker
  const out = { note: (text: string) => said.push(text) }
  const { signal } = new AbortController()
  const report = reporter({ out, signal } as unknown as Cli, worker, new AbortController())
  return {
    ...{ said, commands, backend },
    say: (message) => {
      report(new Error(message))
    },
    ready: () => {
      ready()
    },
  }
}

const OOM = "OOM command not allowed when used memory > 'maxmemory'."

it('what it refuses is one line whatever the script, and that it is over is one', async () => {
  vi.useFakeTimers()
  const { say, said } = silent()
  for (let second = 0; second < 5; second++) {
    say(`${OOM} script: 3b14149cfac8988c40864f817eead5a676f70726, on @user_script:74.`)
    say(`${OOM} script: fe2c4e34146dfd2de1d6049121d07f7529efb5a5, on @user_script:493.`)
    say(OOM)
    await vi.advanceTimersByTimeAsync(1_000)
  }
  expect(said).toEqual([`q: ${OOM}`])
  await vi.advanceTimersByTimeAsync(60_000)
  expect(said.slice(1)).toEqual(["q: the queue's Redis answers again: no error for 20 s"])
})

it.each([
  ...['NOAUTH Authentication required.', 'connect ECONNREFUSED', 'getaddrinfo EAI_AGAIN queue'],
  ...['connect ENETUNREACH', 'certificate has expired', 'TLS: tlsv13 alert certificate required'],
  ...['TLS: tlsv1 alert unknown ca', 'ERR max number of clients reached'],
  ...['All sentinels are unreachable. Retrying from scratch after 10ms.'],
])('%s: and then it answers again', async (trouble) => {
  vi.useFakeTimers()
  const { say, said, ready } = silent()
  ready()
  say(trouble)
  ready()
  ready()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(said).toEqual([`q: ${trouble}`, "q: the queue's Redis answers again"])
})

it('a server that answers on one connection of two does not answer yet', async () => {
  vi.useFakeTimers()
  const { say, said, ready, commands } = silent()
  say('connect ECONNREFUSED')
  commands.status = 'reconnecting'
  ready()
  say('QUEUE_UNREACHABLE')
  commands.status = 'ready'
  ready()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(said.slice(2)).toEqual(["q: the queue's Redis answers again"])
})

it('a server that is silent on open connections does not answer yet', async () => {
  vi.useFakeTimers()
  const { say, said, ready, backend } = silent()
  backend.isSilent = true
  say('QUEUE_UNREACHABLE')
  ready()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(said.slice(1)).toEqual([])
  backend.isSilent = false
  ready()
  expect(said.slice(1)).toEqual(["q: the queue's Redis answers again"])
})

it('an error of the worker itself is no outage that ends', async () => {
  vi.useFakeTimers()
  const { say, said, ready } = silent()
  say('ERR Error running script: script: 3b14149c, on @user_script:74.')
  ready()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(said).toEqual(['q: ERR Error running script: script: 3b14149c, on @user_script:74.'])
})

it('a user who may run no script: doctor does not call the queue healthy', async () => {
  const { fleet, env } = fixture
  await fixture.redlock()
  await fixture.lockedQueue({ resource: () => 'customer:1' }).add('post', {})
  const redis = openRedis(fleet.queue.url, fixture)
  await redis.acl('SETUSER', 'jobs', 'on', '>secret', '~*', '+@all', '-eval', '-evalsha')
  fixture.defer(() => redis.acl('DELUSER', 'jobs'))
  const url = fleet.queue.url.replace('://', '://jobs:secret@')
  const { code, out } = await cli(['doctor'], { env: { ...env, BULLMQ_REDLOCK_QUEUE: url } })
  expect(out).toMatch(/warning +queue \S+: its jobs were not looked at: NOPERM .*'evalsha'/)
  expect(code).toBe(1)
})
