/** The last trips of several jobs in one script. Each is sent when all are there, or have left. */
export interface LastTrip {
  /** BullMQ's keys and arguments. */
  readonly args: readonly unknown[]
  /** Ours: id, 'leave' or 'hold', lines, timestamp. */
  readonly ours: readonly (string | number)[]
}

interface Waiting extends LastTrip {
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
}

export class EndingGroup {
  readonly #open: Set<string>
  readonly #send: (trips: readonly LastTrip[]) => Promise<readonly unknown[]>
  readonly #waiting: Waiting[] = []

  constructor(
    ids: readonly string[],
    send: (trips: readonly LastTrip[]) => Promise<readonly unknown[]>,
  ) {
    this.#open = new Set(ids)
    this.#send = send
  }

  /** Whether a job's last trip is still to come. */
  has(id: string): boolean {
    return this.#open.has(id)
  }

  /** @returns the reply to this trip. */
  add(id: string, trip: LastTrip): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...trip, resolve, reject })
      this.left(id)
    })
  }

  /** The job has ended in another way. */
  left(id: string): void {
    if (!this.#open.delete(id) || this.#open.size > 0 || this.#waiting.length === 0) return
    const trips = this.#waiting.splice(0)
    this.#send(trips).then(
      (replies) => {
        trips.forEach(({ resolve }, index) => {
          resolve(replies[index])
        })
      },
      (error: unknown) => {
        for (const { reject } of trips) reject(error)
      },
    )
  }
}
