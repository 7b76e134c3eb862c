/**
 * docs/migration.md on real servers: a running queue gets locked workers, then locked producers,
 * and goes back. Jobs wait, are delayed and run at each step; none is lost and none runs twice.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Queue, Worker, type Job, type JobsOptions } from 'bullmq'
import { expect, test } from 'vitest'
import { LockedQueue, LockedWorker, silentLogger } from '../../src/index.ts'
import { cli } from '../tools/cli/run-cli.ts'
import { until, useFleet } from '../fixtures.ts'

const CUSTOMERS = ['a', 'b', 'c', 'd']
const JOB_MS = 20
/** Jobs of a step, for each customer. */
const JOBS = 25
const CONCURRENCY = 2

interface Charge {
  readonly customer: string
  /** Counts a customer's jobs in the order of adding. */
  readonly nr: number
  readonly step: Step
}

type Step = 'plain' | 'locked workers' | 'locked' | 'in line' | 'back'

const fixture = useFleet({ masters: 3 })
const resource = ({ customer }: Pick<Charge, 'customer'>): string => `customer:${customer}`

test('a running queue moves to locked workers and producers, and back', async () => {
  const { namespace, fleet } = fixture
  const connection = { url: fleet.queue.url }
  const redlock = await fixture.redlock()

  const runs: Charge[] = []
  const running = new Map<string, number>()
  let most = 0
  const process = async ({ data }: Job<Charge>): Promise<void> => {
    const now = (running.get(data.customer) ?? 0) + 1
    running.set(data.customer, now)
    most = Math.max(most, now)
    await delay(JOB_MS)
    running.set(data.customer, (running.get(data.customer) ?? 1) - 1)
    runs.push(data)
  }
  const plainWorker = (): Worker<Charge> => {
    const options = { connection, concurrency: CONCURRENCY }
    return fixture.closing(new Worker<Charge>(namespace, process, options))
  }
  const lockedWorker = (): LockedWorker<Charge> => {
    const worker = new LockedWorker<Charge>(namespace, process, {
      ...{ connection, concurrency: CONCURRENCY, redlock, logger: silentLogger },
      resource: ({ data }) => resource(data),
    })
    fixture.defer(() => worker.close())
    return worker
  }
  let added = 0
  /** The last job of each customer is delayed, beyond the steps that follow. */
  const add = async (queue: Queue<Charge>, step: Step, delayMs: number): Promise<void> => {
    for (let nr = 0; nr < JOBS; nr++) {
      const opts: JobsOptions = { attempts: 2, ...(nr === JOBS - 1 && { delay: delayMs }) }
      await queue.addBulk(
        CUSTOMERS.map((customer) => ({ name: 'charge', data: { customer, nr, step }, opts })),
      )
      added += CUSTOMERS.length
      await delay(JOB_MS / 4)
    }
  }
  const activeAndWaiting = async (): Promise<void> => {
    await until('jobs run, wait and are delayed', async () => {
      const { active, wait, delayed } = await plain.getJobCounts('active', 'wait', 'delayed')
      return [active, wait, delayed].every((count = 0) => count > 0)
    })
  }
  /** Of the jobs that wait for no delay; a delay decides for itself when its job comes. */
  const orderOf = (step: Step, customer: string): readonly number[] =>
    runs
      .filter((run) => run.step === step && run.customer === customer && run.nr < JOBS - 1)
      .map(({ nr }) => nr)
  const inOrder = Array.from({ length: JOBS - 1 }, (_, nr) => nr)

  const plain = fixture.closing(new Queue<Charge>(namespace, { connection }))
  const old = [plainWorker(), plainWorker()]
  await add(plain, 'plain', 3_000)

  // Step 3: workers are replaced one by one, while jobs are added.
  const adding = add(plain, 'locked workers', 2_000)
  await activeAndWaiting()
  const fresh = [lockedWorker()]
  await old[0]?.close()
  fresh.push(lockedWorker())
  await old[1]?.close()
  await until('the jobs that had begun are done', () =>
    [...running.values()].every((now) => now <= 1),
  )
  most = 0
  await adding

  // Step 5: producers are replaced. Jobs of the plain queue are still there.
  await activeAndWaiting()
  const locked = fixture.closing(new LockedQueue<Charge>(namespace, { connection, resource }))
  await add(locked, 'locked', 500)
  await until('all are done', () => runs.length === added)
  expect(most).toBe(1)
  for (const customer of CUSTOMERS) expect(orderOf('locked', customer)).toEqual(inOrder)

  // Back: plain producers, then plain workers, then the command for the jobs that sleep.
  const data = (nr: number): Charge => ({ customer: 'a', nr, step: 'in line' })
  const asleep = Array.from({ length: JOBS }, (_, nr) => ({ name: 'charge', data: data(nr) }))
  await locked.addBulk(asleep)
  added += asleep.length
  const addingPlain = add(plain, 'back', 500)
  const last = plainWorker()
  await Promise.all(fresh.map((worker) => worker.close()))
  await addingPlain
  const left = await cli(['leave-lines', namespace, '--yes'], {
    env: { BULLMQ_REDLOCK_QUEUE: fleet.queue.url, BULLMQ_REDLOCK_NAMESPACE: namespace },
  })
  expect(left.out).toMatch(/^[1-9]\d* jobs left their lines/)
  await until('all are done', () => runs.length === added)
  await last.close()

  const seen = new Set(runs.map(({ customer, nr, step }) => `${step} ${customer} ${nr}`))
  expect(seen.size).toBe(added)
  expect(runs).toHaveLength(added)
  expect(await plain.getJobCounts('completed', 'failed', 'wait', 'delayed', 'active')).toEqual({
    ...{ completed: added, failed: 0, wait: 0, delayed: 0, active: 0 },
  })
})
