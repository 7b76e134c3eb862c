/**
 * How a worker that has nothing to do waits for a job. BullMQ rouses one of them for every job that is woken and for every job that
 * is started, wherever. In a hand-over these are two or three, who find that whoever has just finished has taken the next job, and
 * until then are in its way. So one that was roused in vain again and again looks a moment later.
 */
import type { IQueueBackend } from 'bullmq'
import { sleep, type Clock } from '../clock.ts'

/** Whoever finishes a job has the next one by then. */
const STEP_BACK_MS = 2
/** After so many looks in vain, the last one not longer ago than this. */
const LOOKS_IN_VAIN = 2
const RECENT_MS = 1_000

export class IdleWait {
  readonly #clock: Clock
  #waiting = false
  #inVain = 0
  #lookedAt = -Infinity

  /** Takes the place of the backend's own wait and look. */
  constructor(backend: Pick<IQueueBackend, 'waitForJob' | 'moveToActive'>, clock: Clock) {
    this.#clock = clock
    const wait = backend.waitForJob.bind(backend)
    backend.waitForJob = (timeoutSeconds) => this.#wait(wait(timeoutSeconds))
    const look = backend.moveToActive.bind(backend)
    backend.moveToActive = async (...args) => {
      const found: unknown[] = await look(...args)
      if (found[0]) this.#inVain = 0
      return found
    }
  }

  /** Its last look found nothing, and it was not roused since: whatever comes to its queue now is the first one there. */
  get nobodyElseWaits(): boolean {
    return this.#waiting
  }

  async #wait(roused: ReturnType<IQueueBackend['waitForJob']>): typeof roused {
    this.#waiting = true
    const marker = await roused.finally(() => {
      this.#waiting = false
    })
    // Others than these say when a delayed job will be due.
    if (marker !== null && marker.score <= 0) await this.#stepBack()
    return marker
  }

  async #stepBack(): Promise<void> {
    if (this.#clock.now() - this.#lookedAt > RECENT_MS) this.#inVain = 0
    if (this.#inVain >= LOOKS_IN_VAIN) await sleep(this.#clock, STEP_BACK_MS)
    this.#inVain++
    this.#lookedAt = this.#clock.now()
  }
}
