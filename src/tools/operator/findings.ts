/** How checks tell what they find. */
import type { Finding } from '../../services/finding.ts'

export type Report = (
  severity: Finding['severity'],
  code: string,
  fact: string,
  fix: string,
) => void

/** What is the same on several servers is said once. */
export function grouped(findings: readonly Finding[]): readonly Finding[] {
  const groups = new Map<string, Finding>()
  for (const finding of findings) {
    const { where, ...what } = finding
    const key = JSON.stringify(what)
    const group = groups.get(key)
    const together = group === undefined ? where : `${group.where}, ${where}`
    groups.set(key, { ...finding, where: together })
  }
  return [...groups.values()]
}

/** What `check` reports about one server, or about the fleet. */
export function findingsOf(where: string, check: (report: Report) => void): readonly Finding[] {
  const found: Finding[] = []
  check((severity, code, fact, fix) => {
    found.push({ severity, code, where, fact, fix })
  })
  return found
}
