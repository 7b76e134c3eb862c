/**
 * Looks, once a second, at lines in which jobs sleep: the backstop for a head that was removed
 * while no job of its line ran, and for deadlines. One worker at a time does it, for a bounded
 * number of lines, so its cost does not grow with the number of waiting jobs.
 */
import type { Clock, Timer } from '../../clock.ts'
import type { LineBackend } from '../bullmq/line-backend.ts'

const EVERY_MS = 1_000

export class LineSweep {
  readonly #backend: Pick<LineBackend, 'sweep'>
  readonly #clock: Clock
  readonly #onError: (error: unknown) => void
  #timer: Timer | undefined
  #isStopped = false

  constructor(
    backend: Pick<LineBackend, 'sweep'>,
    clock: Clock,
    onError: (error: unknown) => void,
  ) {
    this.#backend = backend
    this.#clock = clock
    this.#onError = onError
    this.#schedule()
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  #schedule(): void {
    if (this.#isStopped) return
    const delayMs = EVERY_MS * (0.75 + this.#clock.random() / 2)
    this.#timer = this.#clock.after(delayMs, () => void this.#sweep())
  }

  async #sweep(): Promise<void> {
    try {
      await this.#backend.sweep(EVERY_MS * 0.7)
    } catch (error) {
      if (!this.#isStopped) this.#onError(error)
    }
    this.#schedule()
  }
}
