/** Names come out of databases that others write: nothing in them may steer the terminal. */
import { shownValue } from '../../redact.ts'

// eslint-disable-next-line no-control-regex -- control characters are what this is about
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

export function printable(text: string): string {
  return text.replace(CONTROL, (character) => {
    const code = character.charCodeAt(0)
    const hex = code.toString(16)
    return code > 0xff ? `\\u${hex}` : `\\x${hex.padStart(2, '0')}`
  })
}

/** The same for a text of several lines: a newline stays. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** An error of the command line repeats what was given, which may be a mistyped address. */
export function withoutArguments(text: string): string {
  const given = process.argv.slice(2).flatMap((argument) => {
    const name = /^-*/.exec(argument)?.[0].length ?? 0
    return [argument.slice(name), argument.slice(argument.indexOf('=') + 1)]
  })
  // rule: usage-error-shows-no-secret
  return given
    .filter(Boolean)
    .reduce((said, one) => said.replaceAll(one, () => shownValue(one)), text)
}
