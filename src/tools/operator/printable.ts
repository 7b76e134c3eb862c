/** Names come out of databases that others write: nothing in them may steer the terminal. */
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
