/**
 * Text for people and logs without the user names and passwords of URLs in it. Takes linear time,
 * however long it is.
 */
export function redacted(text: string): string {
  return text.replace(/[^\s,'"]+/g, (word) => {
    const scheme = word.indexOf('://')
    const at = word.lastIndexOf('@')
    if (scheme < 0 || at < scheme) return word
    return `${word.slice(0, scheme + 3)}***@${word.slice(at + 1)}`
  })
}
