/** One attempt to acquire, and then the lease that it has become. */
export interface Attempt {
  /** Sorted, without repetitions: all or none are granted, under one token and fencing token. */
  readonly resources: readonly string[]
  /** Fresh for every attempt. */
  readonly token: string
  readonly leaseMs: number
  /** The caller goes on waiting this long when it is not granted: it hears of releases. */
  readonly waitMs: number
  /** By what name it waits, and has a place until it is released; '' for none. */
  readonly waiter: string
}
