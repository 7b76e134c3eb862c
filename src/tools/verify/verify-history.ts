/** Reads the logs of several processes and judges them. */
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { HistoryChecker, type HistoryVerdict, type VerifyOptions } from './history-checker.ts'

/** A log: lines, or the objects that they are of, in the order in which they were written. */
export interface HistorySource {
  /** For messages, such as the name of its file. */
  readonly name: string
  /** Its lines as text, or as objects. */
  readonly lines: AsyncIterable<string | object> | Iterable<string | object>
}

/**
 * As {@link verifyHistory}, of files.
 * @example
 * ```ts
 * const { verdict } = await verifyHistoryFiles(['worker-1.ndjson', 'worker-2.ndjson'])
 * ```
 */
export async function verifyHistoryFiles(
  paths: readonly string[],
  options: VerifyOptions = {},
): Promise<HistoryVerdict> {
  return verifyHistory(
    paths.map((path) => ({ name: path, lines: linesOf(() => createReadStream(path)) })),
    options,
  )
}

/** Opened when it is read: readline drops the lines that come before they are read. */
export async function* linesOf(open: () => Readable): AsyncGenerator<string, void, undefined> {
  yield* createInterface({ input: open(), crlfDelay: Infinity })
}

/**
 * Whether two trusted leases of one resource ever overlapped, whether fencing tokens rose, and
 * which lines are missing.
 * @example
 * ```ts
 * const lines = ['{"event":"lease:granted"}'] // as the logger wrote them
 * const { verdict, findings } = await verifyHistory([{ name: 'worker-1', lines }])
 * ```
 */
export async function verifyHistory(
  sources: readonly HistorySource[],
  options: VerifyOptions = {},
): Promise<HistoryVerdict> {
  const checker = new HistoryChecker(options)
  for (const { name, lines } of sources) {
    let number = 0
    for await (const line of lines) checker.read(line, `line ${++number} of ${name}`)
  }
  return checker.verdict()
}
