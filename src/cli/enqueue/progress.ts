/** How far an enqueue is: a bar where people watch, a line now and then otherwise. */
import { systemClock } from '../../clock.ts'
import { duration } from '../../operator/duration.ts'
import type { Output } from '../output.ts'
import { ProgressLine } from '../progress-line.ts'

export interface Tally {
  readonly lines: number
  readonly added: number
  readonly alreadyThere: number
  readonly bad: number
  readonly offset: number
}

const LINE_EVERY_MS = 1_000
const BAR_WIDTH = 24

export class Progress extends ProgressLine {
  readonly #totalBytes: number | undefined
  readonly #startedAt = systemClock.now()

  constructor(out: Output, totalBytes: number | undefined) {
    super(out, LINE_EVERY_MS)
    this.#totalBytes = totalBytes
  }

  showTally(tally: Tally): void {
    this.show(
      (inPlace) => (inPlace ? this.#bar(tally) : this.#words(tally)),
      () => ({ ...tally, share: this.#share(tally) }),
    )
  }

  #bar(tally: Tally): string {
    const share = this.#share(tally)
    if (share === undefined) return this.#words(tally)
    const full = Math.floor(share * BAR_WIDTH)
    return `[${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)}] ${this.#words(tally)}`
  }

  #words(tally: Tally): string {
    const { lines, added, bad } = tally
    const seconds = (systemClock.now() - this.#startedAt) / 1_000
    const share = this.#share(tally)
    const parts = [`line ${lines}`, `${added} added`, `${Math.round(added / seconds)} a second`]
    if (bad > 0) parts.push(`${bad} bad`)
    if (share === undefined) return parts.join(', ')
    return `${Math.floor(100 * share)} %, ${parts.join(', ')}${this.#left(tally)}`
  }

  #left({ offset }: Tally): string {
    if (this.#totalBytes === undefined || offset <= 0) return ''
    const leftMs = ((this.#totalBytes - offset) / offset) * (systemClock.now() - this.#startedAt)
    return `, ${duration(leftMs)} left`
  }

  #share({ offset }: Tally): number | undefined {
    if (this.#totalBytes === undefined) return undefined
    return this.#totalBytes === 0 ? 1 : Math.min(1, offset / this.#totalBytes)
  }
}
