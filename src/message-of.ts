/** What a server or a user says may end with a full stop; the sentence round it has its own. */
export function withoutStop(text: string): string {
  return text.replace(/\.+$/, '')
}

/** As OpenSSL says what the other side did, between addresses that are another each time. */
const OPENSSL = /^\w+:error:\w+:SSL routines:[^:]*:([^:]+):.*/s

/** What a caught value says. Its name where an error has no message. */
export function messageOf(error: unknown): string {
  if (error instanceof Error && error.message !== '')
    return error.message.replace(OPENSSL, 'TLS: $1')
  // A name with several addresses: each was tried.
  if (error instanceof AggregateError && error.errors.length > 0) {
    return [...new Set(error.errors.map(messageOf))].join(', ')
  }
  return String(error)
}
