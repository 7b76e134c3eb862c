/** A simulated fleet without a nemesis, for tests that do one thing at a time. */
import { Redlock } from '../../src/redlock/redlock.ts'
import type { RedlockOptions } from '../../src/redlock/settings.ts'
import { FaultCounts } from './fault-counts.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedConnection } from './simulated-connection.ts'
import { SimulatedMaster } from './simulated-master.ts'
import { CALM, SimulatedNetwork, type Link, type NetworkProfile } from './simulated-network.ts'
import { VirtualClock } from './virtual-clock.ts'
import { VirtualTime } from './virtual-time.ts'
import { WallClock } from './wall-clock.ts'
import { silentLogger } from '../../src/logger.ts'

export interface SmallClient {
  readonly redlock: Redlock
  readonly clock: VirtualClock
  /** By master. */
  readonly links: readonly Link[]
}

export const MAX_LEASE_MS = 3_000
const NAMESPACE = 'small'

export class SmallWorld {
  readonly time = new VirtualTime()
  readonly masters: readonly SimulatedMaster[]
  readonly #random: SeededRandom
  readonly #network: SimulatedNetwork

  constructor(seed: number, masters: number, profile: NetworkProfile = CALM) {
    this.#random = new SeededRandom(seed)
    this.#network = new SimulatedNetwork({
      time: this.time,
      random: this.#random.fork(),
      faults: new FaultCounts(),
      profile,
      deadlineMs: MAX_LEASE_MS,
    })
    this.masters = Array.from({ length: masters }, (_, index) => {
      const master = new SimulatedMaster({
        name: `master-${index + 1}`,
        random: this.#random.fork(),
        wall: this.#wall(),
        trueNow: () => this.time.now,
        disk: 'none',
      })
      master.eval('bootstrap', [`${NAMESPACE}:master`], [master.runId, MAX_LEASE_MS, masters])
      return master
    })
  }

  client(owner: string, options: Partial<RedlockOptions> = {}): SmallClient {
    const { time, masters } = this
    const clock = new VirtualClock({
      time,
      random: this.#random.fork(),
      wall: this.#wall(),
      rate: 1,
    })
    const links = masters.map(() => this.#network.link())
    let connected = 0
    const redlock = new Redlock({
      leaseMs: 1_000,
      maxLeaseMs: MAX_LEASE_MS,
      namespace: NAMESPACE,
      owner,
      logger: silentLogger,
      ...options,
      masters: masters.map(({ name }) => `redis://${name}`),
      clock,
      connect: (connection) => {
        const [master, link] = [masters[connected], links[connected++]]
        if (master === undefined || link === undefined) throw new Error('More masters than servers')
        return new SimulatedConnection(connection, {
          master,
          link,
          clock,
          observe: () => undefined,
        })
      },
    })
    return { redlock, clock, links }
  }

  /** A {@link client} that has connected. */
  async ready(owner: string, options?: Partial<RedlockOptions>): Promise<SmallClient> {
    const client = this.client(owner, options)
    await this.settle(client.redlock.ready())
    return client
  }

  /** Runs the world until `promise` settles, for at most `limitMs` of its time. */
  async settle<Result>(promise: Promise<Result>, limitMs = 10_000): Promise<Result> {
    const state = { settled: false }
    const settle = (): void => {
      state.settled = true
    }
    promise.then(settle, settle)
    await this.time.runUntil(this.time.now + limitMs, () => state.settled)
    if (!state.settled) throw new Error(`Nothing came of it within ${limitMs} virtual milliseconds`)
    return promise
  }

  async pass(ms: number): Promise<void> {
    await this.time.runUntil(this.time.now + ms)
  }

  /** Every lease key, as `master resource`. */
  leaseKeys(): readonly string[] {
    const prefix = `${NAMESPACE}:lease:`
    return this.masters.flatMap(({ name, memory }) =>
      memory
        .keys()
        .filter((key) => key.startsWith(prefix))
        .map((key) => `${name} ${key.slice(prefix.length)}`),
    )
  }

  #wall(): WallClock {
    return new WallClock({ time: this.time, offsetMs: 0, slew: 0, wanderMs: 0 })
  }
}
