/** Results go to standard output, all else to standard error; colour to terminals only. */
import { styleText } from 'node:util'
import { redacted } from '../../redact.ts'
import { EXIT } from './exit-code.ts'
import { printableLines } from './printable.ts'

export type Style = 'red' | 'yellow' | 'green' | 'dim'

export class Output {
  readonly json: boolean
  readonly #colours: boolean

  constructor(json: boolean) {
    this.json = json
    const { NO_COLOR = '', TERM } = process.env
    this.#colours = process.stdout.isTTY && !json && NO_COLOR === '' && TERM !== 'dumb'
  }

  /** The result: one JSON value on one line, or the text. */
  result(value: object, text: () => string): void {
    process.stdout.write(`${redacted(this.json ? jsonText(value) : text())}\n`)
  }

  /** For people; with --json an event. Control characters in it are shown, not obeyed. */
  note(text: string, event: Readonly<{ event: string } & Record<string, unknown>>): void {
    const line = this.json ? jsonText(event) : printableLines(text)
    process.stderr.write(`${redacted(line)}\n`)
  }

  paint(style: Style, text: string): string {
    return this.#colours ? styleText(style, text) : text
  }
}

/** `bullmq-redlock leases | head`: a reader that has seen enough is no error. */
export function endWithoutReader({ code }: NodeJS.ErrnoException): void {
  process.exit(code === 'EPIPE' ? EXIT.done : EXIT.attention)
}

/** JSON escapes the first control characters; the others steer a terminal as well. */
function jsonText(value: object): string {
  return JSON.stringify(value).replace(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
