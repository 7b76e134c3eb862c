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
  let tally: Tally = { lines: 0, added: 0, alreadyThere: 0, bad: 0, offset: 0 }
  let jobs: NewJob[] = []
  let last: Line | undefined
  const flush = async (): Promise<void> => {
    if (last === undefined) return
    const { added, alreadyThere } = await adder.add(jobs)
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
  let waiting = 0
  let waitingBytes = 0
  try {
    for await (const line of options.lines) {
      const read = readLine(line, options.job)
      if (read.kind === 'bad') {
        options.badLine(line.number, read.problem)
        tally = { ...tally, bad: tally.bad + 1 }
        if (options.onBadLine === 'stop') {
          end = 'bad line'
          break
        }
      }
      if (read.kind === 'job') jobs.push(read.job)
      last = line
      waitingBytes += line.end - line.start
      if (++waiting < options.batch && waitingBytes < MAX_BATCH_BYTES) continue
      waiting = 0
      waitingBytes = 0
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
