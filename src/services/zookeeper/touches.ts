/**
 * Since when ZooKeeper counts a session's timeout, at the latest. Pure.
 *
 * A follower answers a request at once, and tells the leader that the session lives with the
 * leader's next ping: every half tick, so within a quarter of the smallest timeout (two ticks).
 * Only the leader's count decides. So a request proves nothing at first. It does when a later write
 * is answered: then the leader and a quorum were still there after the ping that followed the
 * request.
 */

/** A write that began longer ago has been given up. */
const LONGEST_WRITE_MS = 60_000

export class Touches {
  #since: number
  /** Requests that were answered, oldest first: those of a minute, and one before it. */
  readonly #answered: { readonly startedAt: number; readonly answeredAt: number }[] = []

  /** @param since before the session was made or moved, which the leader itself does. */
  constructor(since: number) {
    this.#since = since
  }

  answered(startedAt: number, answeredAt: number): void {
    this.#answered.push({ startedAt, answeredAt })
    // A client may be connected for months, and write nothing.
    while ((this.#answered[1]?.answeredAt ?? Infinity) < answeredAt - LONGEST_WRITE_MS) {
      this.#answered.shift()
    }
  }

  /** The connection broke: what the follower had heard may be lost with it. */
  broken(at: number): void {
    this.#answered.length = 0
    this.#since = Math.max(this.#since, at)
  }

  /** A write that began at `startedAt` was answered. From when on the session's timeout counts. */
  provenBy(startedAt: number, relayMs: number): number {
    while ((this.#answered[0]?.answeredAt ?? Infinity) <= startedAt - relayMs) {
      this.#since = Math.max(this.#since, this.#answered.shift()?.startedAt ?? 0)
    }
    return this.#since
  }
}
