/** The page and the command line show a sharded queue as one queue. */
import { expect, test } from 'vitest'
import { ShardedQueue, ShardedWorker, silentLogger } from '../../src/index.ts'
import { shardOf } from '../../src/sharded/placement.ts'
import type { DashboardState } from '../../src/tools/dashboard/state.ts'
import { until, useFleet } from '../fixtures.ts'
import { cli } from '../tools/cli/run-cli.ts'
import { serve } from '../tools/dashboard/harness.ts'

const fixture = useFleet({ masters: 1 })
const SHARDS = 3
/** One of each shard. */
const NAMES = [0, 1, 2].map((shard) => {
  const all = Array.from({ length: 99 }, (_, nr) => `customer:${nr}`)
  return all.find((name) => shardOf([name], SHARDS) === shard) ?? ''
})

interface Call {
  readonly name: string
  readonly fails?: boolean
}

function makeQueue(): ShardedQueue<Call> {
  const { connection, namespace: prefix } = fixture
  const options = { connection, shards: SHARDS, prefix, resource: ({ name }: Call) => name }
  return fixture.closing(new ShardedQueue<Call>('invoices', options))
}

async function failAll(queue: ShardedQueue<Call>): Promise<void> {
  const worker = new ShardedWorker<Call>(
    'invoices',
    ({ data }) => (data.fails === true ? Promise.reject(new Error('no')) : Promise.resolve()),
    {
      ...{ connection: fixture.connection, shards: SHARDS, prefix: fixture.namespace },
      ...{ redlock: await fixture.redlock(), resource: ({ data }) => data.name },
      ...{ onFailure: 'block', logger: silentLogger, concurrency: 3 },
    },
  )
  await until('all failed', async () => (await queue.getFailedCount()) === SHARDS)
  await worker.close()
}

test('the page has its counts, lines, failed jobs and its jobs by id', async () => {
  const queue = makeQueue()
  await queue.addBulk(NAMES.map((name) => ({ name: 'call', data: { name, fails: true } })))
  await failAll(queue)
  const jobs = await queue.addBulk(
    [...NAMES, ...NAMES].map((name) => ({ name: 'call', data: { name } })),
  )
  const served = await serve(fixture, { prefix: fixture.namespace })
  let state: DashboardState | undefined
  await until('it is read', async () => {
    state = await served.state()
    return state.failed.length > 0
  })
  expect(state?.queues).toMatchObject([{ queue: 'invoices', failed: 3, waiting: 6 }])
  expect(state?.failed.map(({ queue, resources }) => [queue, ...resources]).sort()).toEqual(
    NAMES.map((name) => ['invoices', name]).sort(),
  )
  expect(state?.lines).toMatchObject({ total: 3 })
  for (const { id = '', data } of jobs) {
    const found = await served.state(id)
    expect(found.jobs).toMatchObject([{ queue: 'invoices', jobId: id, resources: [data.name] }])
  }
})

test('the command line: why, doctor, limits, retry, skip, cancel, leave-lines', async () => {
  const queue = makeQueue()
  const failed = await queue.addBulk(
    NAMES.map((name) => ({ name: 'call', data: { name, fails: true } })),
  )
  await failAll(queue)
  const jobs = await queue.addBulk(NAMES.map((name) => ({ name: 'call', data: { name } })))
  const { namespace, env } = fixture
  const run = async (...args: string[]): Promise<string> => {
    const { out, err } = await cli([...args, '--prefix', namespace], { env })
    return out + err
  }
  for (const [nr, { id = '' }] of jobs.entries()) {
    expect(await run('why', 'invoices', id)).toContain(`Job ${failed[nr]?.id ?? ''} waits for`)
  }
  expect(await run('why', 'invoices', 'none')).toContain('There is no job none')
  const findings = (await run('doctor')).match(/queue invoices: .*/g)
  expect(findings?.filter((each) => each.includes('failed jobs hold 3 lines'))).toHaveLength(1)
  expect(findings?.filter((each) => each.includes('jobs wait'))).toHaveLength(1)
  for (const name of NAMES) {
    expect(await run('pause', 'invoices', name)).toContain('paused')
    expect((await queue.getLimits(name)).paused).toBeDefined()
  }
  const limits = await run('limits', 'invoices')
  for (const name of NAMES) expect(limits).toContain(name)
  const [first, second] = failed
  await run('skip', 'invoices', first?.id ?? '')
  expect(await queue.skip(first?.id ?? '')).toBe(false)
  await run('retry', 'invoices', second?.id ?? '')
  expect(await queue.getJobState(second?.id ?? '')).toBe('waiting')
  await run('cancel', 'invoices', '--job', jobs[2]?.id ?? '', '--yes')
  expect(await queue.getJobState(jobs[2]?.id ?? '')).toBe('failed')
  expect(await run('inspect', NAMES[1] ?? '')).toContain(jobs[1]?.id ?? '')
  await run('leave-lines', 'invoices', '--yes')
  expect(await queue.leaveLines()).toBe(0)
})

test('of an id that jobs of several shards have, no job is acted on', async () => {
  const queue = makeQueue()
  const jobId = `mine-${fixture.namespace}`
  for (const name of NAMES) await queue.add('call', { name }, { jobId })
  const { namespace, env } = fixture
  const run = (...args: string[]): ReturnType<typeof cli> =>
    cli([...args, '--prefix', namespace], { env })
  for (const act of [['why'], ['retry'], ['skip'], ['cancel', '--yes', '--job']] as const) {
    const [command, ...flags] = act
    const { code, err } = await run(command, 'invoices', ...flags, jobId)
    expect([code, err]).toEqual([1, expect.stringContaining(`have a job ${jobId}`)])
  }
  expect(await queue.getFailedCount()).toBe(0)
  for (const name of NAMES) {
    const said = await run('why', 'invoices', jobId, '--resource', name)
    expect(said.out).toContain(`is first in line for \`${name}\``)
    expect((await run('inspect', name)).out).toContain(jobId)
  }
})
