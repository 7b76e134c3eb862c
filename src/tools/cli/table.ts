/**
 * Rows in columns, as wide as their widest cell. Cells may contain colour codes. Where the columns
 * do not fit, each row begins with its first cells, and the others follow it with their names.
 */
import { outputWidth, textWidth } from './width.ts'

/** @param names how many of the first columns say what a row is about. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  names = 1,
): string {
  const all = [head, ...rows]
  const widths = head.map((_, column) =>
    Math.max(...all.map((row) => textWidth(row[column] ?? ''))),
  )
  const total = widths.reduce((sum, width) => sum + width + GAP, -GAP)
  if (total > outputWidth()) return rows.map((row) => folded(head, row, names)).join('\n')
  return all
    .map((row) => {
      const cells = row.map(
        (cell, column) => cell + ' '.repeat((widths[column] ?? 0) - textWidth(cell)),
      )
      return cells.join(' '.repeat(GAP)).trimEnd()
    })
    .join('\n')
}

const GAP = 2

function folded(head: readonly string[], row: readonly string[], names: number): string {
  const rest = row.slice(names).map((cell, index) => {
    return `${head[index + names]?.toLowerCase() ?? ''} ${cell}`
  })
  const lines = ['']
  for (const part of rest) {
    const last = lines.length - 1
    const joined = `${lines[last] ?? ''}, ${part}`
    if (lines[last] === '') lines[last] = `  ${part}`
    else if (textWidth(joined) < outputWidth()) lines[last] = joined
    else lines.push(`  ${part}`)
  }
  return [row.slice(0, names).join(' '), ...lines].join('\n')
}
