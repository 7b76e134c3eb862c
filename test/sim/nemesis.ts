/** Breaks things at random moments until it is told to stop; then it repairs everything it broke. */
import type { FaultCounts } from './fault-counts.ts'
import { MAX_LEASE_MS, type Scenario } from './scenario.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { SimulatedClient } from './simulated-client.ts'
import type { Kept, SimulatedMaster } from './simulated-master.ts'
import type { SimulatedNetwork } from './simulated-network.ts'
import type { VirtualTime } from './virtual-time.ts'

export interface NemesisOptions {
  readonly time: VirtualTime
  readonly random: SeededRandom
  readonly scenario: Scenario
  readonly faults: FaultCounts
  readonly masters: readonly SimulatedMaster[]
  readonly clients: readonly SimulatedClient[]
  readonly network: SimulatedNetwork
  readonly trace: (line: () => string) => void
  /** A suspended client is back, with a wall clock that went on. */
  woke(): void
}

const CRASHES = {
  all: 'master crashed, all kept',
  allButLastSecond: 'master crashed, last second lost',
  nothing: 'master crashed, nothing kept',
} as const

export class Nemesis {
  readonly #options: NemesisOptions
  #stopped = false

  constructor(options: NemesisOptions) {
    this.#options = options
    const { faults } = options.scenario
    this.#every(faults.crashMs, () => {
      this.#crashMasters()
    })
    this.#every(faults.flushMs, () => {
      this.#flush()
    })
    this.#every(faults.freezeMs, () => {
      this.#freeze()
    })
    this.#every(faults.pauseMs, () => {
      this.#pause('pause')
    })
    this.#every(faults.suspendMs, () => {
      this.#pause('suspend')
    })
    this.#every(faults.clientCrashMs, () => {
      this.#crashClient()
    })
    this.#every(faults.closeMs, () => {
      this.#closeClient()
    })
    this.#every(faults.severMs, () => {
      const client = this.#client()
      if (client?.severOne() === true) this.#did('connection broken', client.name)
    })
    this.#every(faults.partitionMs, () => {
      this.#partition()
    })
    this.#every(faults.stepClientMs, () => {
      this.#stepClient()
    })
    this.#every(faults.stepMasterMs, () => {
      this.#stepMaster()
    })
  }

  /** Everything works again from now on. */
  stop(): void {
    const { masters, clients, network } = this.#options
    this.#stopped = true
    network.calm()
    for (const master of masters) {
      master.thaw()
      master.restart('all')
      master.wall.repair()
    }
    for (const client of clients) {
      client.clock.wall.repair()
      client.clock.wake()
      if (!client.alive) client.start()
    }
  }

  #every(meanMs: number | undefined, strike: () => void): void {
    if (meanMs === undefined) return
    const { time, random } = this.#options
    const next = (): void => {
      time.in(-Math.log(1 - random.next()) * meanMs, () => {
        if (this.#stopped) return
        strike()
        next()
      })
    }
    next()
  }

  #later(maxMs: number, repair: () => void): void {
    const { time, random } = this.#options
    time.in(random.between(1, random.chance(0.5) ? maxMs : maxMs / 10), () => {
      if (!this.#stopped) repair()
    })
  }

  #did(fault: Parameters<FaultCounts['add']>[0], what: string): void {
    this.#options.faults.add(fault)
    this.#options.trace(() => `FAULT ${fault}: ${what}`)
  }

  #client(): SimulatedClient | undefined {
    const running = this.#options.clients.filter((each) => each.clock.state === 'running')
    return running.length === 0 ? undefined : this.#options.random.pick(running)
  }

  /** Mostly one; now and then several at once, as when a rack loses power. */
  #crashMasters(): void {
    const { masters, random } = this.#options
    const count = random.chance(0.8) ? 1 : random.integer(1, masters.length)
    for (const master of random.shuffle(masters).slice(0, count)) {
      if (master.state === 'down') continue
      const kept = this.#keeps(master)
      master.crash()
      this.#did(CRASHES[kept], master.name)
      this.#later(1.5 * MAX_LEASE_MS, () => {
        master.restart(kept)
        this.#options.trace(() => `${master.name} is up again with ${kept}`)
      })
    }
  }

  #keeps(master: SimulatedMaster): Kept {
    const { random, scenario } = this.#options
    if (master.durable || !scenario.memoryLoss) return 'all'
    return random.pick<Kept>(['all', 'allButLastSecond', 'nothing', 'nothing'])
  }

  #flush(): void {
    const { masters, random } = this.#options
    const master = random.pick(masters)
    if (master.state !== 'up') return
    master.flush()
    this.#did('master flushed', master.name)
  }

  #freeze(): void {
    const master = this.#options.random.pick(this.#options.masters)
    if (master.state !== 'up') return
    master.freeze()
    this.#did('master frozen', master.name)
    this.#later(2 * MAX_LEASE_MS, () => {
      master.thaw()
    })
  }

  #pause(how: 'pause' | 'suspend'): void {
    const client = this.#client()
    if (client === undefined) return
    const { clock } = client
    clock[how]()
    this.#did(how === 'pause' ? 'client paused' : 'client suspended', client.name)
    this.#later(1.5 * MAX_LEASE_MS, () => {
      clock.wake()
      this.#options.woke()
      this.#options.trace(() => `${client.name} wakes`)
    })
  }

  #crashClient(): void {
    const client = this.#client()
    if (client?.alive !== true) return
    client.crash()
    this.#did('client crashed', client.name)
    this.#later(1_000, () => {
      client.start()
    })
  }

  /** Told to stop in the middle of its work; its successor starts when it is gone. */
  #closeClient(): void {
    const client = this.#client()
    if (client?.alive !== true) return
    this.#options.trace(() => `${client.name} closes`)
    void client.close().then(() => {
      this.#later(200, () => {
        client.start()
      })
    })
  }

  #partition(): void {
    const { clients, random } = this.#options
    const direction = random.pick(['request', 'reply', 'both'] as const)
    const [client, index] = [
      random.pick(clients),
      random.integer(0, this.#options.masters.length - 1),
    ]
    const links = random.pick([
      client.links.slice(index, index + 1),
      client.links.slice(0, index + 1),
      clients.flatMap(({ links: each }) => each.slice(index, index + 1)),
    ])
    for (const link of links) link.cut(direction)
    this.#did('partition', `${links.length} links near ${client.name}, ${direction}`)
    this.#later(1.5 * MAX_LEASE_MS, () => {
      for (const link of links) link.mend()
    })
  }

  #stepClient(): void {
    const { clients, random } = this.#options
    const { clock, name } = random.pick(clients)
    const byMs = stepMs(random)
    this.#did('client clock stepped', `${name} by ${byMs.toFixed(0)} ms`)
    this.#step(clock.wall, byMs)
  }

  #stepMaster(): void {
    const { masters, random } = this.#options
    const count = random.chance(0.6) ? 1 : masters.length
    for (const { wall, name } of random.shuffle(masters).slice(0, count)) {
      const byMs = stepMs(random)
      this.#did('master clock stepped', `${name} by ${byMs.toFixed(0)} ms`)
      this.#step(wall, byMs)
    }
  }

  #step(wall: SimulatedMaster['wall'], byMs: number): void {
    wall.step(byMs)
    this.#later(2 * MAX_LEASE_MS, () => {
      wall.repair()
    })
  }
}

/** Forward more often: keys then expire under their holders. */
function stepMs(random: SeededRandom): number {
  const size = random.pick([200, MAX_LEASE_MS, 10 * MAX_LEASE_MS, 3_600_000])
  return random.between(0, size) * (random.chance(0.75) ? 1 : -1)
}
