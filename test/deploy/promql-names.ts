/**
 * Which metrics and labels a PromQL expression names. Enough of its grammar for the expressions in
 * deploy/.
 */

export interface Names {
  readonly metrics: readonly string[]
  readonly labels: readonly string[]
  /** Values that a label is compared with, alternatives of a pattern each by itself. */
  readonly values: readonly { readonly label: string; readonly value: string }[]
}

const KEYWORDS = new Set(['and', 'or', 'unless', 'offset', 'bool', 'ignoring', 'group_left'])

export function namesIn(promql: string): Names {
  const labels: string[] = []
  const values: { label: string; value: string }[] = []
  const rest = promql
    .replaceAll(/\{([^}]*)\}/g, (_all, matchers: string) => {
      for (const [, label = '', , text = ''] of matchers.matchAll(
        /(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g,
      )) {
        labels.push(label)
        // A dashboard's variable stands for whatever there is.
        const known = text.startsWith('$') ? [] : text.split('|')
        values.push(...known.map((value) => ({ label, value })))
      }
      return ''
    })
    .replaceAll(/\b(?:by|on|without)\s*\(([^)]*)\)/g, (_all, list: string) => {
      labels.push(...list.split(',').map((label) => label.trim()))
      return ''
    })
    .replaceAll(/\[[^\]]*\]/g, '')
    .replaceAll(/\boffset\s+\w+/g, '')
  const words = rest.matchAll(/\b[a-z_]\w*\b(?!\s*\()/g)
  const metrics = [...words].map(([word]) => word).filter((word) => !KEYWORDS.has(word))
  return { metrics, labels, values }
}
