/**
 * What is said of jobs, to logs and to telemetry. A lease knows its resource; only a worker knows
 * the queue and the job.
 */
import type { Job } from 'bullmq'
import { messageOf } from '../../message-of.ts'
import { systemClock } from '../../clock.ts'
import type { LeaseLostError } from '../../errors.ts'
import type { EventLog } from '../../event-log.ts'
import type { Lease } from '../../lock/lease.ts'
import type { Logger } from '../../logger.ts'
import type { JobTelemetry } from '../../telemetry/job-telemetry.ts'
import type { Requeue } from './requeue.ts'

export class JobReports {
  readonly #log: EventLog
  readonly #telemetry: JobTelemetry

  constructor(log: EventLog, telemetry: JobTelemetry) {
    this.#log = log
    this.#telemetry = telemetry
  }

  /** For what every job says; undefined while nothing hears it. */
  heard(): this | undefined {
    return this.#telemetry.listens() || this.#log.hears('job:started') ? this : undefined
  }

  /** Runs everything that belongs to a job in its trace. */
  within<Result>(job: Job, run: () => Result): Result {
    return this.#telemetry.within(job, run)
  }

  /** @param handedOverAt when the job before it on this worker had done its work. */
  started(job: Job, lease: Lease, handedOverAt: number | undefined): void {
    if (job.attemptsMade === 0 && job.stalledCounter === 0) {
      const dueAt = job.timestamp + (job.opts.delay ?? 0)
      this.#telemetry.waited(job, systemClock.wallNow() - dueAt)
    }
    if (handedOverAt !== undefined) {
      this.#telemetry.handedOff(job, systemClock.now() - handedOverAt)
    }
    this.#log.event('job:started', fieldsOf(job, lease), { attempt: job.attemptsMade + 1 })
  }

  step<Result>(job: Job, lease: Lease, name: string, run: () => Promise<Result>): Promise<Result> {
    const startedAt = systemClock.now()
    const running = this.#telemetry.step(job, name, lease.fencingToken, run)
    if (!this.#log.hears('step:ended')) return running
    const ended = (outcome: string) => (): void => {
      const tookMs = Math.round(systemClock.now() - startedAt)
      this.#log.event('step:ended', fieldsOf(job, lease), { step: name, outcome, tookMs })
    }
    running.then(ended('done'), ended('failed'))
    return running
  }

  ended(job: Job, lease: Lease, outcome: 'done' | 'failed', workedMs: number): void {
    const tookMs = Math.round(workedMs)
    this.#log.event('job:ended', fieldsOf(job, lease), { outcome, tookMs })
  }

  /** A batch begins, with this job as its first. */
  batched(job: Job): void {
    this.#telemetry.batched(job)
  }

  requeued(job: Job, why: Requeue, tookMs: number): void {
    this.#telemetry.requeued(job, why.status, why.delayMs, tookMs)
    this.#log.event('job:requeued', { queue: job.queueName, job: job.id }, why)
  }

  /** A server refused what a job needs before it can start, or to store its result. */
  retrying(jobId: string | undefined, error: unknown): void {
    const reason = messageOf(error)
    this.#log.event('job:server-refused', { job: jobId }, { reason })
  }

  givenBack(job: Job): void {
    this.#log.event('job:given-back', { queue: job.queueName, job: job.id })
  }

  leaseLost(job: Job, lease: Lease, { reason }: LeaseLostError): void {
    this.#log.event('job:lease-lost', fieldsOf(job, lease), { reason })
  }

  lockLost(job: Job, lease: Lease): void {
    this.#log.event('job:lock-lost', fieldsOf(job, lease))
  }

  /** Adds to every line what the job is, and what it holds. */
  loggerOf(job: Job, lease: Lease): Logger {
    return this.#log.child(fieldsOf(job, lease))
  }
}

function fieldsOf(job: Job, { resource, fencingToken }: Lease) {
  return { queue: job.queueName, job: job.id, resource, fencingToken }
}
