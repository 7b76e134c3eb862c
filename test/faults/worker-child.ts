/**
 * A BullMQ worker whose jobs append to the store that only their lease guards, step by step. Says
 * over IPC where each job is, so that it can be killed there.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Job } from 'bullmq'
import { LockedWorker, silentLogger } from '../../src/index.ts'
import {
  instanceOf,
  type CustomerJob,
  type JobState,
  type Sighting,
  type Stop,
  type WorkerSetup,
} from './job-states.ts'
import { leaseLogger } from './lease-logs.ts'
import { monotonicMs } from './monotonic.ts'
import { openService } from './open-service.ts'
import { FencedStore } from './store.ts'

const DRAIN_MS = 50

const setup = JSON.parse(process.argv[2] ?? '{}') as WorkerSetup
const send = (sighting: Sighting): void => {
  if (process.connected) process.send?.(sighting)
}
const tell = (state: JobState, job: Job<CustomerJob>, at = monotonicMs()): void => {
  const { id, timestamp, data, queueName } = job
  const instance = instanceOf(id, timestamp)
  send({ state, at, queue: queueName, customer: data.customer, instance })
}

const store = new FencedStore(setup.storeUrl, setup.namespace)
const redlock = await openService({
  ...setup,
  masterTimeoutMs: 50,
  logger: setup.leaseLogs === undefined ? silentLogger : leaseLogger(setup.leaseLogs),
})
const serve = (queue: string): LockedWorker<CustomerJob, string> => {
  const worker = new LockedWorker<CustomerJob, string>(
    queue,
    async (job, lease) => {
      tell('admitted', job)
      const { customer } = job.data
      const { fencingToken } = lease
      const seen = await lease.step('read', () => store.last(customer))
      tell('read', job)
      await lease.step('work', ({ signal }) =>
        delay(Math.random() * setup.workMs, undefined, { signal }),
      )
      tell('worked', job)
      // The lease's name is its token; a job that runs again has another one.
      const entry = `job-${job.id ?? '?'}-${fencingToken}#1`
      await lease.step('write', async () => {
        if (!(await store.append(customer, { entry, seen, fencingToken }))) {
          throw new Error(`The store has seen a newer token than ${fencingToken}`)
        }
      })
      tell('written', job)
      return entry
    },
    {
      connection: setup.connection,
      redlock,
      logger: silentLogger,
      resource: (job) => job.data.customer,
      concurrency: setup.concurrency,
      // Workers are killed all the time here; a job is not to blame for it.
      maxStalledCount: 1_000,
    },
  )
  worker.on('active', (job) => {
    // When the queue was asked for it; a busy worker learns of the answer later.
    tell('fetched', job, monotonicMs() - (Date.now() - (job.processedOn ?? Date.now())))
  })
  worker.on('requeued', (job) => {
    tell('requeued', job)
  })
  worker.on('error', () => undefined) // Servers are down on purpose; the jobs at the end tell.
  return worker
}
const workers = [setup.queue, ...(setup.moreQueues ?? [])].map((queue) => serve(queue))

let isLeaving = false

async function leave(stop: Stop): Promise<void> {
  if (isLeaving) return
  isLeaving = true
  if (stop === 'locks-first') await redlock.close()
  await Promise.all(
    workers.map((worker) =>
      stop === 'drain' ? worker.drain({ timeoutMs: DRAIN_MS }) : worker.close(),
    ),
  )
  await redlock.close()
  store.close()
  if (process.connected) process.disconnect()
}
// Ctrl-C is for the parent, which then ends its workers.
process.on('SIGINT', () => undefined)
process.once('SIGTERM', () => void leave('close'))
process.once('disconnect', () => void leave('close'))
process.on('message', (stop) => void leave(stop as Stop))
await Promise.all(workers.map((worker) => worker.waitUntilReady()))
send({ state: 'ready', at: monotonicMs() })
