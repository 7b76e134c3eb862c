/** Where the lines come from: a file, which can be entered anywhere, or standard input, which must be read from its beginning. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { UsageError } from '../exit-code.ts'
import { linesOf, type Line, type Place } from './ndjson-lines.ts'
import { checkUnchanged, type Position } from './position.ts'

export interface Source {
  /** Undefined for standard input. */
  readonly totalBytes: number | undefined
  /** The lines after the position. The signal ends them with an `AbortError`. */
  lines(maxBytes: number, signal: AbortSignal): AsyncIterable<Line>
}

const BEGINNING: Place = { line: 0, offset: 0 }

/** @throws UsageError when there is no such file, or it is not the one that the position is of. */
export async function openSource(path: string, position: Position | undefined): Promise<Source> {
  if (path === '-') return standardInput(position ?? BEGINNING)
  const found = await stat(path).catch((error: unknown) => {
    throw new UsageError(`cannot read ${path}: ${error instanceof Error ? error.message : ''}`)
  })
  if (!found.isFile()) throw new UsageError(`${path} is not a file; - reads standard input`)
  if (position !== undefined) await checkUnchanged(path, position)
  const place = position ?? BEGINNING
  return {
    totalBytes: found.size,
    lines: (maxBytes, signal) => {
      const stream = addAbortSignal(signal, createReadStream(path, { start: place.offset }))
      return linesOf(chunksOf(stream), place, maxBytes)
    },
  }
}

function standardInput(place: Place): Source {
  return {
    totalBytes: undefined,
    async *lines(maxBytes, signal) {
      const stream = addAbortSignal(signal, process.stdin)
      for await (const line of linesOf(chunksOf(stream), BEGINNING, maxBytes)) {
        if (line.number > place.line) yield line
      }
    },
  }
}

async function* chunksOf(stream: Readable): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of stream) yield chunk as Uint8Array
}
