/** With `checkpoints`: a step that an earlier run of the job completed is not run again. */
import type { Channel } from '../../channel.ts'
import type { Lease } from '../../lock/lease.ts'
import { insist } from './insist.ts'
import type { Process } from './job-lease.ts'
import { stepsKey, type ResultStore, type StoredResult } from './result-store.ts'
import type { Visit } from './visit.ts'

/** Forgotten after this long without a step, if they were not removed with the job. */
const CHECKPOINT_TTL_MS = 7 * 24 * 3_600_000

/** Keeps the results of a job's steps. */
export function checkpointing(process: Process, results: ResultStore, channel: Channel): Process {
  return (visit, jobLease) => {
    const { lease } = visit
    if (lease !== undefined) jobLease.checkpoints = new Checkpoints(visit, lease, results, channel)
    return process(visit, jobLease)
  }
}

/** The results of one job's completed steps. */
export class Checkpoints {
  readonly #visit: Visit
  readonly #lease: Lease
  readonly #results: ResultStore
  readonly #channel: Channel
  readonly #store: string
  readonly #seen = new Set<string>()
  #earlier: Promise<ReadonlyMap<string, unknown>> | undefined

  constructor(visit: Visit, lease: Lease, results: ResultStore, channel: Channel) {
    this.#visit = visit
    this.#lease = lease
    this.#results = results
    this.#channel = channel
    this.#store = stepsKey(visit.job)
  }

  /** The result of a step that an earlier run of this job completed. */
  async completed(name: string): Promise<StoredResult | undefined> {
    if (this.#seen.has(name)) {
      throw new TypeError(
        `The step \`${name}\` runs twice in one job: with \`checkpoints\` give each step its own name`,
      )
    }
    this.#seen.add(name)
    // Read once, and claimed: from now on an older holder of this job cannot write.
    this.#earlier ??= this.#insist(() =>
      this.#results.claimAll(this.#store, this.#lease, CHECKPOINT_TTL_MS),
    )
    const values = await this.#earlier
    return values.has(name) ? { value: values.get(name) } : undefined
  }

  save(name: string, value: unknown): Promise<void> {
    return this.#insist(() =>
      this.#results.keep(this.#store, this.#lease, CHECKPOINT_TTL_MS, value, name),
    )
  }

  #insist<Value>(action: () => Promise<Value>): Promise<Value> {
    return insist(this.#visit, this.#channel, action)
  }
}
