/** Queues of jobs that name their resources, and workers on them, for the fleet of a fixture. */
import {
  silentLogger,
  type LeasedProcessor,
  type LockedQueue,
  type LockedQueueOptions,
  type LockedWorker,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import type { Fixture } from '../fixtures.ts'

export interface LockedJobs<Data> {
  readonly makeQueue: (
    options?: Partial<LockedQueueOptions<Data>>,
    name?: string,
  ) => LockedQueue<Data>
  /** On a lock of the fixture, where the options name none. */
  readonly work: (
    processor: LeasedProcessor<Data, unknown>,
    options?: Partial<LockedWorkerOptions<Data>>,
    name?: string,
  ) => Promise<LockedWorker<Data>>
}

/** @param usual of each worker. */
export function lockedJobs<Data>(
  fixture: Fixture,
  resource: LockedQueueOptions<Data>['resource'],
  usual: Partial<LockedWorkerOptions<Data>> = {},
): LockedJobs<Data> {
  return {
    makeQueue: (options, name) => fixture.lockedQueue<Data>({ resource, ...options }, name),
    work: async (processor, options = {}, name = fixture.namespace) => {
      const redlock = options.redlock ?? (await fixture.redlock())
      const common = { logger: silentLogger, redlock, ...usual, ...options }
      const own = { resource: ({ data }: { readonly data: Data }) => resource(data), ...common }
      return fixture.lockedWorker<Data>(processor, own, name)
    },
  }
}

/** A charge of a customer, who is its resource. */
export interface Charge {
  readonly customer: string
}

export function chargesOf(fixture: Fixture): LockedJobs<Charge> {
  return lockedJobs<Charge>(fixture, ({ customer }) => customer, { concurrency: 5 })
}
