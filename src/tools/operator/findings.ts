/** How checks tell what they find. */
import type { Finding } from '../../lock/finding.ts'

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
