import type { ResultStore, Writer } from './result-store.ts'

/** The results of one job's completed steps. */
export interface Checkpoints {
  /** The result of a step that an earlier run of this job completed. */
  completed(name: string): Promise<{ readonly value: unknown } | undefined>
  save(name: string, value: unknown): Promise<void>
}

/** Forgotten after this long without a step, should nobody remove them with the job. */
const CHECKPOINT_TTL_MS = 7 * 24 * 3_600_000

export function checkpointsOf(results: ResultStore, store: string, writer: Writer): Checkpoints {
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
      // Read once, and claimed: from now on an older holder of this job cannot write.
      earlier ??= results.claimAll(store, writer, CHECKPOINT_TTL_MS)
      const values = await earlier
      return values.has(name) ? { value: values.get(name) } : undefined
    },
    save: (name, value) => results.keep(store, writer, CHECKPOINT_TTL_MS, value, name),
  }
}
