/**
 * While no server, network or process is hurt, no line stands still for longer than a lease and two
 * seconds while it has jobs. What happens to the jobs themselves goes on meanwhile.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Job } from 'bullmq'
import type { CustomerJob, Sighting } from '../faults/job-states.ts'
import { monotonicMs } from '../faults/monotonic.ts'

const POLL_MS = 100
const ALLOWED_MS = 2_000

interface Watched {
  readonly leaseMs: number
  /** For so long masters that were hurt may grant nothing. */
  readonly recoveryMs: number
  /** All jobs that are still to be done. */
  undone(): Promise<readonly Job<CustomerJob>[]>
  /** What the queue and the masters have for a customer. */
  describe(customer: string): Promise<string>
  /** Whether every worker has begun to work. */
  ready(): boolean
}

export class Standstill {
  readonly anomalies: string[] = []
  /** For how long lines were watched. */
  watchedMs = 0
  longestMs = 0
  readonly #watched: Watched
  readonly #progressAt = new Map<string, number>()

  constructor(watched: Watched) {
    this.#watched = watched
  }

  see(sighting: Sighting): void {
    if (sighting.state === 'ready') return
    this.#progressAt.set(sighting.customer, sighting.at)
  }

  /** From the end of the last fault until `signal` aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    const { leaseMs, recoveryMs } = this.#watched
    const reported = new Set<string>()
    let from = monotonicMs() + recoveryMs
    while (!signal.aborted) {
      await delay(POLL_MS)
      const now = monotonicMs()
      if (!this.#watched.ready()) from = now // A worker that replaces a killed one still starts.
      if (now < from) continue
      this.watchedMs += POLL_MS
      for (const [customer, since] of await this.#waitingSince()) {
        const stillMs = now - Math.max(from, since, this.#progressAt.get(customer) ?? 0)
        this.longestMs = Math.max(this.longestMs, stillMs)
        if (stillMs <= leaseMs + ALLOWED_MS || reported.has(customer)) continue
        reported.add(customer)
        const state = await this.#watched.describe(customer)
        this.anomalies.push(
          `the line of ${customer} stood still for ${Math.round(stillMs)} ms: ${state}`,
        )
      }
    }
  }

  /** Since when each customer has a job to be done that is there now. */
  async #waitingSince(): Promise<ReadonlyMap<string, number>> {
    const toMonotonic = monotonicMs() - Date.now()
    const since = new Map<string, number>()
    for (const { data, timestamp } of await this.#watched.undone()) {
      const at = timestamp + toMonotonic
      since.set(data.customer, Math.min(since.get(data.customer) ?? Infinity, at))
    }
    return since
  }
}
