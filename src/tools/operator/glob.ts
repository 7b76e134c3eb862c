/** Text that a glob pattern matches as it is. */
export function globEscape(text: string): string {
  return text.replace(/[\\*?[\]]/g, '\\$&')
}

/** What a glob pattern of Redis matches: `*`, `?`, `[ab]`, `[^a]`, and `\` before a character. */
export function globPattern(glob: string): RegExp {
  const parts = glob.match(/\\.|\[[^\]]*\]|[^]/g) ?? []
  const source = parts.map((part) => {
    if (part === '*') return '.*'
    if (part === '?') return '.'
    if (part.length > 1 && part.startsWith('[')) return part
    return part.slice(-1).replace(/[\\^$.*+?()[\]{}|/]/, '\\$&')
  })
  return new RegExp(`^${source.join('')}$`, 's')
}
