/** Reads lines, adds them in batches, saves the position after each. Ends early when it is asked to, or at a bad line. */
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
  readonly start: { readonly line: number; readonly offset: number }
  badLine(line: number, problem: string): void
  /** Everything up to this line has been added. */
  save(last: Line): Promise<void>
  progress(tally: Tally): void
}

/** A batch is in memory several times: as text, as data, and on its way to the server. */
const MAX_BATCH_BYTES = 4 * 1_048_576

export type EnqueueEnd = 'done' | 'bad line' | 'interrupted'

export async function enqueueLines(
  options: EnqueueOptions,
): Promise<{ readonly end: EnqueueEnd; readonly tally: Tally }> {
  const { adder, signal } = options
  const { line: lines, offset } = options.start
  let tally: Tally = { lines, added: 0, alreadyThere: 0, bad: 0, offset }
  let jobs: NewJob[] = []
  let last: Line | undefined
  const flush = async (): Promise<void> => {
    if (last === undefined) return
    const { added, alreadyThere } = await adder.add(jobs)
    await options.save(last)
    tally = {
      ...tally,
      lines: last.number,
      offset: last.end,
      added: tally.added + added,
      alreadyThere: tally.alreadyThere + alreadyThere,
    }
    jobs = []
    last = undefined
    options.progress(tally)
  }
  let end: EnqueueEnd = 'done'
  let unsaved = 0
  let unsavedBytes = 0
  try {
    for await (const line of options.lines) {
      const read = readLine(line, options.job)
      if (read.kind === 'bad') {
        options.badLine(read.line, read.problem)
        tally = { ...tally, bad: tally.bad + 1 }
        if (options.onBadLine === 'stop') {
          end = 'bad line'
          break
        }
      }
      if (read.kind === 'job') jobs.push(read.job)
      last = line
      unsavedBytes += line.end - line.start
      if (++unsaved < options.batch && unsavedBytes < MAX_BATCH_BYTES) continue
      unsaved = 0
      unsavedBytes = 0
      await flush()
      if (signal.aborted) break
    }
  } catch (error) {
    if (!signal.aborted) throw error // The signal ends the input with an error.
  }
  if (signal.aborted) return { end: 'interrupted', tally }
  await flush()
  return { end, tally }
}
