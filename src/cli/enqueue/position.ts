/**
 * How far an input has been added, in a file beside it. It is saved after each batch: an enqueue that was killed between the
 * two goes on a batch too early, and the queue itself knows those lines.
 */
import { createHash } from 'node:crypto'
import { open, readFile, rename, writeFile } from 'node:fs/promises'
import { UsageError } from '../exit-code.ts'
import type { Line, Place } from './ndjson-lines.ts'

export interface Position extends Place {
  readonly queue: string
  readonly runId: string
  /** Of the last line before the position: shows that the input is still the same up to here. */
  readonly last: { readonly start: number; readonly sha256: string }
}

export function positionAfter(queue: string, runId: string, line: Line): Position {
  const last = { start: line.start, sha256: sha256(line.text ?? '') }
  return { queue, runId, line: line.number, offset: line.end, last }
}

/** Undefined when there is none yet. @throws UsageError for a file of another kind or another run. */
export async function loadPosition(
  path: string,
  queue: string,
  runId: string,
): Promise<Position | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const position = parse(text)
  if (position === undefined) {
    throw new UsageError(
      `--position ${path} was not written by enqueue: delete it, or name another`,
    )
  }
  if (position.queue !== queue || position.runId !== runId) {
    throw new UsageError(
      `--position ${path} belongs to queue \`${position.queue}\` and run \`${position.runId}\`: name another file, or --restart`,
    )
  }
  return position
}

/** Whole or not at all, whenever this process is killed. */
export async function savePosition(path: string, position: Position): Promise<void> {
  const draft = `${path}.${process.pid}.tmp`
  await writeFile(draft, `${JSON.stringify(position)}\n`)
  await rename(draft, path)
}

/** @throws UsageError when the input before the position is not what was added. */
export async function checkUnchanged(path: string, position: Position): Promise<void> {
  const { start } = position.last
  const file = await open(path)
  try {
    const bytes = Buffer.alloc(position.offset - start)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start)
    const text = bytes.subarray(0, bytesRead).toString('utf8').replace(/\n$/, '')
    // A line that was too long was not read, and is not compared.
    const skipped = position.last.sha256 === sha256('')
    if (bytesRead === bytes.length && (skipped || sha256(text) === position.last.sha256)) return
  } finally {
    await file.close()
  }
  throw new UsageError(
    `${path} has changed before line ${position.line}, up to which it was added: --restart adds what is new in it`,
  )
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function parse(text: string): Position | undefined {
  try {
    const { queue, runId, line, offset, last } = JSON.parse(text) as Position
    const right =
      typeof queue === 'string' &&
      typeof runId === 'string' &&
      [line, offset, last.start].every((count) => Number.isSafeInteger(count) && count >= 0) &&
      last.start <= offset &&
      typeof last.sha256 === 'string'
    return right ? { queue, runId, line, offset, last } : undefined
  } catch {
    return undefined // Not ours, whatever it is.
  }
}
