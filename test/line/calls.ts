/** Queues of calls for customers, and workers that tell what they saw. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Job } from 'bullmq'
import type {
  JobLease,
  LockedQueue,
  LockedQueueOptions,
  LockedWorker,
  LockedWorkerOptions,
} from '../../src/index.ts'
import type { Fixture } from '../fixtures.ts'

/** One resource, or several. */
type Customer = string | readonly string[]

export interface Call<Of extends Customer = string> {
  readonly customer: Of
  readonly nr: number
}

interface Start<Of extends Customer> extends Call<Of> {
  /** On the clock that the machine's servers share. */
  readonly at: number
  /** With this one. */
  readonly running: number
}

export interface Seen<Of extends Customer = string> {
  readonly worker: LockedWorker<Call<Of>>
  readonly started: Start<Of>[]
  /** The numbers of those that are done. */
  readonly order: number[]
  readonly requeued: Of[]
  running: number
  most: number
}

export interface Calls<Of extends Customer> {
  readonly makeQueue: (
    options?: Partial<LockedQueueOptions<Call<Of>>>,
    name?: string,
  ) => LockedQueue<Call<Of>>
  readonly work: (
    options?: Partial<LockedWorkerOptions<Call<Of>>>,
    process?: (job: Job<Call<Of>>, lease: JobLease) => Promise<unknown>,
    name?: string,
  ) => Promise<Seen<Of>>
  readonly jobs: (customer: Of, ...nrs: readonly number[]) => { name: string; data: Call<Of> }[]
  /** Only what wakes a job moves its line: no worker looks for lines that nothing moved. */
  readonly turnSweepsOff: () => Promise<unknown>
  readonly turnSweepsOn: () => Promise<unknown>
}

export const upTo = (count: number): number[] => Array.from({ length: count }, (_, nr) => nr)

export function useCalls<Of extends Customer = string>(fixture: Fixture): Calls<Of> {
  const sweeper = (): string => `bull:${fixture.namespace}:redlock:::sweeper`
  return {
    makeQueue: (options = {}, name = fixture.namespace) =>
      fixture.lockedQueue<Call<Of>>({ resource: ({ customer }) => customer, ...options }, name),
    async work(options = {}, process = () => pause(2), name = fixture.namespace) {
      const redlock = await fixture.redlock()
      const worker = fixture.lockedWorker<Call<Of>>(
        async (job, lease) => {
          seen.most = Math.max(seen.most, ++seen.running)
          seen.started.push({ ...job.data, at: Date.now(), running: seen.running })
          try {
            await process(job, lease)
          } finally {
            seen.running--
          }
          seen.order.push(job.data.nr)
        },
        { redlock, concurrency: 5, resource: ({ data }) => data.customer, ...options },
        name,
      )
      const seen: Seen<Of> = {
        ...{ worker, started: [], order: [], requeued: [], running: 0, most: 0 },
      }
      worker.on('requeued', ({ data }) => seen.requeued.push(data.customer))
      await worker.waitUntilReady()
      return seen
    },
    jobs: (customer, ...nrs) => nrs.map((nr) => ({ name: 'call', data: { customer, nr } })),
    turnSweepsOff: () => fixture.redis().set(sweeper(), 'none of them'),
    turnSweepsOn: () => fixture.redis().del(sweeper()),
  }
}
