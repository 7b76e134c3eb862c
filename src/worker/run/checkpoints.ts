import type { ResultStore, Run } from './result-store.ts'

/** The results of one job's completed steps. */
export interface Checkpoints {
  /** The result of a step that an earlier run of this job completed. */
  completed(name: string): Promise<{ readonly value: unknown } | undefined>
  save(name: string, value: unknown): Promise<void>
}

/** Forgotten after this long without a step, if they were not removed with the job. */
const CHECKPOINT_TTL_MS = 7 * 24 * 3_600_000

/** Repeats what a server refuses, until it is done or the job has to stop. */
export type Insist = <Value>(action: () => Promise<Value> | undefined) => Promise<Value>

export function checkpointsOf(
  results: ResultStore,
  store: string,
  run: Run,
  insist: Insist,
): Checkpoints {
  const seen = new Set<string>()
  let earlier: Promise<ReadonlyMap<string, unknown>> | undefined
  return {
    async completed(name) {
      if (seen.has(name)) {
        throw new TypeError(
          `The step \`${name}\` runs twice in one job: with \`checkpoints\` give each step its own name`,
        )
      }
      seen.add(name)
      // Read once, and claimed: from now on an older run of this job cannot write.
      earlier ??= insist(() => results.claimAll(store, run, CHECKPOINT_TTL_MS))
      const values = await earlier
      return values.has(name) ? { value: values.get(name) } : undefined
    },
    save: (name, value) => insist(() => results.keep(store, run, CHECKPOINT_TTL_MS, value, name)),
  }
}
