/**
 * A token without most of its secret: the owner, and enough to tell two leases of one owner apart.
 */
export function describeToken(token: string): string {
  const at = token.indexOf('@')
  return at < 0 ? `${token.slice(0, 6)}…` : `${token.slice(at + 1)} (${token.slice(0, 6)}…)`
}
