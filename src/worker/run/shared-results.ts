/** With `dedupe`: one computation for all jobs that ask for the same, within a time. */
import type { Job } from 'bullmq'
import type { Channel } from '../../channel.ts'
import { insist, insistToStart } from './insist.ts'
import type { Process } from './job-lease.ts'
import type { PlaceInLine, ResultStore, StoredResult } from './result-store.ts'
import type { Visit } from './visit.ts'

/** One computation for all jobs of a queue with the same name and resource, within a time. */
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

export class SharedResults {
  readonly #results: ResultStore
  readonly #dedupe: Dedupe<unknown>
  readonly #channel: Channel

  constructor(results: ResultStore, dedupe: Dedupe<unknown>, channel: Channel) {
    this.#results = results
    this.#dedupe = dedupe
    this.#channel = channel
  }

  /** The stored result, if this job may take it: then it needs no lease, and runs nothing. */
  peek(visit: Visit): Promise<StoredResult | undefined> {
    const { job, resources } = visit
    const { key, fresh = false } = this.#dedupe
    const [line = ''] = resources
    const asker = { line, id: job.id ?? '', timestamp: String(job.timestamp) }
    const what = key === undefined ? resources : key(job)
    const store = `result:${JSON.stringify([job.name, what])}`
    visit.shared = { store, asker: fresh ? asker : undefined }
    return insistToStart(visit, this.#channel, () => this.#results.peek(store, visit.shared?.asker))
  }

  sharing(process: Process): Process {
    const results = this.#results
    const { resultTtlMs } = this.#dedupe
    return async (visit, lease) => {
      const { store, asker } = visit.shared as SharedResult
      // Another job may have stored a result between the first read and the lease.
      const stored = await insistToStart(visit, this.#channel, () =>
        results.claimAll(store, lease, resultTtlMs, asker),
      )
      if (stored.has('result')) return stored.get('result')
      const result = await process(visit, lease)
      await insist(visit, this.#channel, () => results.keep(store, lease, resultTtlMs, result))
      return result
    }
  }
}
