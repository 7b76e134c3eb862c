/**
 * Keeps a worker from fetching jobs that it would only give back: open while no lease can be
 * granted. A probe finds out when one can be again.
 */
import type { Channel } from '../../channel.ts'
import { sleep, systemClock } from '../../clock.ts'
import type { LockService } from '../../lock/lock-service.ts'

interface BreakerOptions {
  readonly locks: LockService
  /** A resource that no other client asks for. */
  readonly probeResource: string
  readonly signal: AbortSignal
  readonly queue: string
  readonly channel: Channel
}

const PROBE_MS = { min: 200, spread: 200 }

export class Breaker {
  readonly #options: BreakerOptions
  isOpen = false

  constructor(options: BreakerOptions) {
    this.#options = options
  }

  /** A job could not be leased because too few masters, or not the lock service, answered. */
  trip(reason: string): void {
    if (this.isOpen || this.#options.signal.aborted) return
    this.isOpen = true
    const { channel, queue } = this.#options
    channel.tell('breaker:open', { queue, reason })
    void this.#untilReachable()
  }

  async #untilReachable(): Promise<void> {
    const { signal, channel, queue, locks, probeResource } = this.#options
    while (!signal.aborted) {
      try {
        await sleep(systemClock, PROBE_MS.min + systemClock.random() * PROBE_MS.spread, signal)
        const outcome = await locks.tryAcquire(probeResource)
        if (outcome.status === 'granted') await outcome.lease.release()
        if (outcome.status !== 'unreachable') break
      } catch {
        return // The worker or the lock service is closing.
      }
    }
    this.isOpen = false
    if (!signal.aborted) channel.tell('breaker:closed', { queue })
  }
}
