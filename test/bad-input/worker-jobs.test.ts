/**
 * What becomes of the jobs when a resource function is wrong, or servers are missing: none is lost
 * and none spins.
 */
import { type Job } from 'bullmq'
import { expect, it } from 'vitest'
import { QueueUnreachableError, type ResourceOf } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { assertNoLeaks } from '../support/leaks.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 3 })

const NO_SUCH = 'no such customer'
const wrongResources: readonly (readonly [wrong: () => unknown, problem: string])[] = [
  [() => undefined, 'returned undefined'],
  [() => 42, 'returned a number'],
  [() => [], 'returned an empty list'],
  [() => [[]], 'returned an array'],
  [() => ['a', ''], 'returned an empty string'],
  [() => '', 'returned an empty string'],
  [() => 'x'.repeat(513), 'returned 513 characters'],
  [() => Array.from({ length: 65 }, (_, nr) => `r${nr}`), 'returned 65 names, more than 64,'],
  [() => Promise.resolve('r'), 'returned a promise'],
  [() => Promise.reject(new Error(NO_SUCH)), 'returned a promise'],
  [() => thrown(new RangeError(NO_SUCH)), `threw "${NO_SUCH}"`],
  [() => thrown(NO_SUCH), `threw "${NO_SUCH}"`],
]

function thrown(value: unknown): never {
  throw value
}

it('a wrong resource function: each job fails with that, after its attempts; others run', async () => {
  const redlock = await fixture.redlock()
  const queue = fixture.plainQueue<number>()
  const resource = ({ data }: Job<number>): unknown =>
    wrongResources[data]?.[0]() ?? (data in wrongResources ? undefined : 'customer:1')
  const ran: string[] = []
  const worker = fixture.lockedWorker<number>(({ id = '' }) => Promise.resolve(ran.push(id)), {
    redlock,
    resource: resource as ResourceOf<number>,
    concurrency: 5,
  })
  const activations = new Map<string, number>()
  worker.on('active', ({ id = '' }) => activations.set(id, (activations.get(id) ?? 0) + 1))
  worker.on('error', () => undefined)
  const bad = await queue.addBulk(
    wrongResources.map((_, data) => ({ name: 'bad', data, opts: { attempts: 3 } })),
  )
  const good = await queue.add('good', -1)
  await until('all jobs are finished', async () => {
    const counts = await Promise.all([queue.getFailedCount(), queue.getCompletedCount()])
    return counts.join() === `${wrongResources.length},1`
  })
  for (const [index, { id = '' }] of bad.entries()) {
    const failed = await queue.getJob(id)
    const [, problem = ''] = wrongResources[index] ?? []
    expect(failed?.failedReason).toContain(`\`resource\` ${problem} for job ${id}`)
    expect(failed?.failedReason).toContain('it must return a string of 1 to 512 characters')
    expect(failed?.failedReason).toContain('`customer:42`')
    expect(failed?.attemptsMade).toBe(3)
    expect(activations.get(id)).toBe(3)
  }
  expect(ran).toEqual([good.id])
  expect(redlock.status().leases).toBe(0)
})

/** How its address is wrong, or it is away, and what the worker says. */
const UNANSWERED: Readonly<Record<string, readonly [scheme: string, why: string | RegExp]>> = {
  'does not answer': ['redis://', /connect ECONNREFUSED [\d.:]+; check/],
  'speaks no TLS': ['rediss://', 'the server speaks no TLS on this port: use `redis://`; check'],
  'has another password': [
    'redis://jobs:wrong@',
    /WRONGPASS invalid username-password pair.*; check/,
  ],
}
const wrongs = Object.keys(UNANSWERED)
const says = async (wrong: string): Promise<void> => {
  const [scheme, why] = UNANSWERED[wrong] ?? ['', '']
  const { queue: server } = fixture.fleet
  const isAway = wrong === 'does not answer'
  if (isAway) await server.kill()
  const worker = fixture.lockedWorker(() => Promise.resolve('done'), {
    connection: { url: server.url.replace('redis://', scheme) },
    ...{ redlock: await fixture.redlock(), resource: () => 'customer:1' },
  })
  const errors: Error[] = []
  worker.on('error', (error) => errors.push(error))
  const said = (): string | undefined =>
    errors.find((error) => error instanceof QueueUnreachableError)?.message
  await until('it is said', () => said() !== undefined)
  expect(said()).toContain(`The Redis of queue \`${fixture.namespace}\` has not answered for`)
  expect(said()).toMatch(why)
  expect(said()).toContain('`connection`; ')
  expect(said()).toContain('no job is lost')
  if (!isAway) return
  await server.restart()
  const job = await fixture.plainQueue().add('charge', {})
  await until('the job is done', () => job.isCompleted())
}
it.each(wrongs)(
  'a queue whose Redis %s: the worker says so, and continues when it answers',
  fixture.together(wrongs, says),
)

it('a key of a shared result that is no name: each job fails with that, and shares nothing', async () => {
  const keys = [() => undefined, () => '', () => ({}), () => Promise.reject(new Error(NO_SUCH))]
  const queue = fixture.plainQueue<number>()
  const key = ({ data }: Job<number>): unknown => keys[data]?.()
  fixture.lockedWorker<number>(() => Promise.resolve('a result'), {
    redlock: await fixture.redlock(),
    resource: () => 'customer:1',
    dedupe: { resultTtlMs: 60_000, key: key as () => string },
  })
  await queue.addBulk(keys.map((_, data) => ({ name: 'report', data })))
  await until('all have failed', async () => (await queue.getFailedCount()) === keys.length)
  for (const { failedReason } of await queue.getFailed()) {
    expect(failedReason).toContain('Expected `dedupe.key` to be a function that returns a string')
  }
})
