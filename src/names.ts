/** Names: of what is protected, of who holds it, and of keys. Pure. */
import { ResourceError } from './job-errors.ts'
import { messageOf } from './message-of.ts'
import { refuse } from './options.ts'

const MAX_LENGTH = 512
/** What a template string makes of a value that is missing or has no name. */
const NOT_A_NAME = /(?<![\w-])(?:undefined|NaN|\[object \w+\])(?![\w-])/
/** A worker asks for slots by their names. */
const SLOT = /#\d{1,4}$/
const MAX_RESOURCES = 64
const A_NAME = `a string of whole characters (well-formed Unicode), 1 to ${MAX_LENGTH} of them`

/** Sorted without repetitions: contenders for the same resources meet at the same one first. */
export function resourceNames(resource: unknown): readonly string[] {
  const names: readonly unknown[] = Array.isArray(resource) ? resource : [resource]
  if (names.length === 0 || names.length > MAX_RESOURCES) {
    refuse('resource', `a string or a list of 1 to ${MAX_RESOURCES} strings`, resource)
  }
  for (const name of names) if (problemOf(name) !== undefined) refuse('resource', A_NAME, name)
  return names.length === 1 ? (names as string[]) : [...new Set(names as string[])].sort()
}

/** @throws TypeError for what can be the name of no resource. */
export function resourceName(name: unknown): string {
  return problemOf(name) === undefined ? (name as string) : refuse('resource', A_NAME, name)
}

/** @throws TypeError for what jobs cannot name. */
export function touchedName(name: unknown): string {
  const found = resourceName(name)
  const gap = NOT_A_NAME.exec(found)?.[0]
  if (gap === undefined) return found
  return refuse('resource', `the name of a resource, and \`${gap}\` in it names nothing`, name)
}

/** Whether a job can name it. */
export function isName(name: unknown): name is string {
  return problemOf(name) === undefined && !NOT_A_NAME.test(name as string)
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
    const gap = problem ? undefined : NOT_A_NAME.exec(name as string)?.[0]
    if (problem === undefined && gap === undefined) continue
    // A promise is no name; one that is rejected as well must not end the process.
    for (const one of names) void Promise.resolve(one).catch(() => undefined)
    const missing = `\`${String(name)}\`: \`${gap ?? ''}\` names nothing, and all such jobs would wait for each other`
    throw new ResourceError(jobId, `returned ${problem ?? missing}`)
  }
  if (names.length === 1) return names as string[]
  const different = [...new Set(names as string[])].sort()
  if (different.length <= MAX_RESOURCES) return different
  throw new ResourceError(jobId, `returned ${different.length} names, more than ${MAX_RESOURCES},`)
}

/** Why a value cannot be a name; undefined where it can. */
function problemOf(name: unknown): string | undefined {
  if (typeof name !== 'string') return kindOf(name)
  if (name.length === 0) return 'an empty string'
  if (name.replace(SLOT, '').length > MAX_LENGTH) return `${name.length} characters`
  // No server could write half a surrogate pair down: names with other halves would be the same.
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
