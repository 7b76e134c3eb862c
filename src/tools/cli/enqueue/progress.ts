/** How far an enqueue is: a bar where people watch, a line now and then otherwise. */
import { systemClock } from '../../../clock.ts'
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
  readonly #startedAt = systemClock.now()

  constructor(out: Output, totalBytes: number | undefined) {
    super(out, LINE_EVERY_MS, totalBytes)
  }

  showTally(tally: Tally): void {
    this.show(
      (inPlace) => (inPlace ? this.#bar(tally) : this.#words(tally)),
      () => ({ ...tally, share: this.share(tally.offset) }),
    )
  }

  #bar(tally: Tally): string {
    const share = this.share(tally.offset)
    if (share === undefined) return this.#words(tally)
    const full = Math.floor(share * BAR_WIDTH)
    return `[${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)}] ${this.#words(tally)}`
  }

  #words(tally: Tally): string {
    const { lines, added, bad, offset } = tally
    const tookMs = systemClock.now() - this.#startedAt
    const rate = Math.round(added / (tookMs / 1_000))
    const parts = [`line ${lines}`, `${added} added`, `${rate} a second`]
    if (bad > 0) parts.push(`${bad} bad`)
    const share = this.share(offset)
    if (share === undefined) return parts.join(', ')
    if (offset > 0) parts.push(`${duration((1 / share - 1) * tookMs)} left`)
    return `${Math.floor(100 * share)} %, ${parts.join(', ')}`
  }
}
