/** Changes that a driver announces, heard from the beginning of an attempt on. */
import type { Turns } from '../lock/waiting.ts'
import type { Listening } from './lock-driver.ts'

export class HeardChanges {
  #isHeard = false
  #react: ((place: number) => void) | undefined

  readonly wake = (): void => {
    this.#isHeard = true
    this.#react?.(0)
  }

  of(listening: Listening): Turns {
    return {
      isLive: () => true,
      onTurn: (react) => {
        this.#react = react
        if (this.#isHeard) react(0)
      },
      forget: () => {
        this.#react = undefined
        this.#isHeard = false
        listening.again?.()
      },
    }
  }
}
