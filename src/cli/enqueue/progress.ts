/** How far an enqueue is: a bar where people watch, a line now and then otherwise. */
import { systemClock, type Clock } from '../../clock.ts'
import { duration } from '../duration.ts'
import type { Output } from '../output.ts'

export interface Tally {
  readonly lines: number
  readonly added: number
  readonly alreadyThere: number
  readonly bad: number
  readonly offset: number
}

const BAR_EVERY_MS = 100
const LINE_EVERY_MS = 1_000
const BAR_WIDTH = 24

export class Progress {
  readonly #out: Output
  readonly #totalBytes: number | undefined
  readonly #clock: Clock
  readonly #startedAt: number
  #saidAt: number
  #drawn = false

  constructor(out: Output, totalBytes: number | undefined, clock: Clock = systemClock) {
    this.#out = out
    this.#totalBytes = totalBytes
    this.#clock = clock
    this.#startedAt = clock.now()
    this.#saidAt = this.#startedAt
  }

  show(tally: Tally): void {
    const now = this.#clock.now()
    const bar = this.#out.progressBar
    if (now - this.#saidAt < (bar ? BAR_EVERY_MS : LINE_EVERY_MS)) return
    this.#saidAt = now
    if (bar) {
      this.#out.progress(this.#bar(tally))
      this.#drawn = true
    } else {
      this.#out.note(this.#words(tally), { event: 'progress', ...tally, share: this.#share(tally) })
    }
  }

  /** The line after the bar is free again. */
  end(): void {
    if (this.#drawn) this.#out.progress('')
  }

  #bar(tally: Tally): string {
    const share = this.#share(tally)
    if (share === undefined) return this.#words(tally)
    const full = Math.floor(share * BAR_WIDTH)
    return `[${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)}] ${this.#words(tally)}`
  }

  #words(tally: Tally): string {
    const { lines, added, bad } = tally
    const seconds = (this.#clock.now() - this.#startedAt) / 1_000
    const share = this.#share(tally)
    const parts = [`line ${lines}`, `${added} added`, `${Math.round(added / seconds)} a second`]
    if (bad > 0) parts.push(`${bad} bad`)
    if (share === undefined) return parts.join(', ')
    return `${Math.floor(100 * share)} %, ${parts.join(', ')}${this.#left(tally)}`
  }

  #left({ offset }: Tally): string {
    if (this.#totalBytes === undefined || offset <= 0) return ''
    const leftMs = ((this.#totalBytes - offset) / offset) * (this.#clock.now() - this.#startedAt)
    return `, ${duration(leftMs)} left`
  }

  #share({ offset }: Tally): number | undefined {
    if (this.#totalBytes === undefined) return undefined
    return this.#totalBytes === 0 ? 1 : Math.min(1, offset / this.#totalBytes)
  }
}
