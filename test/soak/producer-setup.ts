import type { WorkerSetup } from '../faults/job-states.ts'

/** What a producer process of the scratch queue is given as its argument, in JSON. */
export interface ProducerSetup extends Pick<WorkerSetup, 'connection' | 'namespace' | 'queue'> {
  readonly customers: readonly string[]
  /** How many jobs a call adds: 1 by `add`, more by `addBulk`. */
  readonly atOnce: number
}
