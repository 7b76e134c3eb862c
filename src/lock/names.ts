/** Names: of what is protected, of who holds it, and of keys. Pure. */
import { refuse } from '../options.ts'

const MAX_LENGTH = 512
/** A worker asks for slots by their names. */
const SLOT = /#\d{1,4}$/
const MAX_RESOURCES = 64

/** Sorted without repetitions: contenders for the same resources meet at the same one first. */
export function resourceNames(resource: unknown): readonly string[] {
  if (!Array.isArray(resource)) return [resourceName(resource)]
  const names: unknown[] = resource
  if (names.length === 0 || names.length > MAX_RESOURCES) {
    refuse('resource', `a string or a list of 1 to ${MAX_RESOURCES} strings`, resource)
  }
  return [...new Set(names.map(resourceName))].sort()
}

export function resourceName(name: unknown): string {
  const isName = typeof name === 'string' && name.length > 0
  if (!isName || name.replace(SLOT, '').length > MAX_LENGTH) {
    return refuse('resource', `a string of 1 to ${MAX_LENGTH} characters`, name)
  }
  // No server could write half a surrogate pair down: names with other halves would be the same.
  if (name.isWellFormed()) return name
  return refuse('resource', 'a string of whole characters (well-formed Unicode)', name)
}

/** Several resources under one lease, in one word for people. */
export function labelOf(resources: readonly string[]): string {
  return resources.join(' + ')
}

/** A token without most of its secret: the owner, and what tells two of its leases apart. */
export function describeToken(token: string): string {
  const at = token.indexOf('@')
  return at < 0 ? `${token.slice(0, 6)}…` : `${token.slice(at + 1)} (${token.slice(0, 6)}…)`
}

/** What follows the namespace in the keys of a lock. */
const KINDS = /:(lease|fence|wait|next|tomb|master|flag|released)(:|$)/

/** Whether keys that begin with the text could be keys of a lock of some namespace. */
export function namesLockKeys(text: string): boolean {
  return KINDS.test(text)
}
