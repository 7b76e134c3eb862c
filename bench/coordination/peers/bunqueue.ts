/** bunqueue with a group for each key, on its own broker; its client runs on Bun alone. */
import { loadPeer } from '../../peers/load.ts'
import type { KeyedJob, Orders } from '../job.ts'
import type { PeerQueue } from '../peer-queue.ts'

interface Bunqueue {
  readonly Queue: new (
    name: string,
    options: { connection: Orders['connection'] },
  ) => {
    setStallConfigAsync(config: {
      stallInterval: number
      maxStalls: number
      gracePeriod: number
    }): Promise<void>
    addBulk(
      jobs: readonly {
        name: string
        data: KeyedJob
        opts: { group: { id: string }; attempts: number; removeOnComplete: boolean }
      }[],
    ): Promise<unknown>
    close(): unknown
  }
  readonly Worker: new (
    name: string,
    run: (job: { readonly data: KeyedJob }) => Promise<void>,
    options: Record<string, unknown>,
  ) => {
    on(event: 'completed', listener: () => void): unknown
    on(event: 'error', listener: (error: Error) => void): unknown
    waitUntilReady(): Promise<unknown>
    close(): Promise<unknown>
  }
}

const AT_ONCE = 1_000

export const peer: PeerQueue = {
  async work(orders, run, completed) {
    const { Worker } = await loadPeer<Bunqueue>('bunqueue/client')
    const { connection, concurrency, leaseMs } = orders
    const worker = new Worker(orders.queue, ({ data }) => run(data), {
      ...{ connection, concurrency, group: { concurrency: 1 } },
      ...{ lockDuration: leaseMs, heartbeatInterval: leaseMs / 4 },
    })
    worker.on('completed', completed)
    worker.on('error', (error) => {
      if (orders.quiet !== true) console.error(error)
    })
    await worker.waitUntilReady()
    return { stop: () => worker.close().then(() => 0) }
  },
  async add({ connection, queue: name, leaseMs }, jobs) {
    const { Queue } = await loadPeer<Bunqueue>('bunqueue/client')
    const queue = new Queue(name, { connection })
    await queue.setStallConfigAsync({ stallInterval: leaseMs, maxStalls: 3, gracePeriod: 0 })
    for (let from = 0; from < jobs.length; from += AT_ONCE) {
      await queue.addBulk(
        jobs.slice(from, from + AT_ONCE).map((data) => ({
          ...{ name: 'job', data },
          opts: { group: { id: data.key }, attempts: 3, removeOnComplete: true },
        })),
      )
    }
    queue.close()
  },
}
