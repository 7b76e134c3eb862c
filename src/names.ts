/** Names: of what is protected, of who holds it, and of keys. Pure. */
import { ResourceError } from './errors.ts'
import { messageOf } from './message-of.ts'
import { refuse } from './options.ts'

const MAX_LENGTH = 512
/** What a template string makes of a value that is missing or has no name. */
const NOT_A_NAME = /(?<![\w-])(?:undefined|NaN|\[object \w+\])(?![\w-])/
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

/**
 * What the user's function names for a job, or for the data of one.
 * @throws ResourceError, with which the job fails, when it does not name anything.
 */
export function resourcesOf<Subject>(
  resource: (subject: Subject) => unknown,
  subject: Subject,
  jobId: string | undefined,
): readonly string[] {
  let named: unknown
  try {
    named = resource(subject)
  } catch (error) {
    const problem = `threw "${messageOf(error)}"`
    throw new ResourceError(jobId, problem, { cause: error })
  }
  const names: readonly unknown[] = Array.isArray(named) ? named : [named]
  if (names.length === 0) throw new ResourceError(jobId, 'returned an empty list')
  for (const name of names) {
    const problem = problemOf(name)
    if (problem === undefined) continue
    // A promise is no name; one that is rejected as well must not end the process.
    for (const one of names) void Promise.resolve(one).catch(() => undefined)
    throw new ResourceError(jobId, `returned ${problem}`)
  }
  return typeof named === 'string' ? [named] : [...new Set(names as string[])].sort()
}

/** Why a value cannot name what jobs touch; undefined where it can. */
export function problemOf(name: unknown): string | undefined {
  if (typeof name !== 'string') return kindOf(name)
  if (name.length === 0) return 'an empty string'
  if (name.length > MAX_LENGTH) return `${name.length} characters`
  const gap = NOT_A_NAME.exec(name)?.[0]
  if (gap !== undefined) {
    return `\`${name}\`: \`${gap}\` names nothing, and all such jobs would wait for each other`
  }
  return name.isWellFormed() ? undefined : 'half a surrogate pair'
}

function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (value instanceof Promise) return 'a promise'
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`
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
