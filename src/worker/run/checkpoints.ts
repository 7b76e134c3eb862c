/** With `checkpoints`: a step that an earlier run of the job completed is not run again. */
import type { Channel } from '../../channel.ts'
import type { Process } from './job-lease.ts'
import { stepsKey, type ResultStore, type StoredResult } from './result-store.ts'
import { insist } from './admission.ts'

/** The results of one job's completed steps. */
export interface Checkpoints {
  /** The result of a step that an earlier run of this job completed. */
  completed(name: string): Promise<StoredResult | undefined>
  /** @returns what a later run would be given. */
  save(name: string, value: unknown): Promise<unknown>
}

/** Forgotten after this long without a step, if they did not end with the job. */
const CHECKPOINT_TTL_MS = 7 * 24 * 3_600_000

/** Keeps the results of a job's steps. */
export function checkpointing(process: Process, results: ResultStore, channel: Channel): Process {
  return (visit, lease) => {
    const { id: jobId = '', token: lock = '' } = visit.job
    const [store, run] = [stepsKey(jobId), { jobId, lock }]
    const seen = new Set<string>()
    let earlier: Promise<ReadonlyMap<string, unknown>> | undefined
    lease.checkpoints = {
      async completed(name) {
        if (seen.has(name)) {
          throw new TypeError(
            `The step \`${name}\` runs twice in one job: with \`checkpoints\` give each step its own name`,
          )
        }
        seen.add(name)
        // Read once, and claimed: from now on an older run of this job cannot write.
        const claim = (): Promise<ReadonlyMap<string, unknown>> =>
          results.claimAll(store, run, CHECKPOINT_TTL_MS)
        earlier ??= visit.awaits(insist(visit, channel, claim))
        const values = await earlier
        return values.has(name) ? { value: values.get(name) } : undefined
      },
      async save(name, value) {
        const keep = (): Promise<unknown> =>
          results.keep(store, run, CHECKPOINT_TTL_MS, value, name)
        return visit.awaits(insist(visit, channel, keep))
      },
    }
    return process(visit, lease)
  }
}
