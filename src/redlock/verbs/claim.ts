/** What an attempt puts on the masters. */

/** The token is fresh for every attempt. */
export interface Claim {
  /** Sorted, without repetitions: all or none are granted, under one token and fencing token. */
  readonly resources: readonly string[]
  readonly token: string
}
