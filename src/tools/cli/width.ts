/** Lines as wide as the terminal; in a pipe as `COLUMNS` says, or 80. */
import { stripVTControlCharacters } from 'node:util'

const DEFAULT = 80
const LEAST = 40

export function outputWidth(): number {
  const { columns } = process.stdout as { readonly columns?: number }
  return Math.max(LEAST, columns || Number(process.env['COLUMNS']) || DEFAULT)
}

/** On a terminal. */
export function textWidth(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length
}

/** Long lines go on below, indented as they begin. A command in backquotes stays on one line. */
export function wrapped(text: string): string {
  return text.split('\n').map(wrappedLine).join('\n')
}

function wrappedLine(line: string): string {
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
