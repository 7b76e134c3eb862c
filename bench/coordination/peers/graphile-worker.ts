/** graphile-worker with a named queue for each key, on PostgreSQL. */
import { loadPeer } from '../../peers/load.ts'
import type { KeyedJob, Orders } from '../job.ts'
import type { PeerQueue } from '../peer-queue.ts'

interface Spec {
  readonly identifier: string
  readonly payload: KeyedJob
  readonly queueName: string
  readonly runAt: Date
}

interface GraphileWorker {
  readonly Logger: new (factory: () => () => void) => unknown
  makeWorkerUtils(options: Record<string, unknown>): Promise<{
    migrate(): Promise<void>
    addJobs(specs: readonly Spec[]): Promise<unknown>
    release(): Promise<void>
  }>
  run(
    options: Record<string, unknown> & {
      readonly taskList: { readonly job: (payload: KeyedJob) => Promise<void> }
    },
  ): Promise<{ readonly events: Events; stop(): Promise<void> }>
}

interface Events {
  on(event: 'job:complete', listener: (end: { readonly error: unknown }) => void): unknown
}

/** A worker that found nothing looks again; its default is 2 s. */
const POLL_MS = 100
const MINUTE_MS = 60_000

async function open(orders: Orders): Promise<{
  readonly graphile: GraphileWorker
  readonly shared: Record<string, unknown>
}> {
  const graphile = await loadPeer<GraphileWorker>('graphile-worker')
  const { host, port } = orders.connection
  const shared = {
    connectionString: `postgres://postgres@${host}:${port}/postgres`,
    schema: orders.queue,
    logger: new graphile.Logger(() => () => undefined),
  }
  return { graphile, shared }
}

export const peer: PeerQueue = {
  async work(orders, run, completed) {
    const { graphile, shared } = await open(orders)
    const { events, stop } = await graphile
      .run({
        ...shared,
        ...{ concurrency: orders.concurrency, maxPoolSize: orders.concurrency + 2 },
        ...{ pollInterval: POLL_MS, noHandleSignals: true, taskList: { job: (data) => run(data) } },
      })
      .then((runner) => ({ events: runner.events, stop: () => runner.stop() }))
    events.on('job:complete', ({ error }) => {
      if (error === null || error === undefined) completed()
    })
    return { stop: () => stop().then(() => 0) }
  },
  async add(orders, jobs) {
    const { graphile, shared } = await open(orders)
    const utils = await graphile.makeWorkerUtils(shared)
    await utils.migrate()
    // Jobs of one time have no order: each has a time of its own, and all of them have come.
    const first = Date.now() - MINUTE_MS - jobs.length
    await utils.addJobs(
      jobs.map((payload, index) => ({
        ...{ identifier: 'job', payload, queueName: payload.key },
        runAt: new Date(first + index),
      })),
    )
    await utils.release()
  },
}
