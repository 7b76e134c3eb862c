export interface LineCensus {
  readonly lines: number
  readonly parked: number
  /** Jobs that sleep in the longest line. */
  readonly longest: number
  /** Resources for which a pause, slots or a rate is set. */
  readonly limited: number
  /** Tenants of the worker's queue with jobs that may start. */
  readonly tenants: number
}

/** What a worker is asked at a scrape. */
export interface WorkerSource {
  readonly queue: string
  readonly namespace: string
  breakerOpen(): boolean
  /** Undefined where the worker keeps no lines, or the queue's Redis does not answer in time. */
  readonly census: (() => Promise<LineCensus | undefined>) | undefined
}
