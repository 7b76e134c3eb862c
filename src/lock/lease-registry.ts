import type { Channel } from '../channel.ts'
import { Deadlines, type Clock } from '../clock.ts'
import type { HeldLease } from './held-lease.ts'

/** The leases of one lock service that are held. Each waits for the next check of its clocks. */
export class LeaseRegistry extends Deadlines<HeldLease> {
  readonly channel: Channel

  constructor(clock: Clock, channel: Channel) {
    super(clock)
    this.channel = channel
  }

  /** Loses every lease that is held, so that its `signal` aborts; then releases it. */
  async close(): Promise<void> {
    await Promise.all(this.members().map((lease) => lease.close()))
  }
}
