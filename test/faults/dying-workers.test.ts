/**
 * Matrix row 12: workers are killed wherever a job can be, and each of the two kinds of server goes
 * away for a while.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Redis } from 'ioredis'
import { startFleet, startServer, type Fleet, type TestServer } from '../../src/testing/index.ts'
import { until } from '../fixtures.ts'
import { foundFleet } from '../support/found-fleet.ts'
import { watchLeaks } from '../support/leaks.ts'
import { immortalKeys } from './checkers/immortal-keys.ts'
import { ALL } from './scenario.ts'
import { JOB_STATES, type JobState } from './job-states.ts'
import { JobLedger, WorkerProcesses } from './worker-processes.ts'

const leaks = watchLeaks()
const LEASE_MS = 800
const MAX_LEASE_MS = 1_000
const CUSTOMERS = ['c1', 'c2', 'c3']
let fleet: Fleet
let store: TestServer

beforeAll(async () => {
  ;[fleet, store] = await Promise.all([startFleet({ masters: 5 }), startServer({ name: 'store' })])
})

afterAll(async () => {
  await Promise.all([fleet.close(), store.close()])
  await leaks.assertNone()
})

it('jobs survive kill -9 in every state, a frozen queue, and masters that are away', async () => {
  const namespace = `dying-${process.pid}`
  const lock = {
    masters: fleet.urls,
    namespace,
    leaseMs: LEASE_MS,
    maxLeaseMs: MAX_LEASE_MS,
  }
  await foundFleet(lock)
  const setup = {
    ...lock,
    queue: namespace,
    connection: { host: fleet.queue.host, port: fleet.queue.port },
    storeUrl: store.url,
    concurrency: 3,
    workMs: 60,
  }
  const ledger = new JobLedger(setup, CUSTOMERS)
  const workers = new WorkerProcesses(setup, 2)
  try {
    const states: readonly JobState[] = ALL ? [...JOB_STATES, ...JOB_STATES] : JOB_STATES
    for (const state of states) {
      await ledger.add(9)
      await workers.killAt(state, AbortSignal.timeout(15_000))
    }
    await ledger.add(9)
    await fleet.queue.freeze()
    await delay(LEASE_MS)
    await fleet.queue.thaw()
    await ledger.add(9)
    const away = fleet.masters.slice(0, 3)
    await Promise.all(away.map((master) => master.freeze()))
    await delay(LEASE_MS)
    await Promise.all(away.map((master) => master.thaw()))
    const everything = async (): Promise<boolean> => (await ledger.completed()) === ledger.added
    await until('every job is completed', everything, 60_000).catch(async () => {
      throw new Error(`not all of ${ledger.added} jobs are done: ${await ledger.counts()}`)
    })
    expect(await ledger.anomalies()).toEqual([])
    for (const state of JOB_STATES) expect(workers.states.get(state)).toBeGreaterThan(0)
  } finally {
    expect(await workers.leave()).toEqual([])
    await ledger.close()
  }
  const masters = fleet.urls.map((url) => new Redis(url))
  try {
    expect(await immortalKeys(masters, namespace)).toEqual([])
    const leases = async (): Promise<readonly string[]> =>
      (await Promise.all(masters.map((redis) => redis.keys(`${namespace}:lease:*`)))).flat()
    await until(
      'no lease of a dead worker is left',
      async () => (await leases()).length === 0,
      2_000,
    )
  } finally {
    for (const redis of masters) redis.disconnect()
  }
}, 120_000)
