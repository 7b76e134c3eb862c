/** How busy this process is: the part of its time in which its event loop does not wait. */
import { performance } from 'node:perf_hooks'
import { systemClock } from '../../clock.ts'

type Utilization = ReturnType<typeof performance.eventLoopUtilization>

const MIN_WINDOW_MS = 25
/** What an older reading says is about another time. */
const MAX_WINDOW_MS = 1_000

export class LoopLoad {
  #readAt = -Infinity
  #read: Utilization | undefined
  #load = 0

  /** Between 0 and 1, since the reading before; 0 where that is long ago. */
  get(): number {
    const now = systemClock.now()
    const windowMs = now - this.#readAt
    if (windowMs < MIN_WINDOW_MS) return this.#load
    const read = performance.eventLoopUtilization()
    const isRecent = windowMs <= MAX_WINDOW_MS && this.#read !== undefined
    this.#load = isRecent ? performance.eventLoopUtilization(read, this.#read).utilization : 0
    this.#read = read
    this.#readAt = now
    return this.#load
  }
}
