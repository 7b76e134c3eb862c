/**
 * The last trips of several jobs in one script. It is sent when each job is at its last trip, or
 * has ended in another way.
 */
export interface LastTrip {
  /** BullMQ's keys and arguments. */
  readonly args: readonly unknown[]
  /** Ours: id, 'leave' or 'hold', lines, timestamp. */
  readonly ours: readonly (string | number)[]
}

type Send = (trips: readonly LastTrip[], sent: () => void) => Promise<readonly unknown[]>

interface WaitingTrip extends LastTrip {
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
}

export class EndingGroup {
  /** Resolves when they have been sent, or none is left to be sent. */
  readonly sent: Promise<void>
  readonly #open: Set<string>
  readonly #send: Send
  readonly #waiting: WaitingTrip[] = []
  #isSent: () => void = () => undefined

  constructor(ids: readonly string[], send: Send) {
    this.#open = new Set(ids)
    this.#send = send
    this.sent = new Promise((resolve) => {
      this.#isSent = resolve
    })
    if (ids.length === 0) this.#isSent()
  }

  /** Whether a job's last trip is still to come. */
  has(id: string): boolean {
    return this.#open.has(id)
  }

  /** @returns the reply to this trip. */
  add(id: string, trip: LastTrip): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...trip, resolve, reject })
      this.remove(id)
    })
  }

  /** The job is at its last trip, or has ended in another way. */
  remove(id: string): void {
    if (this.#open.delete(id) && this.#open.size === 0) void this.#end(this.#waiting)
  }

  async #end(trips: readonly WaitingTrip[]): Promise<void> {
    try {
      if (trips.length === 0) return
      const replies = await this.#send(trips, this.#isSent)
      trips.forEach(({ resolve }, index) => {
        resolve(replies[index])
      })
    } catch (error) {
      for (const { reject } of trips) reject(error)
    } finally {
      this.#isSent()
    }
  }
}
