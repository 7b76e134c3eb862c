/** What a server or a user says may end with a full stop; the sentence round it has its own. */
export function withoutStop(text: string): string {
  return text.replace(/\.+$/, '')
}

/** As `line/lua/reason.lua` has it. */
const MOST_CHARACTERS = 1_000

/** The beginning of what a processor threw, for people. */
export function shortReason(reason: string): string {
  if (reason.length <= MOST_CHARACTERS) return reason
  return `${reason.slice(0, MOST_CHARACTERS).toWellFormed()}…`
}

/** As OpenSSL says what the other side did, between addresses that are another each time. */
const OPENSSL = /^\w+:error:\w+:SSL routines:[^:]*:([^:]+):.*/s

/** As ioredis says that a server is silent. */
const SILENT = /^Socket timeout\. Expecting data, but didn't receive any in (\d+)ms\.$/

/** What a server says, or does not say, in our words where they are clearer. */
function clearer(message: string): string {
  return message.replace(OPENSSL, 'TLS: $1').replace(SILENT, 'no data from the server for $1 ms')
}

/** What texts that name a cause have in common: not whose address it is about. */
export function withoutAddresses(text: string): string {
  return text
    .replace(/\b((?:connect|getaddrinfo) E\w+) [^\s,;)]+/g, '$1')
    .replace(/\b((?:connect|getaddrinfo) E\w+)(?:, \1)+/g, '$1')
}

/** What a caught value says. Its name where an error has no message. */
export function messageOf(error: unknown): string {
  if (error instanceof Error && error.message !== '') {
    const said = clearer(error.message)
    // Of a cluster that ioredis cannot ask: what its last node said.
    const { lastNodeError } = error as { readonly lastNodeError?: unknown }
    return lastNodeError ? `${withoutStop(said)}: ${messageOf(lastNodeError)}` : said
  }
  // A name with several addresses: each was tried.
  if (error instanceof AggregateError && error.errors.length > 0) {
    return [...new Set(error.errors.map(messageOf))].join(', ')
  }
  return String(error)
}
