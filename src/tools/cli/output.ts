/** Results go to standard output, all else to standard error; colour to terminals only. */
import { styleText } from 'node:util'
import { redacted } from '../../redact.ts'
import { EXIT } from './exit-code.ts'
import { printableLines } from '../operator/printable.ts'
import { wrapped } from './table.ts'

export type Style = 'red' | 'yellow' | 'green' | 'dim'

export class Output {
  readonly json: boolean
  readonly #wraps: boolean
  readonly #colours: boolean

  /** @param wraps false for a program that runs on: what it says are the lines of a log. */
  constructor(json: boolean, wraps = true) {
    this.json = json
    this.#wraps = wraps && !json
    const { NO_COLOR = '', TERM } = process.env
    this.#colours = process.stdout.isTTY && !json && NO_COLOR === '' && TERM !== 'dumb'
  }

  /** The result: one JSON value on one line, or the text. */
  result(value: object, text: () => string): void {
    process.stdout.write(`${this.#shown(this.json ? jsonText(value) : text())}\n`)
  }

  /** For people; with --json an event. Control characters in it are shown, not obeyed. */
  note(text: string, event: Readonly<{ event: string } & Record<string, unknown>>): void {
    process.stderr.write(`${this.#shown(this.json ? jsonText(event) : printableLines(text))}\n`)
  }

  #shown(text: string): string {
    return this.#wraps ? wrapped(redacted(text)) : redacted(text)
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
