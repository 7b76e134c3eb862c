/** A terminal that is drawn over and over, and given back as it was. `q` asks to end; in raw mode Ctrl-C is a key as well. */
import type { Interruption } from './interruption.ts'
import type { Output } from './output.ts'

const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'
const HOME = '\u001b[H'
const CLEAR_LINE = '\u001b[K'
const CLEAR_BELOW = '\u001b[J'
const CTRL_C = '\u0003'

export class Screen implements Disposable {
  readonly #out: Output
  readonly #quit = new AbortController()
  readonly #onKey: (key: Buffer) => void

  constructor(out: Output, interruption: Interruption) {
    this.#out = out
    this.#onKey = (key) => {
      const text = key.toString()
      if (text.includes(CTRL_C)) interruption.interrupt()
      else if (/q/i.test(text)) this.#quit.abort()
    }
    out.raw(ENTER)
    if (process.stdin.isTTY) process.stdin.setRawMode(true).on('data', this.#onKey).resume()
  }

  /** Aborts when q is pressed. */
  get quit(): AbortSignal {
    return this.#quit.signal
  }

  /** What does not fit is left out. */
  draw(lines: readonly string[]): void {
    const shown = lines.slice(0, Math.max(1, (process.stdout.rows || 24) - 1))
    this.#out.raw(HOME + shown.map((line) => `${line}${CLEAR_LINE}\n`).join('') + CLEAR_BELOW)
  }

  [Symbol.dispose](): void {
    if (process.stdin.isTTY) process.stdin.off('data', this.#onKey).setRawMode(false).pause()
    this.#out.raw(LEAVE)
  }
}
