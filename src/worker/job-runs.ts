/**
 * Runs jobs under their leases:
 *
 *   name the resource ─ my turn? ─ no ──▶ park behind the others, no attempt used
 *                          │
 *                       acquire ─ not granted ─▶ requeue with a random delay, no attempt used
 *                          │
 *                          └ granted ─▶ keep alive, run the user's processor under one signal ─▶ release, always
 *
 * What the processor returns or throws is what BullMQ gets: finished work stays finished even if the lease was
 * lost in its last moment (writes of a lost lease are what fencing tokens are for), and `onLeaseLost` reports it. With
 * `dedupe`, a result that a twin left is returned without acquiring or running anything.
 */
import { DelayedError, UnrecoverableError, type Job } from 'bullmq'
import type { Clock } from '../clock.ts'
import { JobLockLostError, LeaseLostError, ShutdownError, WaitedTooLongError } from '../errors.ts'
import type { Lease } from '../lock/lease.ts'
import type { LeaseOptions, LockService } from '../lock/lock-service.ts'
import { labelOf } from '../lock/resources.ts'
import type { OneWrite } from '../redis/one-write.ts'
import { admit, type InLine } from './admission.ts'
import type { NotGranted } from '../lock/outcome.ts'
import { checkpointsOf } from './checkpoints.ts'
import { SteppedLease, type JobLease } from './job-lease.ts'
import type { JobReports, RunReport } from './job-report.ts'
import { JobSignal } from './job-signal.ts'
import type { KeptValues } from './kept-values.ts'
import type { Lines, Sleeper } from './lines.ts'
import { awakePriority, giveBack, park, requeue, type Requeue } from './requeue.ts'
import { Relay, type Ending } from './relay.ts'
import { resourcesOf, type ResourceOf } from './resource.ts'
import { encodeTicket, ticketOf } from './ticket.ts'

/** One computation for all jobs of a resource, within a time. */
export interface Dedupe<Data> {
  /** How long a result is kept, and given to jobs that ask for the same. */
  readonly resultTtlMs: number
  /** Names what is computed once. @defaultValue the job's resources */
  readonly key?: (job: Job<Data>) => string
}

export interface Services {
  readonly lines?: Lines
  readonly kept?: KeptValues
  readonly oneWrite?: OneWrite
}

export interface JobRunsOptions<Data, Result, Name extends string> {
  readonly locks: LockService
  readonly leaseOptions: LeaseOptions
  readonly clock: Clock
  readonly resource: ResourceOf<Data>
  readonly processor: (job: Job<Data, Result, Name>, lease: JobLease) => Promise<Result>
  readonly maxWaitMs: number
  readonly dedupe: Dedupe<Data> | undefined
  readonly checkpoints: boolean
  /** The longest sleep of a job that met an outage of the masters. */
  readonly maxUnreachableMs: number
  /** What only a worker with a connection to the queue's Redis has. */
  readonly services: () => Services
  readonly reports: JobReports
  readonly onRequeued: (job: Job<Data>, requeue: Requeue) => void
  readonly onLeaseLost: (job: Job<Data>, error: LeaseLostError) => void
}

interface Running {
  readonly jobId: string | undefined
  readonly signal: JobSignal
  /** Once it has its lease. */
  report: RunReport | undefined
}

export class JobRuns<Data, Result, Name extends string> {
  readonly #options: JobRunsOptions<Data, Result, Name>
  /** A job is here twice when another run of it began while the first one still works, under a lock that it has lost. */
  readonly #running = new Set<Running>()
  readonly #endings = new WeakMap<object, Ending>()
  readonly #relay: Relay
  #stopped: ShutdownError | undefined

  constructor(options: JobRunsOptions<Data, Result, Name>) {
    this.#options = options
    this.#relay = new Relay(options.locks, options.leaseOptions, options.clock)
  }

  /** Jobs that run here, or are about to. */
  get active(): number {
    return this.#running.size
  }

  /** What goes on at the end of a job that has run here. */
  endingOf(job: Job<Data>): Ending | undefined {
    return this.#endings.get(job)
  }

  /** BullMQ has given a job to this worker, and is going to start it. */
  fetched(job: Job<Data>): void {
    job.priority = awakePriority(job) // It may have been fetched before that was set.
    this.#relay.fetched(ticketOf(job))
  }

  jobLockLost(jobId: string): void {
    for (const { report, signal } of this.#runsOf(jobId)) {
      report?.lockLost()
      signal.abort(new JobLockLostError(jobId))
    }
  }

  /** As BullMQ's own, for workers that do not ask for BullMQ's signal: false for a job that does not run here. */
  cancelJob(jobId: string, why: string | undefined): boolean {
    const runs = this.#runsOf(jobId)
    for (const { signal } of runs) signal.cancel(why)
    return runs.length > 0
  }

  cancelAllJobs(why: string | undefined): void {
    for (const { signal } of this.#running) signal.cancel(why)
  }

  /** Gives back the leases that are kept for jobs which will not come any more. */
  close(): Promise<void> {
    return this.#relay.close()
  }

  /** Stops all that run, and whatever BullMQ still hands over; they are given back to the queue. */
  stop(reason: ShutdownError): void {
    this.#stopped = reason
    for (const { signal } of this.#running) signal.abort(reason)
  }

  /** `signal` is BullMQ's, of a worker that asks for it. */
  async run(
    job: Job<Data, Result, Name>,
    token: string | undefined,
    signal?: AbortSignal,
  ): Promise<Result> {
    const running: Running = { jobId: job.id, signal: new JobSignal(), report: undefined }
    if (signal !== undefined) running.signal.follow(() => signal)
    this.#running.add(running)
    try {
      return await this.#options.reports.within(job, () => this.#run(job, token, running))
    } finally {
      this.#running.delete(running)
    }
  }

  async #run(
    job: Job<Data, Result, Name>,
    token: string | undefined,
    running: Running,
  ): Promise<Result> {
    const { clock, resource, services, reports } = this.#options
    // A paused BullMQ worker that was waiting for a job still takes one.
    if (this.#isStopped()) return this.#giveBack(job, token)
    const resources = resourcesOf(() => resource(job), job.id)
    const { kept, lines } = services()
    const twin = await this.#twinResult(job, resources, kept)
    if (twin !== undefined) {
      void this.#relay.drop(ticketOf(job))
      return twin.value
    }
    const passed = this.#relay.claim(ticketOf(job), resources)
    const { locks, leaseOptions } = this.#options
    const admission = { locks, leaseOptions, lines, passed, clock, reports }
    const outcome = await admit(admission, job, resources)
    if (outcome.status !== 'granted') return this.#wait(job, token, resources, outcome)
    const { lease, following } = outcome
    if (this.#isStopped()) {
      await lease.release()
      return this.#giveBack(job, token)
    }
    const { signal: jobSignal } = running
    jobSignal.follow(() => lease.signal)
    const report = reports.started(job, lease, passed)
    running.report = report
    let finished = false
    try {
      const result = await this.#runUnder(lease, jobSignal, job, kept, report)
      finished = true
      return result
    } catch (error) {
      if (!(jobSignal.signal.reason instanceof ShutdownError)) throw error
      return await this.#giveBack(job, token)
    } finally {
      jobSignal.end()
      const lost = lossOf(lease)
      if (lines === undefined) await lease.release()
      else {
        const next = finished ? await following() : undefined
        this.#endings.set(job, this.#end(job, resources, lease, lines, next))
      }
      report.ended(finished ? 'done' : 'failed')
      if (lost !== undefined) {
        report.leaseLost(lost)
        this.#options.onLeaseLost(job, lost)
      }
    }
  }

  #end(
    job: Job<Data>,
    [resource, ...others]: readonly string[],
    lease: Lease,
    lines: Lines,
    next: Sleeper | undefined,
  ): Ending {
    const here = ticketOf(job)
    const isHere = next?.ticket.queue === here.queue && next.ticket.prefix === here.prefix
    if (!isHere || resource === undefined || others.length > 0 || this.#isStopped()) {
      const released = lease.release().then(() => false)
      return { finished: () => released }
    }
    this.#options.services().oneWrite?.untilEndOfTurn()
    return this.#relay.pass(here, resource, lease, lines, next)
  }

  #runsOf(jobId: string): readonly Running[] {
    return [...this.#running].filter((running) => running.jobId === jobId)
  }

  #isStopped(): boolean {
    return this.#stopped !== undefined
  }

  async #giveBack(job: Job<Data>, token: string | undefined): Promise<never> {
    await giveBack(job, token, this.#options.clock)
    this.#options.reports.givenBack(job)
    throw new DelayedError(this.#stopped?.message)
  }

  /** Gives the job back; BullMQ knows by the error, which must come from the outermost frame, that it was moved. */
  async #wait(
    job: Job<Data, Result, Name>,
    token: string | undefined,
    resources: readonly string[],
    outcome: NotGranted | InLine,
  ): Promise<never> {
    const { clock, maxWaitMs, maxUnreachableMs, onRequeued, reports } = this.#options
    const leftMs = job.timestamp + maxWaitMs - clock.wallNow()
    if (leftMs <= 0) {
      const error = new WaitedTooLongError(labelOf(resources), maxWaitMs)
      throw new UnrecoverableError(error.message)
    }
    const giving =
      outcome.status === 'in-line'
        ? park(job, token, resources, outcome.lines, clock, leftMs)
        : requeue(job, token, outcome, clock, maxUnreachableMs)
    const why = await reports.requeueing(job, giving)
    onRequeued(job, why)
    throw new DelayedError(why.reason)
  }

  async #runUnder(
    lease: Lease,
    jobSignal: JobSignal,
    job: Job<Data, Result, Name>,
    kept: KeptValues | undefined,
    report: RunReport,
  ): Promise<Result> {
    const { dedupe, processor, checkpoints } = this.#options
    const store = this.#resultStore(job, lease.resources)
    if (kept !== undefined && dedupe !== undefined) {
      // A twin may have finished between the first look and the lease.
      const values = await kept.claim(store, lease, dedupe.resultTtlMs)
      if (values.has(RESULT)) return values.get(RESULT) as Result
    }
    const saved =
      kept !== undefined && checkpoints ? checkpointsOf(kept, stepsStore(job), lease) : undefined
    try {
      const result = await processor(job, new SteppedLease(lease, jobSignal, saved, report))
      if (kept !== undefined && dedupe !== undefined) {
        await kept.keep(store, lease, dedupe.resultTtlMs, RESULT, result)
      }
      return result
    } catch (error) {
      // I/O that was stopped by the signal says only "aborted"; the reason says why.
      const { signal } = jobSignal
      const stopped = signal.aborted && error instanceof Error && error.name === 'AbortError'
      throw stopped ? (signal.reason as Error) : error
    }
  }

  async #twinResult(
    job: Job<Data, Result, Name>,
    resources: readonly string[],
    kept: KeptValues | undefined,
  ): Promise<{ readonly value: Result } | undefined> {
    if (kept === undefined || this.#options.dedupe === undefined) return undefined
    const found = await kept.peek(this.#resultStore(job, resources), RESULT)
    return found as { readonly value: Result } | undefined
  }

  #resultStore(job: Job<Data>, resources: readonly string[]): string {
    const key = this.#options.dedupe?.key?.(job)
    return `result:${key ?? labelOf(resources)}`
  }
}

const RESULT = 'result'

/** Why a lease that was not released may not be trusted any more, if so. */
function lossOf(lease: Lease): LeaseLostError | undefined {
  try {
    lease.assertHeld()
    return undefined
  } catch (error) {
    return error instanceof LeaseLostError ? error : undefined
  }
}

/** Where a job's checkpoints are. */
export function stepsStore(job: Pick<Job, 'id' | 'prefix' | 'queueName'>): string {
  return `steps:${encodeTicket(ticketOf(job))}`
}
