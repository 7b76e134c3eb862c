/** Where the lines come from: a file, or standard input. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { UsageError } from '../exit-code.ts'
import { messageOf } from '../../../message-of.ts'
import { linesOf, type Line } from './ndjson-lines.ts'

export interface Source {
  /** Undefined for standard input. */
  readonly totalBytes: number | undefined
  /** The signal ends them with an `AbortError`. */
  lines(maxBytes: number, signal: AbortSignal): AsyncIterable<Line>
}

/** @throws UsageError when there is no such file. */
export async function openSource(path: string): Promise<Source> {
  const from = (open: () => Readable, totalBytes?: number): Source => ({
    totalBytes,
    lines: (maxBytes, signal) => linesOf(addAbortSignal(signal, open()), maxBytes),
  })
  if (path === '-') return from(() => process.stdin)
  const found = await stat(path).catch((error: unknown) => {
    throw new UsageError(`cannot read ${path}: ${messageOf(error)}`)
  })
  if (!found.isFile()) throw new UsageError(`${path} is not a file; - reads standard input`)
  return from(() => createReadStream(path), found.size)
}
