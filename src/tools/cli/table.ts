/** Rows in columns, as wide as their widest cell. Cells may contain colour codes. */
import { stripVTControlCharacters } from 'node:util'

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows]
  const widths = head.map((_, column) => Math.max(...all.map((row) => width(row[column] ?? ''))))
  return all
    .map((row) => {
      const cells = row.map(
        (cell, column) => cell + ' '.repeat((widths[column] ?? 0) - width(cell)),
      )
      return cells.join('  ').trimEnd()
    })
    .join('\n')
}

function width(cell: string): number {
  return Array.from(stripVTControlCharacters(cell)).length
}
