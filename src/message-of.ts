/** What a server or a user says may end with a full stop; the sentence round it has its own. */
export function withoutStop(text: string): string {
  return text.replace(/\.+$/, '')
}

/** What a caught value says. Its name where an error has no message. */
export function messageOf(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : String(error)
}
