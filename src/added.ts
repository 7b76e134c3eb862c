/** The numbers of one name, or one index, add up. Of what is no number, the last one counts. */
export function added<Row extends object>(rows: readonly Row[]): Row {
  const all: Record<string, unknown> = {}
  for (const [name, value] of rows.flatMap((row) => Object.entries<unknown>(row as never))) {
    const before = all[name]
    all[name] = typeof value === 'number' && typeof before === 'number' ? before + value : value
  }
  return all as Row
}
