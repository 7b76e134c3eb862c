/** Text that a glob pattern matches as it is. */
export function globEscape(text: string): string {
  return text.replace(/[\\*?[\]]/g, '\\$&')
}

/** What a glob pattern of Redis matches: `*`, `?`, `[ab]`, `[^a-c]`, and `\` before a character. */
export function globPattern(glob: string): RegExp {
  const parts = glob.match(/\\[^]|\[(?:\\[^]|[^\]\\])*\]|[^]/g) ?? []
  const source = parts.map((part) => {
    if (part === '*') return '.*'
    if (part === '?') return '.'
    const [, not, among] = /^\[(\^?)([^]*)\]$/.exec(part) ?? []
    if (among === undefined) return unit(part.slice(-1))
    return `[${not ?? ''}${among.replace(/\\?([^])(?:-\\?([^]))?/g, range)}]`
  })
  return new RegExp(`^${source.join('')}$`, 's')
}

/** Redis takes its ends in any order. */
function range(_: string, from: string, to = from): string {
  return [from, to].sort().map(unit).join('-')
}

/** A character that means nothing else. */
function unit(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
