/** Results go to standard output, all else to standard error; colour to terminals only. */
import { styleText, stripVTControlCharacters } from 'node:util'
import { jsonWithOptions, withOptions, type GivenOption } from '../../shown-commands.ts'
import { redacted } from '../../redact.ts'
import { EXIT } from './exit-code.ts'
import { printable } from '../operator/words.ts'

export type Style = 'red' | 'yellow' | 'green' | 'dim'

export class Output {
  readonly json: boolean
  readonly #wraps: boolean
  readonly #colours: boolean
  readonly #options: readonly GivenOption[]

  /**
   * @param wraps false for a program that runs on: what it says are the lines of a log.
   * @param options with which commands are shown.
   */
  constructor(json: boolean, wraps = true, options: readonly GivenOption[] = []) {
    this.json = json
    this.#wraps = wraps && !json
    this.#options = options
    const { NO_COLOR = '', TERM } = process.env
    this.#colours = process.stdout.isTTY && !json && NO_COLOR === '' && TERM !== 'dumb'
  }

  /** The result: one JSON value on one line, or the text. */
  result(value: object, text: () => string): void {
    process.stdout.write(`${this.#shown(this.json ? value : text())}\n`)
  }

  /** For people; with --json an event. Control characters in it are shown, not obeyed. */
  note(text: string, event: Readonly<{ event: string } & Record<string, unknown>>): void {
    const lines = text.split('\n').map(printable).join('\n')
    process.stderr.write(`${this.#shown(this.json ? event : lines)}\n`)
  }

  /** Long lines go on below. */
  #shown(said: object | string): string {
    const options = this.#options
    const whole =
      typeof said === 'string'
        ? withOptions(said, options)
        : escaped(jsonWithOptions(said, options))
    const shown = redacted(whole)
    return this.#wraps ? shown.split('\n').map(wrapped).join('\n') : shown
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
function escaped(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/**
 * Rows in columns, as wide as their widest cell. Cells may contain colour codes. Where the columns
 * do not fit, each row begins with its first cells, and the others follow it with their names.
 * @param names how many of the first columns say what a row is about.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  names = 1,
): string {
  const all = [head, ...rows]
  const widths = head.map((_, column) =>
    Math.max(...all.map((row) => textWidth(row[column] ?? ''))),
  )
  const total = widths.reduce((sum, width) => sum + width + GAP, -GAP)
  if (total > outputWidth()) return rows.map((row) => folded(head, row, names)).join('\n')
  return all
    .map((row) => {
      const cells = row.map(
        (cell, column) => cell + ' '.repeat((widths[column] ?? 0) - textWidth(cell)),
      )
      return cells.join(' '.repeat(GAP)).trimEnd()
    })
    .join('\n')
}

const GAP = 2

function folded(head: readonly string[], row: readonly string[], names: number): string {
  const rest = row.slice(names).map((cell, index) => {
    return `${head[index + names]?.toLowerCase() ?? ''} ${cell}`
  })
  const lines = ['']
  for (const part of rest) {
    const last = lines.length - 1
    const joined = `${lines[last] ?? ''}, ${part}`
    if (lines[last] === '') lines[last] = `  ${part}`
    else if (textWidth(joined) < outputWidth()) lines[last] = joined
    else lines.push(`  ${part}`)
  }
  return [row.slice(0, names).join(' '), ...lines].join('\n')
}

const DEFAULT = 80
const LEAST = 40

/** That of the terminal; in a pipe as `COLUMNS` says, or 80. */
function outputWidth(): number {
  const { columns } = process.stdout as { readonly columns?: number }
  return Math.max(LEAST, columns || Number(process.env['COLUMNS']) || DEFAULT)
}

/** On a terminal. */
function textWidth(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length
}

/** A long line goes on below, indented as it begins. A command in backquotes stays whole. */
function wrapped(line: string): string {
  const width = outputWidth()
  if (textWidth(line) <= width) return line
  const [start = ''] = /^(?:\S+ {2,})? */.exec(stripVTControlCharacters(line)) ?? []
  const indent = ' '.repeat(Math.min(start.length, width / 4))
  const words = line.match(/(?:`[^`]*`|\S)+|\s+/g) ?? []
  const lines = ['']
  for (const word of words) {
    const last = lines[lines.length - 1] ?? ''
    if (textWidth(last + word) <= width) lines[lines.length - 1] = last + word
    else if (word.trim() !== '') lines.push(indent + word)
  }
  return lines.map((one) => one.trimEnd()).join('\n')
}
