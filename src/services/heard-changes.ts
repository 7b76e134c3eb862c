import type { Turns } from '../lock/waiting.ts'
import type { Listening } from './lock-driver.ts'

export interface HeardChanges extends Turns {
  readonly wake: () => void
  stop(): void
}

/**
 * What wakes one waiter: changes that a driver announces, heard from the beginning of an attempt
 * on, and the end of its client.
 * @param listen returns undefined where the driver announces nothing.
 */
export function heardChanges(listen: (wake: () => void) => Listening | undefined): HeardChanges {
  let isHeard = false
  let react: ((place: number) => void) | undefined
  const wake = (): void => {
    isHeard = true
    react?.(0)
  }
  const listening = listen(wake)
  return {
    wake,
    isLive: () => listening !== undefined,
    onTurn(reacts) {
      react = reacts
      if (isHeard) react(0)
    },
    forget() {
      react = undefined
      isHeard = false
      listening?.again?.()
    },
    stop() {
      listening?.stop()
    },
  }
}
