import type { Turns } from '../lock/waiting.ts'
import type { Listening } from './lock-driver.ts'

/**
 * What wakes one waiter: changes that a driver announces, heard from the beginning of an attempt
 * on, and the end of its client.
 */
export class HeardChanges implements Turns {
  readonly #listening: Listening | undefined
  #isHeard = false
  #react: ((place: number) => void) | undefined

  /** @param listen undefined where the driver announces nothing. */
  constructor(listen: ((wake: () => void) => Listening | undefined) | undefined) {
    this.#listening = listen?.(this.wake)
  }

  readonly wake = (): void => {
    this.#isHeard = true
    this.#react?.(0)
  }

  isLive(): boolean {
    return this.#listening !== undefined
  }

  onTurn(react: (place: number) => void): void {
    this.#react = react
    if (this.#isHeard) react(0)
  }

  forget(): void {
    this.#react = undefined
    this.#isHeard = false
    this.#listening?.again?.()
  }

  stop(): void {
    this.#listening?.stop()
  }
}
