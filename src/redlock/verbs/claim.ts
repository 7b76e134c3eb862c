/** What an attempt puts on the masters, and what it passes on. */

/** The token is fresh for every attempt. */
export interface Claim {
  /** Sorted, without repetitions: all or none are granted, under one token and fencing token. */
  readonly resources: readonly string[]
  readonly token: string
}

/** A lease that its holder has ended in favour of the next one: the other half of a hand-over. */
export interface Predecessor {
  readonly token: string
  /** What the masters have for it. */
  readonly counter: number
}
