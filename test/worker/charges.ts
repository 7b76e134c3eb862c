/** A queue of charges, and workers on it, for a fixture's fleet. */
import type { LockedQueue } from '../../src/index.ts'
import {
  LockedWorker,
  type LeasedProcessor,
  type LockedQueueOptions,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import type { useFleet } from '../fixtures.ts'

export interface Charge {
  readonly customer: string
}

export interface Charges {
  readonly connection: () => { readonly host: string; readonly port: number }
  readonly makeQueue: (options?: Partial<LockedQueueOptions<Charge>>) => LockedQueue<Charge>
  /** On a lock of the fixture, where the options name none. */
  readonly work: (
    processor: LeasedProcessor<Charge, unknown>,
    options?: Partial<LockedWorkerOptions<Charge>>,
  ) => Promise<LockedWorker<Charge>>
}

export function chargesOf(fixture: ReturnType<typeof useFleet>): Charges {
  const connection = (): { host: string; port: number } => ({
    host: fixture.fleet.queue.host,
    port: fixture.fleet.queue.port,
  })
  return {
    connection,
    makeQueue(options = {}) {
      return fixture.lockedQueue<Charge>({
        ...{ resource: ({ customer }) => customer },
        ...options,
      })
    },
    async work(processor, options = {}) {
      const worker = new LockedWorker<Charge>(fixture.namespace, processor, {
        ...{ connection: connection(), concurrency: 5, resource: ({ data }) => data.customer },
        ...options,
        redlock: options.redlock ?? (await fixture.redlock()),
      })
      worker.on('error', () => undefined)
      fixture.defer(() => worker.close())
      return worker
    },
  }
}
