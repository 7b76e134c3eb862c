/** One thing that a diagnosis found. */
export interface Finding {
  /**
   * `error`: something does not work or must not be so. `warning`: it soon may. `note`: good to
   * know, and healthy.
   */
  readonly severity: 'error' | 'warning' | 'note'
  /** Stable, for machines: `unreachable`, `evicts`, … */
  readonly code: string
  /** The server's `host:port`, `fleet`, `this machine`, or `queue host:port`. */
  readonly where: string
  readonly fact: string
  /** What to do, in one line. */
  readonly fix: string
}

export type Report = (
  severity: Finding['severity'],
  code: string,
  fact: string,
  fix: string,
) => void

/** What `check` reports about one server, or about the fleet. */
export function findingsOf(where: string, check: (report: Report) => void): readonly Finding[] {
  const found: Finding[] = []
  check((severity, code, fact, fix) => {
    found.push({ severity, code, where, fact, fix })
  })
  return found
}
