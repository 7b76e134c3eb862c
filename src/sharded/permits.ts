/**
 * How many jobs a process runs at once, over all shards of a worker. Whoever fetches a job has a
 * permit, and keeps it from job to job. A shard that waits gets one from a shard that has two
 * more. Where there are fewer permits than shards, one that has none gets a turn after a while.
 */
import { systemClock } from '../clock.ts'

/** How long a shard without a running job waits for one that has some. */
const TURN_MS = 50

interface Waiter {
  readonly shard: number
  readonly since: number
  readonly settle: (isGranted: boolean) => void
  /** A shard fetches no more job for it. */
  isPromised: boolean
}

export class Permits {
  #total: number
  readonly #used: number[]
  readonly #waiters = new Set<Waiter>()

  constructor(total: number, shards: number) {
    this.#total = total
    this.#used = Array<number>(shards).fill(0)
  }

  set total(total: number) {
    this.#total = total
    this.#grant()
  }

  get #free(): number {
    return this.#used.reduce((free, used) => free - used, this.#total)
  }

  /** @returns whether there was one. */
  take(shard: number): boolean {
    const isFree = this.#free > 0
    if (isFree) this.#add(shard, 1)
    return isFree
  }

  /** `granted` is false where `leave` was called before. */
  wait(shard: number): { readonly granted: Promise<boolean>; readonly leave: () => void } {
    let leave = (): void => undefined
    const granted = new Promise<boolean>((settle) => {
      const waiter = { shard, since: systemClock.now(), settle, isPromised: false }
      this.#waiters.add(waiter)
      leave = () => {
        if (this.#waiters.delete(waiter)) settle(false)
      }
    })
    return { granted, leave }
  }

  give(shard: number): void {
    this.#add(shard, -1)
    this.#grant()
  }

  /** Whether a job of the shard that ends shall fetch none, because another shard is due. */
  yields(shard: number): boolean {
    const due = [...this.#waiters].find(
      (waiter) => !waiter.isPromised && this.#isDue(waiter, shard),
    )
    if (due !== undefined) due.isPromised = true
    return due !== undefined || this.#free < 0
  }

  // rule: busy-shard-leaves-others-their-share
  #isDue(waiter: Waiter, shard: number): boolean {
    if (waiter.shard === shard) return false
    const used = this.#usedBy(waiter.shard)
    if (used === 0 && systemClock.now() - waiter.since >= TURN_MS) return true
    return used + 1 < this.#usedBy(shard)
  }

  #grant(): void {
    while (this.#free > 0 && this.#waiters.size > 0) {
      const next = [...this.#waiters].reduce((a, b) =>
        this.#usedBy(b.shard) < this.#usedBy(a.shard) ? b : a,
      )
      this.#waiters.delete(next)
      for (const each of this.#waiters) each.isPromised = false
      this.#add(next.shard, 1)
      next.settle(true)
    }
  }

  #usedBy(shard: number): number {
    return this.#used[shard] ?? 0
  }

  #add(shard: number, permits: number): void {
    this.#used[shard] = this.#usedBy(shard) + permits
  }
}
