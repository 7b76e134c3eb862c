/** Reads a file of strikes, one JSON object a line. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseStrike, type Strike } from './strike.ts'

export const REAL_STRIKES = join(import.meta.dirname, 'data', 'strikes.ndjson')

interface BadLine {
  readonly line: number
  readonly reason: string
}

export interface StrikeLines {
  readonly strikes: readonly Strike[]
  readonly bad: readonly BadLine[]
}

/** Every line is either a strike or reported with its number; empty lines are skipped. */
export function parseStrikes(text: string): StrikeLines {
  const strikes: Strike[] = []
  const bad: BadLine[] = []
  const lineOf = new Map<string, number>()
  for (const [index, content] of text.split(/\r?\n/).entries()) {
    if (content.trim() === '') continue
    const line = index + 1
    const strike = parseLine(content)
    if (typeof strike === 'string') {
      bad.push({ line, reason: strike })
      continue
    }
    const earlier = lineOf.get(strike.id)
    if (earlier !== undefined) {
      bad.push({ line, reason: `The id "${strike.id}" stands on line ${earlier} already` })
      continue
    }
    lineOf.set(strike.id, line)
    strikes.push(strike)
  }
  return { strikes, bad }
}

/** Reads the file; throws with the first bad lines unless every line is good. */
export async function readStrikes(path: string): Promise<readonly Strike[]> {
  const { strikes, bad } = parseStrikes(await readFile(path, 'utf8'))
  if (bad.length === 0) return strikes
  const shown = bad.slice(0, 10).map(({ line, reason }) => `  line ${line}: ${reason}`)
  const rest = bad.length > shown.length ? [`  and ${bad.length - shown.length} more`] : []
  throw new Error([`${path} has ${bad.length} bad lines:`, ...shown, ...rest].join('\n'))
}

function parseLine(content: string): Strike | string {
  try {
    return parseStrike(JSON.parse(content))
  } catch (error) {
    return `Expected JSON: ${error instanceof Error ? error.message : String(error)}`
  }
}
