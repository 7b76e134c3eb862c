/** A queue of charges, and workers on it, for a fixture's fleet. */
import type {
  LeasedProcessor,
  LockedQueue,
  LockedQueueOptions,
  LockedWorker,
  LockedWorkerOptions,
} from '../../src/index.ts'
import type { Fixture } from '../fixtures.ts'

export interface Charge {
  readonly customer: string
}

export interface Charges {
  readonly connection: () => Fixture['connection']
  readonly makeQueue: (options?: Partial<LockedQueueOptions<Charge>>) => LockedQueue<Charge>
  /** On a lock of the fixture, where the options name none. */
  readonly work: (
    processor: LeasedProcessor<Charge, unknown>,
    options?: Partial<LockedWorkerOptions<Charge>>,
  ) => Promise<LockedWorker<Charge>>
}

export function chargesOf(fixture: Fixture): Charges {
  return {
    connection: () => fixture.connection,
    makeQueue: (options = {}) =>
      fixture.lockedQueue<Charge>({ resource: ({ customer }) => customer, ...options }),
    work: async (processor, options = {}) =>
      fixture.lockedWorker<Charge>(processor, {
        ...{ concurrency: 5, resource: ({ data }) => data.customer, ...options },
        redlock: options.redlock ?? (await fixture.redlock()),
      }),
  }
}
