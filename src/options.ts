/** Checks of option values; every message names the option, what it expects, and what it got. */

function describe(value: unknown): string {
  if (typeof value === 'string') return `\`'${value}'\` (string)`
  if (value === null || value === undefined) return `\`${String(value)}\``
  if (typeof value === 'number' || typeof value === 'boolean')
    return `\`${String(value)}\` (${typeof value})`
  return `a value of type ${Array.isArray(value) ? 'array' : typeof value}`
}

/** @throws TypeError that names the option, the expectation and the value. */
export function refuse(option: string, expected: string, value: unknown): never {
  throw new TypeError(`Expected \`${option}\` to be ${expected}, got ${describe(value)}`)
}

export function integerOption(option: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    const range = max === Number.MAX_SAFE_INTEGER ? `>= ${min}` : `from ${min} to ${max}`
    return refuse(option, `an integer ${range}`, value)
  }
  return value
}

export function numberOption(option: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number' || !(value >= min && value <= max)) {
    return refuse(option, `a number from ${min} to ${max}`, value)
  }
  return value
}

export function nameOption(option: string, value: unknown): string {
  if (typeof value !== 'string' || value.length === 0 || value.length > 256) {
    return refuse(option, 'a string of 1 to 256 characters', value)
  }
  if (/\p{Surrogate}/u.test(value)) {
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
): asserts options is Readonly<Record<string, unknown>> {
  if (typeof options !== 'object' || options === null) refuse('options', expected, options)
}

/** @throws TypeError for a name that is none of `known`: a typing error would change nothing, silently. It does not name those that are `false`. */
export function knownOptions(
  options: Readonly<Record<string, unknown>>,
  known: Readonly<Record<string, boolean>>,
): void {
  for (const name in options) {
    if (Object.hasOwn(known, name) || options[name] === undefined) continue
    const names = Object.keys(known).filter((each) => known[each] === true)
    const meant = names.find((each) => each.toLowerCase() === name.toLowerCase())
    const hint = meant === undefined ? `There are ${names.join(', ')}` : `Is it \`${meant}\`?`
    throw new TypeError(`There is no option \`${name}\`. ${hint}`)
  }
}
