/** Text that a glob pattern matches as it is. */
export function globEscape(text: string): string {
  return text.replace(/[\\*?[\]]/g, '\\$&')
}
