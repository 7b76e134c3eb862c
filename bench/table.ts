/** Tables as text for a terminal, and as Markdown. The first row is the head. */

type Rows = readonly (readonly string[])[]

export function textTable(rows: Rows): string {
  const lines = padded(rows, 0).map((cells) => `  ${cells.join('  ')}`.trimEnd())
  return lines.join('\n')
}

/** As Prettier writes it. */
export function markdownTable(rows: Rows): string {
  const [head = [], ...body] = padded(rows, 3)
  const rule = head.map((cell) => '-'.repeat(cell.length))
  return [head, rule, ...body].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function padded(rows: Rows, least: number): Rows {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(least, ...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows.map((cells) => cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)))
}
