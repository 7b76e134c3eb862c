/** With `dedupe`: one computation for all jobs that ask for the same, within a time. */
import { createHash } from 'node:crypto'
import type { Job } from 'bullmq'
import type { Channel } from '../../channel.ts'
import type { LockService } from '../../lock/lock-service.ts'
import type { Process } from './job-lease.ts'
import type { PlaceInLine, ResultStore, StoredResult } from './result-store.ts'
import { insist, insistToStart } from './admission.ts'
import type { Visit } from './visits.ts'

/**
 * One computation for all jobs of a queue with the same name and resource, within a time. Jobs that
 * run at once, in slots or under one `key`, wait for the one of them that computes.
 */
export interface Dedupe<Data> {
  /** How long a result is kept, and given to jobs that ask for the same. */
  readonly resultTtlMs: number
  /** Names what is computed once. @defaultValue the job's resources */
  readonly key?: (job: Job<Data>) => string
  /**
   * A job that was added after the computation had begun does not take its result, and computes
   * itself: no change that came before a job is missed.
   * @defaultValue false
   */
  readonly fresh?: boolean
}

/** Where the result of a job is, that others share. */
export interface SharedResult {
  readonly store: string
  /** Of a job that takes only results of computations that began after it was added. */
  readonly asker: PlaceInLine | undefined
}

/** A job that waits ends its waiting with its signal. */
const MAX_WAIT_MS = 2 ** 31 - 1

interface SharedResultsOptions {
  readonly locks: LockService
  /** Of the lease on a result. */
  readonly leaseMs: number
  readonly results: ResultStore
  readonly dedupe: Dedupe<unknown>
  readonly channel: Channel
}

export class SharedResults {
  readonly #options: SharedResultsOptions

  constructor(options: SharedResultsOptions) {
    this.#options = options
  }

  /** The stored result, if this job may take it: then it needs no lease, and runs nothing. */
  peek(visit: Visit): Promise<StoredResult | undefined> {
    const { job, resources } = visit
    const { results, dedupe } = this.#options
    const { key, fresh = false } = dedupe
    const [line = ''] = resources
    const asker = { line, id: job.id ?? '', timestamp: String(job.timestamp) }
    const what = key === undefined ? resources : key(job)
    const store = `result:${JSON.stringify([job.name, what])}`
    visit.shared = { store, asker: fresh ? asker : undefined }
    const peek = (): Promise<StoredResult | undefined> => results.peek(store, visit.shared?.asker)
    return visit.awaits(insistToStart(visit, this.#options, peek))
  }

  sharing(process: Process): Process {
    const { locks, leaseMs, results, channel, dedupe } = this.#options
    const { resultTtlMs } = dedupe
    return async (visit, lease) => {
      const { store, asker } = visit.shared as SharedResult
      // Jobs of other slots, or of other resources with the same key, ask for it too.
      // rule: one-computes-a-result
      const name = createHash('sha256').update(results.keyOf(store)).digest('hex')
      const { signal } = visit.stop
      const options = { leaseMs, waitMs: MAX_WAIT_MS, autoExtend: true, signal }
      // Who has it computes the result. It is lost with the process, and guards no write.
      const turn = await insistToStart(visit, this.#options, () =>
        locks.acquire(`result:${name}`, options),
      )
      const pass = (): void => void turn.release()
      // A job that is given up may go on without end.
      // rule: given-up-job-keeps-no-result
      signal.addEventListener('abort', pass)
      try {
        // Another job may have stored a result since the first read.
        const claim = (): Promise<ReadonlyMap<string, unknown>> =>
          results.claimAll(store, lease, resultTtlMs, asker)
        const stored = await visit.awaits(insistToStart(visit, this.#options, claim))
        if (stored.has('result')) return stored.get('result')
        const result = await process(visit, lease)
        const keep = (): Promise<unknown> => results.keep(store, lease, resultTtlMs, result)
        await visit.awaits(insist(visit, channel, keep)).catch((error: unknown) => {
          // Its work is done, although the job is stopped: only the others do not get the result.
          // rule: result-that-is-not-stored-ends-its-job
          if (error !== signal.reason) throw error
        })
        return result
      } finally {
        signal.removeEventListener('abort', pass)
        await turn.release()
      }
    }
  }
}
