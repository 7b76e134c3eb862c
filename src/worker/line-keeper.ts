/**
 * Looks, every now and then, at lines that stand still, and restarts them: the backstop for whoever died before it woke
 * the next one. One worker at a time does it, for a bounded number of lines.
 */
import type { Clock, Timer } from '../clock.ts'
import type { Lines } from './lines.ts'

export interface LineKeeperOptions {
  readonly clock: Clock
  readonly everyMs: number
  /** A head that failed for good keeps its place. */
  readonly keepFailed: boolean
  readonly onError: (error: unknown) => void
}

const LINES_PER_ROUND = 200

export class LineKeeper {
  readonly #lines: Lines
  readonly #options: LineKeeperOptions
  #timer: Timer | undefined
  #stopped = false

  constructor(lines: Lines, options: LineKeeperOptions) {
    this.#lines = lines
    this.#options = options
    this.#schedule()
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  #schedule(): void {
    if (this.#stopped) return
    const { clock, everyMs } = this.#options
    this.#timer = clock.after(everyMs * (0.75 + clock.random() / 2), () => {
      void this.#round()
    })
  }

  async #round(): Promise<void> {
    const { everyMs, keepFailed, onError } = this.#options
    try {
      if (await this.#lines.mayRepair(everyMs)) {
        const resources = await this.#lines.silent(LINES_PER_ROUND)
        const repairs = resources.map((each) => this.#lines.repair(each, everyMs, keepFailed))
        await Promise.all(repairs)
      }
    } catch (error) {
      if (!this.#stopped) onError(error)
    }
    this.#schedule()
  }
}
