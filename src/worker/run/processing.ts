/** The processor of a worker, and around it what its options ask for. */
import type { OurOptions } from '../locked-worker-options.ts'
import { batchedOf, batching, type BatchSource } from './batch.ts'
import { processOf, type Process } from './job-runs.ts'
import { checkpointing, ResultStore, SharedResults, type Dedupe } from './results.ts'

export function processing(
  processor: (...args: never) => unknown,
  options: OurOptions<never>,
  source: BatchSource,
): { readonly process: Process; readonly shared: SharedResults | undefined } {
  const { checkpoints, maxValueBytes } = options
  const dedupe = options.dedupe as Dedupe<unknown> | undefined
  const results = new ResultStore(source.lines, maxValueBytes)
  const shared = dedupe && new SharedResults(results, dedupe)
  let process = processOf(processor)
  if (checkpoints) process = checkpointing(process, results)
  if (shared !== undefined) process = shared.sharing(process)
  const batched = batchedOf(processor)
  return { process: batched ? batching(process, batched, source) : process, shared }
}
