/**
 * True time of the simulated world, in milliseconds, and the events that move it.
 *
 * An event runs alone, as a macrotask of its own: Node drains every promise chain that it set off,
 * however deep, before the next event. So nothing awaited can be overtaken by time. The macrotasks
 * are immediates, queued many at a time: that spares the round through the poll phase for each of
 * them.
 */
import type { Timer } from '../../src/clock.ts'

interface Event extends Timer {
  readonly at: number
  readonly order: number
  run: (() => void) | undefined
}

const IMMEDIATES_PER_TURN = 64

export class VirtualTime {
  #now = 0
  #order = 0
  #executed = 0
  readonly #heap: Event[] = []

  get now(): number {
    return this.#now
  }

  /** Events run so far. */
  get executed(): number {
    return this.#executed
  }

  /**
   * Runs `run` at true time `at`; events of one instant run in the order in which they were made.
   */
  at(at: number, run: () => void): Timer {
    const event: Event = {
      at: Math.max(at, this.#now),
      order: this.#order++,
      run,
      cancel() {
        event.run = undefined
      },
    }
    this.#push(event)
    return event
  }

  in(delayMs: number, run: () => void): Timer {
    return this.at(this.#now + delayMs, run)
  }

  /** Runs events in order until `limit`, or until `done` says so between two events. */
  runUntil(limit: number, done: () => boolean = () => false): Promise<void> {
    return new Promise((resolve, reject) => {
      let over = false
      const one = (): void => {
        if (over) return
        try {
          if (!done() && this.#runNext(limit)) return
          over = true
          if (!done()) this.#now = Math.max(this.#now, limit)
          resolve()
        } catch (error) {
          over = true
          reject(error instanceof Error ? error : new Error(String(error)))
        }
      }
      const turn = (): void => {
        if (over) return
        for (let count = 0; count < IMMEDIATES_PER_TURN; count++) setImmediate(one)
        setImmediate(turn)
      }
      turn()
    })
  }

  #runNext(limit: number): boolean {
    for (;;) {
      const event = this.#heap[0]
      if (event === undefined || event.at > limit) return false
      this.#pop()
      const { run } = event
      if (run === undefined) continue
      event.run = undefined
      this.#now = event.at
      this.#executed++
      run()
      return true
    }
  }

  #push(event: Event): void {
    const heap = this.#heap
    let index = heap.length
    heap.push(event)
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = heap[parent]
      if (above === undefined || isBefore(above, event)) break
      heap[index] = above
      index = parent
    }
    heap[index] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      const right = heap[child + 1]
      let below = heap[child]
      if (below === undefined) break
      if (right !== undefined && isBefore(right, below)) {
        below = right
        child++
      }
      if (isBefore(last, below)) break
      heap[index] = below
      index = child
    }
    heap[index] = last
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
