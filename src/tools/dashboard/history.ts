/** The last minutes in a few numbers, for charts. Pure. */
import { added } from '../../added.ts'
import type { LeaseChanges } from '../operator/lease-changes.ts'
import type { LiveLeases } from '../operator/live-leases.ts'
import type { FinishedRates, QueueCounts } from '../operator/queue-counts.ts'

/** One snapshot, as charts need it. `undefined` where it is not known. */
export interface Sample {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly held: number | undefined
  readonly waiting: number | undefined
  readonly active: number | undefined
  /** Jobs that completed, a second. */
  readonly completed: number | undefined
  /** Jobs that failed, a second. */
  readonly failed: number | undefined
}

type Counts = Pick<QueueCounts, 'waiting' | 'active'>

/** One sample in so much time. */
const EVERY_MS = 5_000
const MAX_AGE_MS = 5 * 60_000

export class History {
  #samples: readonly Sample[] = []

  /** Adds a sample, and returns what is known of the last minutes, oldest first. */
  add(
    at: number,
    { leases, truncated }: LiveLeases,
    { unknown }: LeaseChanges,
    queues: readonly QueueCounts[] | null,
    rates: readonly FinishedRates[],
  ): readonly Sample[] {
    const isWhole = queues?.every(({ missing }) => missing === undefined) === true
    const now = isWhole ? added<Counts>([{ waiting: 0, active: 0 }, ...queues]) : undefined
    const ended = isWhole && rates.length > 0 ? added(rates) : undefined
    const known = unknown === undefined && !truncated
    const sample: Sample = {
      at,
      held: known ? leases.filter(({ state }) => state === 'held').length : undefined,
      waiting: now?.waiting,
      active: now?.active,
      completed: ended?.completed,
      failed: ended?.failed,
    }
    const before = this.#samples.at(-1)
    const isNew = before === undefined || slot(at) !== slot(before.at)
    const earlier = isNew ? this.#samples : this.#samples.slice(0, -1)
    this.#samples = [...earlier, sample].filter((one) => at - one.at <= MAX_AGE_MS)
    return this.#samples
  }
}

const slot = (at: number): number => Math.floor(at / EVERY_MS)
