/** The command line of the programs of this repository. */
import { parseArgs, type ParseArgsConfig } from 'node:util'

interface Option<Value> {
  readonly type: 'boolean' | 'string'
  /** Throws with what it expects of `--flag`. */
  read(texts: readonly string[], flag: string): Value
}

type Options = Readonly<Record<string, Option<unknown>>>
type Values<Given extends Options> = {
  readonly [Name in keyof Given]: Given[Name] extends Option<infer Value> ? Value : never
}

/**
 * Reads the options of a program: `failFast` is `--fail-fast`. `--help` prints the usage and ends
 * the process. So does what cannot be used, after the reason, with exit code 2.
 *
 * @param words - Those that may stand besides options.
 */
export function readOptions<Given extends Options>(
  usage: string,
  options: Given,
  words: readonly string[] = [],
): Values<Given> & { readonly words: readonly string[] } {
  const all = Object.entries(options).map(([name, option]) => {
    return { ...option, name, flag: name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`) }
  })
  const known: NonNullable<ParseArgsConfig['options']> = {
    ...Object.fromEntries(all.map((one) => [one.flag, { type: one.type, multiple: true }])),
    help: { type: 'boolean', short: 'h' },
  }
  try {
    const { values, positionals } = parseArgs({ options: known, allowPositionals: true })
    if (values['help'] !== undefined) {
      console.log(usage)
      process.exit(0)
    }
    for (const word of positionals) mustBeOne(words, word, 'each word')
    const read = all.map((one) => {
      return [one.name, one.read([values[one.flag] ?? []].flat().map(String), `--${one.flag}`)]
    })
    return { ...(Object.fromEntries(read) as Values<Given>), words: positionals }
  } catch (error) {
    return refuse(usage, error instanceof Error ? error.message : String(error))
  }
}

/** Ends the process: what it was told cannot be used together. */
export function refuse(usage: string, reason: string): never {
  console.error(`${reason}\n\n${usage}`)
  process.exit(2)
}

export const flag: Option<boolean> = { type: 'boolean', read: (texts) => texts.length > 0 }

export const text = <Default extends string | undefined = undefined>(
  byDefault?: Default,
): Option<string | Default> => option((given) => given ?? (byDefault as Default))

export const oneOf = <const Word extends string>(
  words: readonly Word[],
): Option<Word | undefined> =>
  option((given, name) => (given === undefined ? given : mustBeOne(words, given, name)))

/** Given several times, or with commas between. */
export const someOf = <const Word extends string>(
  words: readonly Word[],
): Option<readonly Word[]> => ({
  type: 'string',
  read: (texts, name) =>
    texts.flatMap((given) => given.split(',')).map((word) => mustBeOne(words, word, name)),
})

export function integer<Default extends number | undefined = undefined>(
  byDefault?: Default,
  least = 1,
): Option<number | Default> {
  const fits = (value: number): boolean => Number.isSafeInteger(value) && value >= least
  return numeric(byDefault as Default, fits, `an integer >= ${least}`)
}

export const aboveZero = <Default extends number | undefined>(byDefault: Default) =>
  numeric(byDefault, (value) => value > 0 && value < Infinity, 'a number above 0')

function numeric<Default>(
  byDefault: Default,
  fits: (value: number) => boolean,
  expected: string,
): Option<number | Default> {
  return option((given, name) => {
    if (given === undefined) return byDefault
    if (given.trim() !== '' && fits(Number(given))) return Number(given)
    throw new Error(`Expected ${name} to be ${expected}, got "${given}"`)
  })
}

/** One value: the last, where it is given several times. */
function option<Value>(read: (given: string | undefined, name: string) => Value): Option<Value> {
  return { type: 'string', read: (texts, name) => read(texts.at(-1), name) }
}

function mustBeOne<Word extends string>(words: readonly Word[], given: string, name: string): Word {
  const word = words.find((each) => each === given)
  if (word !== undefined) return word
  if (words.length === 0) throw new Error(`Unexpected argument "${given}"`)
  throw new Error(`Expected ${name} to be one of ${words.join(', ')}, got "${given}"`)
}
