/** Turns a worker's events into lines and counts. */
import type { Job } from 'bullmq'
import type { LockedWorker } from '../src/index.ts'
import type { Say } from './events.ts'

export interface JobTally {
  done: number
  failedAttempts: number
  requeues: number
  leasesLost: number
}

/**
 * Requeues are counted only: a busy customer's jobs come back often, each saying the same. The others are
 * said as they happen.
 */
export function reportJobs<Data, Result>(
  worker: LockedWorker<Data, Result>,
  say: Say,
  describe: (job: Job<Data, Result>, result: Result) => string,
): Readonly<JobTally> {
  const tally: JobTally = { done: 0, failedAttempts: 0, requeues: 0, leasesLost: 0 }
  worker.on('completed', (job, result) => {
    tally.done += 1
    say('done', describe(job, result), { job: job.id, result })
  })
  worker.on('failed', (job, { message }) => {
    tally.failedAttempts += 1
    say('failed', `${job?.id ?? 'a job'}: ${message}`, { job: job?.id, message })
  })
  worker.on('requeued', () => {
    tally.requeues += 1
  })
  worker.on('leaseLost', (job, { message }) => {
    tally.leasesLost += 1
    say('lease lost', `${job.id ?? ''}: ${message}`, { job: job.id, message })
  })
  worker.on('error', ({ message }) => {
    say('error', message, { message })
  })
  return tally
}

export function describeTally(tally: Readonly<JobTally>, failed: number): string {
  const { done, failedAttempts, requeues, leasesLost } = tally
  return (
    `this process finished ${done} jobs, with ${failedAttempts} failed attempts, ` +
    `${requeues} requeues and ${leasesLost} lost leases; the queue holds ${failed} failed jobs`
  )
}
