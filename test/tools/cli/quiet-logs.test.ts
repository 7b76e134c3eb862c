/** What `work` says of an outage: once, then once a minute with a count, and that it is over. */
import { expect, it } from 'vitest'
import { setTimeout as delay } from 'node:timers/promises'
import { until, useFleet } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { openRedis } from './open-redis.ts'
import { runningCli } from './run-cli.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 3 })
const MODULE = 'test/tools/cli/ledger-worker-child.ts'
const OUTAGE_MS = 2_000

const queueName = (): string => `q-${fixture.namespace}`
const env = (): NodeJS.ProcessEnv => ({ ...fixture.env, QUEUE: queueName() })

/** A worker that has no job. */
async function waitingWorker(): Promise<ReturnType<typeof runningCli>> {
  await fixture.redlock({ leaseMs: 6_000 })
  const working = runningCli(['work', MODULE, '--drain-ms', '200'], env())
  await working.line(/works on/)
  const redis = openRedis(fixture.fleet.queue.url, fixture)
  await until('the worker waits for a job', async () =>
    String(await redis.client('LIST')).includes('cmd=bzpopmin'),
  )
  return working
}

const LOADS = ['no job', 'a job that runs']
const hangs = async (load: string): Promise<void> => {
  await using working = await waitingWorker()
  if (load === 'a job that runs') {
    const jobs = fixture.lockedQueue({ resource: () => 'customer:1' }, queueName())
    await jobs.add('post', { customerId: 1, untilStopped: true })
    await jobs.close()
    await working.line(/started 1/)
  }
  await fixture.fleet.queue.freeze()
  fixture.defer(() => fixture.fleet.queue.thaw())
  await working.line(/has not answered for \d+ ms: it is frozen, overloaded or cut off/)
  await delay(OUTAGE_MS)
  await fixture.fleet.queue.thaw()
  // It has asked, so it does not have to wait for errors that do not come.
  const [, how] = await working.line(/the queue's Redis answers again(.*)$/)
  expect(how).toBe('')
  working.kill('SIGTERM')
  const { err } = await working.end()
  expect(err.filter((line) => line.includes('has not answered'))).toHaveLength(1)
}
it.each(LOADS)("the queue's Redis hangs under %s", fixture.together(LOADS, hangs))

it('settings that can never work end it with 1, and say once what to change', async () => {
  await fixture.redlock({ leaseMs: 6_000 })
  const { BULLMQ_REDLOCK_MASTERS = '', ...others } = env()
  const fewer = BULLMQ_REDLOCK_MASTERS.split(',').slice(0, 2).join(',')
  await using working = runningCli(['work', MODULE, '--max-lease-ms', '8000'], {
    ...others,
    BULLMQ_REDLOCK_MASTERS: fewer,
  })
  const { code, err } = await working.end()
  expect(code).toBe(1)
  const said = err.filter((line) => line.startsWith(`${queueName()}: `))
  expect(said).toHaveLength(1)
  expect(said[0]).toContain("the fleet has 3 masters, this client's `masters` are 2")
  expect(said[0]).toContain('run `bullmq-redlock resize')
})

it('a fleet that cannot vote yet is no such setting', async () => {
  const redlock = await fixture.redlock({ leaseMs: 6_000 })
  await redlock.close()
  for (const master of fixture.fleet.masters) await master.kill()
  await using working = runningCli(['work', MODULE, '--max-lease-ms', '8000'], env())
  await working.line(/Fewer than 2 of 3/)
  let ended = false
  const end = working.end().then((said) => {
    ended = true
    return said
  })
  await delay(OUTAGE_MS)
  expect(ended).toBe(false)
  working.kill('SIGTERM')
  const { err } = await end
  expect(err.filter((line) => line.includes('Fewer than 2 of 3'))).toHaveLength(1)
  await until('it has ended', () => ended)
})
