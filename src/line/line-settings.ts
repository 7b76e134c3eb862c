/** What a queue and its workers agree on, and how each of them keeps its lines. */
import type { MinimalJob } from 'bullmq'
import type { LinePlacement } from './placement.ts'
import type { LineVisits } from './visit.ts'

export interface LineSettings {
  readonly slots: number
  /**
   * A job that was added this long ago is looked at, whether or not it is its turn; undefined for
   * any time.
   */
  readonly maxWaitMs?: number | undefined
  /** Of a producer, the order inside a line: that of adding, or BullMQ's of waiting jobs. */
  readonly within?: 'added' | 'priority' | undefined
  /**
   * How a job stands in line, by the JSON of its data, which is undefined for data that are nothing
   * there. No worker has it.
   */
  readonly placement?: (data: string | undefined, jobId: string | undefined) => LinePlacement
  /** How many jobs a line has at most; undefined for any number. */
  readonly maxLength?: number | undefined
  /** Which sleeping job of a full line is removed for a new one; undefined for none. */
  readonly drops?: 'oldest' | 'newest' | undefined
  /** Of a worker. */
  readonly visits?: LineVisits | undefined
  /** What a job that failed for good does to its lines. @defaultValue 'continue' */
  readonly onFailure?: 'continue' | 'block' | undefined
  /** JSON of the resources of a job that fails before it has lines; undefined where it has none. */
  readonly linesOf?: ((job: MinimalJob) => string | undefined) | undefined
  /** Jobs have results of steps, which end with them. */
  readonly keepsSteps?: true | undefined
  /** Called when the queue's Redis has no job to give, and none sleeps in line. */
  readonly onDrained?: (() => void) | undefined
  /** Called when the next check for stalled jobs is due, sooner than BullMQ's. */
  readonly onCheckDue?: (() => void) | undefined
}
