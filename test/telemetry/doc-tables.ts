/** Tables of the documentation, without their markup. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const DOCS = join(import.meta.dirname, '..', '..', 'docs')

/** The cells of each row of the first table under a heading. */
export function rowsOf(file: string, heading: string): readonly (readonly string[])[] {
  const text = readFileSync(join(DOCS, file), 'utf8')
  const [, after] = text.split(`\n## ${heading}\n`)
  if (after === undefined) throw new Error(`docs/${file} has no section ${heading}`)
  const lines = (after.split('\n## ')[0] ?? '').split('\n')
  const rows = lines.filter((line) => line.startsWith('|')).slice(2)
  return rows.map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim().replaceAll('`', '')),
  )
}
