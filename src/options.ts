/** Checks of option values; every message names the option, what it expects, and what it got. */
import { shownValue } from './redact.ts'

function describe(value: unknown): string {
  // rule: refused-value-shows-no-secret
  if (typeof value === 'string') return `\`'${shortened(shownValue(value))}'\` (string)`
  if (value === null || value === undefined) return `\`${String(value)}\``
  if (typeof value === 'number' || typeof value === 'boolean')
    return `\`${String(value)}\` (${typeof value})`
  if (value instanceof Promise) return 'a promise'
  return `a value of type ${Array.isArray(value) ? 'array' : typeof value}`
}

/** The longest value that a message repeats. */
const MAX_SHOWN = 200

/** A value in a message, as long as it helps. */
export function shortened(value: string): string {
  if (value.length <= MAX_SHOWN) return value
  return `${value.slice(0, MAX_SHOWN)}… (${value.length} characters)`
}

/** @throws TypeError that names the option, the expectation and the value. */
export function refuse(option: string, expected: string, value: unknown): never {
  // One that is rejected as well must not end the process.
  if (value instanceof Promise) value.catch(() => undefined)
  throw new TypeError(`Expected \`${option}\` to be ${expected}, got ${describe(value)}`)
}

/** The same for a value that is a secret. @throws TypeError without the value. */
export function refuseSecret(option: string, expected: string): never {
  throw new TypeError(`Expected \`${option}\` to be ${expected}`)
}

export function integerOption(option: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    return refuse(option, `an integer ${rangeOf(min, max)}`, value)
  }
  return value
}

export function numberOption(option: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number' || !(value >= min && value <= max)) {
    return refuse(option, `a number ${rangeOf(min, max)}`, value)
  }
  return value
}

function rangeOf(min: number, max: number): string {
  if (min === Number.MIN_VALUE) return '> 0'
  return max === Number.MAX_SAFE_INTEGER ? `>= ${min}` : `from ${min} to ${max}`
}

export function nameOption(option: string, value: unknown): string {
  if (typeof value !== 'string' || value.length === 0 || value.length > 256) {
    return refuse(option, 'a string of 1 to 256 characters', value)
  }
  if (!value.isWellFormed()) {
    return refuse(option, 'a string of whole characters (well-formed Unicode)', value)
  }
  return value
}

export function choiceOption(option: string, value: unknown, choices: readonly string[]): void {
  if (typeof value !== 'string' || !choices.includes(value)) {
    refuse(option, `one of ${choices.map((choice) => `'${choice}'`).join(', ')}`, value)
  }
}

/** @throws TypeError unless there are options by name; `expected` says which, in words. */
export function objectOption(
  options: unknown,
  expected: string,
  name = 'options',
): asserts options is Readonly<Record<string, unknown>> {
  const isObject = typeof options === 'object' && options !== null
  if (!isObject || options instanceof Promise) refuse(name, expected, options)
}

/** @throws TypeError for what no job can have as its id. */
export function jobIdOption(value: unknown): void {
  if (typeof value !== 'string') refuse('jobId', 'the id of a job, a string', value)
}

/**
 * @param known every option; those that are `false` are not listed in the message.
 * @throws TypeError for a name that is none of `known`: it would change nothing, silently.
 */
export function knownOptions(
  options: Readonly<Record<string, unknown>>,
  known: Readonly<Record<string, boolean>>,
): void {
  const names = Object.keys(known)
  for (const name in options) {
    if (Object.hasOwn(known, name) || options[name] === undefined) continue
    const meant = names.find((each) => isMisspelling(name.toLowerCase(), each.toLowerCase()))
    const listed = names.filter((each) => known[each] === true).join(', ')
    const hint = meant === undefined ? `There are ${listed}` : `Is it \`${meant}\`?`
    throw new TypeError(`There is no option \`${shortened(shownValue(name))}\`. ${hint}`)
  }
}

/** At most two letters are missing, superfluous or others. */
function isMisspelling(given: string, known: string): boolean {
  if (Math.abs(given.length - known.length) > 2) return false
  let row = Array.from({ length: known.length + 1 }, (_, index) => index)
  for (let index = 0; index < given.length; index++) {
    const [next, letter] = [[index + 1], given[index]]
    for (let at = 1; at <= known.length; at++) {
      const replaced = (row[at - 1] ?? 0) + (known[at - 1] === letter ? 0 : 1)
      next.push(Math.min(replaced, (row[at] ?? 0) + 1, (next[at - 1] ?? 0) + 1))
    }
    row = next
  }
  return (row.at(-1) ?? 0) <= (known.length > 5 ? 2 : 1)
}
