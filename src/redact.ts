/**
 * Text for people and logs without the user names, passwords and query of URLs in it. Takes linear
 * time, however long it is.
 */
export function redacted(text: string): string {
  return text.replace(/[^\s,'"]+/g, (word) => {
    const scheme = word.indexOf('://')
    if (scheme < 0) return word
    const at = word.lastIndexOf('@')
    const address = at < scheme ? word : `${word.slice(0, scheme + 3)}***@${word.slice(at + 1)}`
    return address.replace(/(\?[^=]*=).*$/, '$1***')
  })
}

/** What a server says to a login: ioredis adds the command to the error, and so the password. */
export function hideLogin(error: unknown): void {
  const { command, lastNodeError } = (error ?? {}) as {
    readonly command?: { readonly name?: unknown; args?: unknown }
    readonly lastNodeError?: unknown
  }
  // rule: refused-login-shows-no-password
  if (command !== undefined && /^(?:hello|auth)$/i.test(String(command.name))) command.args = []
  if (lastNodeError !== undefined) hideLogin(lastNodeError)
}

const PLACE = /^(\[[\da-f:.]+\]|[\w.-]*)(:\d+)?(\/\d*)?([?#=]\*{3})?$/i

/**
 * A value in a message that refuses it. If it was meant as an address, its scheme, host and port
 * are shown. Whatever may be a secret is not, also where the address is mistyped.
 */
export function shownValue(value: string): string {
  const scheme = /^[a-z][a-z\d+.-]*:\/\//i.exec(value)?.[0] ?? ''
  const rest = value.slice(scheme.length)
  const at = rest.lastIndexOf('@')
  const user = rest.slice(0, at + 1)
  // Which `@` ends the user is unknown; and JSON may hold anything.
  if (/[?#]/.test(user) || /^\s*[{[]/.test(value)) return `${scheme}***`
  const place = rest.slice(at + 1).replace(/[?#=][^]*$/, (more) => `${more.charAt(0)}***`)
  const isWord = scheme === '' && user === ''
  const host = /^[\w.-]*/.exec(place)?.[0] ?? ''
  const shown = isWord || PLACE.test(place) ? place : `${host}***`
  return `${scheme}${user === '' ? '' : '***@'}${shown}`
}
