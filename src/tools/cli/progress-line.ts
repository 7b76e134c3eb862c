/** How far a command is: in place where people watch, a line now and then otherwise. */
import { systemClock } from '../../clock.ts'
import type { Output } from './output.ts'

const IN_PLACE_EVERY_MS = 100

export class ProgressLine {
  readonly #out: Output
  readonly #lineEveryMs: number
  /** Undefined where the input does not know how long it is. */
  protected readonly totalBytes: number | undefined
  #shownAt = systemClock.now()
  #isDrawn = false

  constructor(out: Output, lineEveryMs: number, totalBytes: number | undefined) {
    this.#out = out
    this.#lineEveryMs = lineEveryMs
    this.totalBytes = totalBytes
  }

  /** From 0 to 1; undefined where it is not known. */
  protected share(bytes: number): number | undefined {
    if (this.totalBytes === undefined) return undefined
    return this.totalBytes === 0 ? 1 : Math.min(1, bytes / this.totalBytes)
  }

  /** Shows nothing where it is too early; `text` is told whether it is shown in place. */
  show(text: (inPlace: boolean) => string, event: () => object): void {
    const now = systemClock.now()
    const inPlace = this.#out.progressBar
    if (now - this.#shownAt < (inPlace ? IN_PLACE_EVERY_MS : this.#lineEveryMs)) return
    this.#shownAt = now
    this.#isDrawn ||= inPlace
    if (inPlace) this.#out.progress(text(inPlace))
    else this.#out.note(text(inPlace), { event: 'progress', ...event() })
  }

  /** The line is free again. */
  end(): void {
    if (this.#isDrawn) this.#out.progress('')
  }
}
