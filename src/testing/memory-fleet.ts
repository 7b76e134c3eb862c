import { systemClock } from '../clock.ts'
import { integerOption, knownOptions } from '../options.ts'
import { Redlock } from '../redlock/redlock.ts'
import type { RedlockOptions } from '../redlock/settings.ts'
import { silentLogger } from '../logger.ts'
import type { FakeClock } from './fake-clock.ts'
import { MemoryMaster } from './memory-master.ts'

/** How many servers, and whose time. */
export interface MemoryFleetOptions {
  /**
   * How many lock servers.
   *
   * @defaultValue `5`
   */
  readonly masters?: number
  /** Moves time in steps of the test's choice. Default: the system's clock */
  readonly clock?: FakeClock
}

const CLOSING_MS = 60_000

/** Lock servers in this process, for tests that need no Redis. */
export interface MemoryFleet extends AsyncDisposable {
  /** The lock servers. */
  readonly masters: readonly MemoryMaster[]
  /**
   * A Redlock on these servers, ready to acquire: the real one, whose scripts run in memory. Its
   * log is silent unless a `logger` is given.
   */
  redlock(options?: Omit<RedlockOptions, 'masters'>): Promise<Redlock>
  /** Closes every Redlock of this fleet. */
  close(): Promise<void>
}

/**
 * A fleet of lock servers that needs no server: the quorum, the leases, the fencing tokens and the
 * quarantine are the real ones; the network and Redis are not. It answers what code does when a
 * lease is refused, lost or extended, and not whether a deployment is right: for that, use
 * {@link startFleet}.
 *
 * @example
 * ```ts
 * const clock = new FakeClock()
 * await using fleet = memoryFleet({ clock })
 * const redlock = await fleet.redlock({ leaseMs: 1_000 })
 * const lease = await redlock.acquire('customer:42')
 * await clock.advance(1_000)
 * lease.signal.aborted // true
 * ```
 */
export function memoryFleet(options: MemoryFleetOptions = {}): MemoryFleet {
  knownOptions({ ...options }, { masters: true, clock: true })
  const { masters: count = 5, clock } = options
  const size = integerOption('masters', count, 1, Number.MAX_SAFE_INTEGER)
  const time = clock ?? systemClock
  const masters = Array.from(
    { length: size },
    (_, index) => new MemoryMaster(`memory-${index + 1}`, time),
  )
  const opened = new Set<Redlock>()
  const close = async (): Promise<void> => {
    const closing = Promise.all([...opened].map((redlock) => redlock.close()))
    await clock?.advance(CLOSING_MS) // A master that is silent is waited for, on this clock.
    await closing
  }
  return {
    masters,
    close,
    [Symbol.asyncDispose]: close,
    async redlock(options = {}) {
      let next = 0
      const redlock = new Redlock({
        logger: silentLogger,
        ...options,
        masters: masters.map(({ name }) => `redis://${name}`),
        clock: time,
        connect: (connection) => {
          const master = masters[next++]
          if (master === undefined) throw new Error('More connections than masters')
          return master.connect(connection)
        },
      })
      opened.add(redlock)
      await redlock.ready()
      // The first one meets servers that no client has used. A test does not wait for that.
      const isNew = redlock.status().masters.every(({ state }) => state === 'quarantined')
      if (isNew) await redlock.bootstrap({ newFleet: true })
      return redlock
    },
  }
}
