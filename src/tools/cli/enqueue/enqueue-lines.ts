/** Reads lines and adds them in batches. Ends early when it is asked to, or at a bad line. */
import type { JobAdder } from './job-adder.ts'
import { readLine, type JobLineOptions, type NewJob } from './job-line.ts'
import type { Line } from './ndjson-lines.ts'
import type { Tally } from './progress.ts'

export interface EnqueueOptions {
  readonly lines: AsyncIterable<Line>
  readonly adder: Pick<JobAdder, 'add'>
  readonly job: JobLineOptions
  readonly batch: number
  readonly onBadLine: 'skip' | 'stop'
  readonly signal: AbortSignal
  badLine(line: number, problem: string): void
  progress(tally: Tally): void
}

/** A batch is in memory several times: as text, as data, and on its way to the server. */
const MAX_BATCH_BYTES = 4 * 1_048_576

export type EnqueueEnd = 'done' | 'bad line' | 'interrupted'

export async function enqueueLines(
  options: EnqueueOptions,
): Promise<{ readonly end: EnqueueEnd; readonly tally: Tally }> {
  const { adder, signal } = options
  const tally = { lines: 0, added: 0, alreadyThere: 0, bad: 0, offset: 0 }
  let jobs: NewJob[] = []
  const flush = async (last: Line): Promise<void> => {
    const { added, alreadyThere } = await adder.add(jobs)
    jobs = []
    tally.added += added
    tally.alreadyThere += alreadyThere
    tally.lines = last.number
    tally.offset = last.end
    options.progress(tally)
  }
  let end: EnqueueEnd = 'done'
  let last: Line | undefined
  try {
    for await (const line of options.lines) {
      const read = readLine(line, options.job)
      if (read.kind === 'bad') {
        options.badLine(line.number, read.problem)
        tally.bad++
        if (options.onBadLine === 'stop') {
          end = 'bad line'
          break
        }
      }
      if (read.kind === 'job') jobs.push(read.job)
      last = line
      const isFull =
        line.number - tally.lines >= options.batch || line.end - tally.offset >= MAX_BATCH_BYTES
      if (!isFull) continue
      await flush(line)
      if (signal.aborted) break
    }
  } catch (error) {
    if (!signal.aborted) throw error // The signal ends the input with an error.
  }
  if (signal.aborted) return { end: 'interrupted', tally }
  if (last !== undefined && last.number > tally.lines) await flush(last)
  return { end, tally }
}
