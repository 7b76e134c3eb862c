/** Lines of a stream, one at a time: memory is bounded by the longest line allowed. */

export interface Line {
  /** From 1. */
  readonly number: number
  /** Where it begins and where the next one does, in bytes of the whole input. */
  readonly start: number
  readonly end: number
  /** Undefined for a line that is longer than allowed. */
  readonly text: string | undefined
}

const NEWLINE = 0x0a

export async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Line, void, undefined> {
  let number = 0
  let start = 0
  let parts: Uint8Array[] = []
  let length = 0
  const keep = (part: Uint8Array): void => {
    // What is too long is counted and not kept.
    if (length <= maxBytes && part.length > 0) parts.push(part)
    length += part.length
  }
  const take = (end: number): Line => {
    const text = length > maxBytes ? undefined : Buffer.concat(parts).toString('utf8')
    const taken = { number: ++number, start, end, text }
    parts = []
    length = 0
    start = end
    return taken
  }
  for await (const chunk of chunks) {
    let from = 0
    for (;;) {
      const at = chunk.indexOf(NEWLINE, from)
      if (at < 0) break
      keep(chunk.subarray(from, at))
      from = at + 1
      yield take(start + length + 1)
    }
    keep(chunk.subarray(from))
  }
  if (length > 0) yield take(start + length)
}
