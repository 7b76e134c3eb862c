/** A lock service under strain, and all that uses it. */
import type { Fault, Target } from './fault.ts'
import type { Report } from './report.ts'
import type { Work } from './work.ts'

export interface World extends AsyncDisposable {
  readonly work: Work
  readonly faults: readonly Fault<World>[]
  /** What is done to jobs all the time. */
  readonly jobFaults: readonly Fault<World>[]
  /** How many there are of each target that its faults name. */
  readonly sizes: Readonly<Partial<Record<Target, number>>>
  /** How many faults go on at the same time. */
  readonly lanes: number
  /** How much longer its faults last than those of masters. */
  readonly slowness: number
  /** Of the ledger; jobs that nobody has done yet are not added to without end. */
  readonly jobs: { readonly batch: number; readonly maxOpen: number }
  /** How long all jobs may take when nothing is hurt any more. */
  readonly drainLimitMs: number
  /** Called every second. */
  tend(): Promise<void>
  /** Watches while no server, network or process is hurt. */
  watch?(signal: AbortSignal): Promise<void>
  /** Jobs that are still to be done, beside those of the ledger. */
  undone(): Promise<number>
  /** Ends whatever fault of the locks or the queue may be left. */
  heal(): Promise<void>
  /** When all is quiet and all jobs are done. */
  anomalies(): Promise<readonly string[]>
  /** What else the report tells. */
  facts(): Partial<Report>
}
