/** What keeps every job of a queue from starting, and what to do. */
export interface Standstill {
  /** A sentence. */
  readonly fact: string
  readonly fix: string
}

export function inWords({ fact, fix }: Standstill): string {
  return `${fact} To go on: ${fix}`
}

/** Undefined where nothing does. */
export function standstillOf(
  queue: string,
  isPaused: boolean,
  hasWorkers: boolean,
): Standstill | undefined {
  if (isPaused) return { fact: `Queue \`${queue}\` is paused.`, fix: 'call `queue.resume()`' }
  if (hasWorkers) return undefined
  return { fact: `No worker of queue \`${queue}\` is connected.`, fix: 'start one' }
}
