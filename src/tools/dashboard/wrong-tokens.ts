/** Wrong tokens are answered late, a few at a time for an address: guessing takes too long. */
import { sleep, systemClock } from '../../clock.ts'

const DELAY_MS = 500
const MAX_AT_A_TIME = 5

export class WrongTokens {
  readonly #waiting = new Map<string, number>()

  /** Whether this address has the most wrong tokens waiting, so the next one is refused unread. */
  isBlocked(address = ''): boolean {
    return (this.#waiting.get(address) ?? 0) >= MAX_AT_A_TIME
  }

  /** Resolves when the answer to a wrong token may go out. */
  async delay(address = ''): Promise<void> {
    this.#count(address, 1)
    try {
      await sleep(systemClock, DELAY_MS)
    } finally {
      this.#count(address, -1)
    }
  }

  #count(address: string, change: 1 | -1): void {
    const count = (this.#waiting.get(address) ?? 0) + change
    if (count === 0) this.#waiting.delete(address)
    else this.#waiting.set(address, count)
  }
}
