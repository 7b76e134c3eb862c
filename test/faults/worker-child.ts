/**
 * A BullMQ worker whose jobs append to the store that only their lease guards, step by step. Says over IPC where each job
 * is, so that it can be killed there.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Job } from 'bullmq'
import { LockedWorker, Redlock, silentLogger } from '../../src/index.ts'
import {
  instanceOf,
  type CustomerJob,
  type JobState,
  type Sighting,
  type WorkerSetup,
} from './job-states.ts'
import { monotonicMs } from './monotonic.ts'
import { FencedStore } from './store.ts'

const setup = JSON.parse(process.argv[2] ?? '{}') as WorkerSetup
const send = (sighting: Sighting): void => {
  if (process.connected) process.send?.(sighting)
}
const tell = (state: JobState, { id, timestamp, data, queueName }: Job<CustomerJob>): void => {
  const instance = instanceOf(id, timestamp)
  send({ state, at: monotonicMs(), queue: queueName, customer: data.customer, instance })
}

const store = new FencedStore(setup.storeUrl, setup.namespace)
const redlock = new Redlock({
  masters: setup.masters,
  namespace: setup.namespace,
  leaseMs: setup.leaseMs,
  maxLeaseMs: setup.maxLeaseMs,
  masterTimeoutMs: 50,
  logger: silentLogger,
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
    tell('fetched', job)
  })
  worker.on('requeued', (job) => {
    tell('requeued', job)
  })
  worker.on('error', () => undefined) // Servers are down on purpose; the jobs at the end tell.
  return worker
}
const workers = [setup.queue, ...(setup.moreQueues ?? [])].map((queue) => serve(queue))

function leave(): void {
  void Promise.all(workers.map((worker) => worker.close()))
    .then(() => redlock.close())
    .then(() => {
      store.close()
      if (process.connected) process.disconnect()
    })
}
// Ctrl-C is for the parent, which then ends its workers.
process.on('SIGINT', () => undefined)
process.once('SIGTERM', leave)
process.once('disconnect', leave)
await Promise.all(workers.map((worker) => worker.waitUntilReady()))
send({ state: 'ready', at: monotonicMs() })
