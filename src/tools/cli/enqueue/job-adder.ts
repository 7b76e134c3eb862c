/**
 * Adds batches of jobs to a queue, none of them twice. BullMQ sets the deduplication key of a job
 * in the same step in which it adds the job. The key outlives the job, so it tells whether a line
 * was added before a crash.
 */
import { Queue } from 'bullmq'
import { SettingsDifferError } from '../../../errors.ts'
import { LockedQueue } from '../../../worker/locked-queue.ts'
import { resourceOf, type JobData, type NewJob } from './job-line.ts'
import type { Tally } from './progress.ts'

export interface JobAdderOptions {
  readonly queue: string
  /** Of the queue's Redis. */
  readonly connection: { readonly url: string }
  readonly prefix: string
  readonly namespace: string
  /** With it jobs wait in the line of their resource. */
  readonly resourceField: string | undefined
  readonly resourcePrefix: string
  readonly slots: number
  /** The workers of the queue would not wake these jobs. */
  readonly onDifference: (error: SettingsDifferError) => void
}

export class JobAdder {
  readonly #queue: Queue<JobData, unknown, string, JobData, unknown, string>
  readonly #inLine: boolean

  constructor({ queue, prefix, namespace, onDifference, ...naming }: JobAdderOptions) {
    const { resourceField, resourcePrefix, slots } = naming
    // A server that goes away ends the command, which can be resumed; it does not fill the memory
    // meanwhile.
    const connection = { ...naming.connection, maxRetriesPerRequest: 3, enableOfflineQueue: true }
    this.#inLine = resourceField !== undefined
    this.#queue =
      resourceField === undefined
        ? new Queue(queue, { connection, prefix })
        : new LockedQueue<JobData>(queue, {
            ...{ connection, prefix, namespace, slots },
            // A line without one was refused before.
            resource: (data) => resourceOf(data, resourceField, resourcePrefix) ?? '',
          })
    this.#queue.on('error', (error) => {
      if (error instanceof SettingsDifferError) onDifference(error)
      // The call of `add` rejects with anything else.
    })
  }

  async add(jobs: readonly NewJob[]): Promise<Pick<Tally, 'added' | 'alreadyThere'>> {
    const firsts = new Map<string, NewJob>()
    for (const job of jobs) if (!firsts.has(job.opts.jobId)) firsts.set(job.opts.jobId, job)
    const distinct = [...firsts.values()]
    const known = await Promise.all(
      distinct.map(({ opts }) => this.#queue.getDeduplicationJobId(opts.jobId)),
    )
    const fresh = distinct.filter((_, index) => known[index] === null)
    const alreadyThere = jobs.length - fresh.length
    // A job may have been added without its place in line; adding it again changes nothing but
    // that.
    const missing = this.#inLine ? await this.#unfinished(distinct, known) : []
    const again = new Set([...fresh, ...missing])
    const batch = distinct.filter((job) => again.has(job))
    if (batch.length > 0) await this.#queue.addBulk(batch.map((job) => ({ ...job })))
    return { added: fresh.length, alreadyThere }
  }

  async close(): Promise<void> {
    await this.#queue.close()
  }

  async #unfinished(
    jobs: readonly NewJob[],
    known: readonly (string | null)[],
  ): Promise<readonly NewJob[]> {
    const suspects = jobs.filter((_, index) => known[index] !== null)
    const states = await Promise.all(
      suspects.map(({ opts }) => this.#queue.getJobState(opts.jobId)),
    )
    const over = ['completed', 'failed', 'unknown']
    return suspects.filter((_, index) => !over.includes(states[index] ?? 'unknown'))
  }
}
