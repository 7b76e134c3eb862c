/**
 * What a command says: results on standard output, everything else on standard error. Colour goes
 * to terminals only.
 */
import { styleText } from 'node:util'
import { redacted } from '../redact.ts'
import { printableLines } from './printable.ts'

export type Style = 'red' | 'yellow' | 'green' | 'dim'

export interface Stream {
  readonly isTTY?: boolean | undefined
  write(text: string): unknown
}

export interface OutputOptions {
  readonly json: boolean
  readonly stdout: Stream
  readonly stderr: Stream
  readonly env: Readonly<Record<string, string | undefined>>
}

export class Output {
  readonly json: boolean
  readonly #stdout: Stream
  readonly #stderr: Stream
  readonly #colours: boolean

  constructor({ json, stdout, stderr, env }: OutputOptions) {
    this.json = json
    this.#stdout = stdout
    this.#stderr = stderr
    const refused = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb'
    this.#colours = stdout.isTTY === true && !json && !refused
  }

  /** Standard error is a terminal, and the output is for people. */
  get progressBar(): boolean {
    return this.#stderr.isTTY === true && !this.json
  }

  /** The result: one JSON value on one line, or the text. */
  result(value: object, text: () => string): void {
    this.#stdout.write(`${this.json ? jsonText(value) : text()}\n`)
  }

  /**
   * For people who watch; with --json an event for machines that do. Control characters in it are
   * shown, not obeyed.
   */
  note(text: string, event?: Readonly<{ event: string } & Record<string, unknown>>): void {
    const line = this.json && event !== undefined ? jsonText(event) : printableLines(text)
    this.#stderr.write(`${redacted(line)}\n`)
  }

  /** Over the last line of progress, without ending it. */
  progress(text: string): void {
    this.#stderr.write(`\r\u001b[2K${text}`)
  }

  paint(style: Style, text: string): string {
    return this.#colours ? styleText(style, text) : text
  }
}

/** JSON escapes the first control characters; the others steer a terminal as well. */
function jsonText(value: object): string {
  return JSON.stringify(value).replace(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
