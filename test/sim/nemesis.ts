/**
 * Breaks things at random moments until it is told to stop; then it repairs everything it broke.
 */
import type { FaultCounts } from './fault-counts.ts'
import { MAX_LEASE_MS, type Scenario } from './scenario.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { SimulatedClient } from './simulated-client.ts'
import type { Kept, SimulatedMaster } from './simulated-master.ts'
import type { Link, SimulatedNetwork } from './simulated-network.ts'
import type { VirtualTime } from './virtual-time.ts'
import type { WallClock } from './wall-clock.ts'

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
  /** Clocks that were stepped, until one lease after they were set right. */
  readonly #wrong = new Set<WallClock>()
  /** Where two clients meet, and the one of them that no master has granted yet. */
  #meeting = ''
  #meetings = 0
  #first: SimulatedClient | undefined
  readonly #movedAt = new Map<WallClock, number>()
  /** When a suspended machine went on; Infinity while it does not. */
  readonly #sleptAt = new Map<WallClock, number>()
  readonly #cutLinks = new Map<SimulatedClient, readonly Link[]>()

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
    this.#every(faults.meetMs, () => {
      this.#meet()
    })
    if (faults.cutOffMs !== undefined && faults.cutOffAtStart) {
      for (const client of options.clients) this.#cutOff(client)
    }
    this.#every(faults.cutOffMs, () => {
      this.#cutOff(options.random.pick(options.clients))
    })
    this.#every(faults.stepClientMs, () => {
      this.#stepClient()
    })
    this.#every(faults.stepMasterMs, () => {
      this.#stepMasters()
    })
    this.#every(faults.wrongRebootMs, () => {
      this.#rebootWrongly()
    })
  }

  /**
   * A master has answered `client`. Where it granted, it may forget that at once, while the
   * client's questions to the others are held up. Where it gave a key back, another one may be out
   * of reach.
   */
  answered(
    client: SimulatedClient,
    index: number,
    script: string,
    reply: unknown,
    resources: string,
  ): void {
    const { masters, random, scenario, time } = this.#options
    const { momentChance } = scenario.faults
    const isGrant = script === 'acquire' && Array.isArray(reply) && reply[0] === 'granted'
    const isMeeting = isGrant && client === this.#first && resources === this.#meeting
    if (isMeeting) this.#first = undefined
    const grantChance = isMeeting ? 0.8 : momentChance
    const chance = isGrant ? grantChance : script === 'heal' && momentChance > 0 ? 0.8 : 0
    if (this.#stopped || chance === 0 || !random.chance(chance)) return
    const others = client.links.filter((_, at) => at !== index)
    for (const link of isGrant ? others : [random.pick(others)]) {
      link.cut('both', 1)
      time.in(random.between(random.pick(isGrant ? [5, 200] : [200]), 490), () => {
        link.mend()
      })
    }
    this.#did('held up at a bad moment', client.name)
    if (!isGrant || !scenario.memoryLoss || random.chance(0.3)) return
    time.in(random.between(0, 20), () => {
      if (!this.#stopped) this.#flush(masters[index])
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
    }
    for (const client of clients) {
      if (!this.#wrong.has(client.clock.wall)) client.clock.wall.repair()
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
      this.#later(this.#options.scenario.downMs, () => {
        master.restart(kept)
        this.#options.trace(() => `${master.name} is up again with ${kept}`)
      })
    }
  }

  #keeps(master: SimulatedMaster): Kept {
    const { random, scenario } = this.#options
    if (master.disk === 'always' || !scenario.memoryLoss) return 'all'
    if (master.disk === 'half') return random.pick<Kept>(['all', 'allButLastSecond'])
    return random.pick<Kept>(['all', 'allButLastSecond', 'nothing', 'nothing'])
  }

  #flush(master = this.#options.random.pick(this.#options.masters)): void {
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

  #pause(how: 'pause' | 'suspend', client = this.#client()): void {
    if (client?.clock.state !== 'running') return
    const { clock } = client
    // A wall clock that was set back cannot tell of a suspension within the same lease.
    const movedAt = this.#movedAt.get(clock.wall) ?? -Infinity
    if (how === 'suspend' && this.#options.time.now - movedAt < 1.1 * MAX_LEASE_MS) return
    clock[how]()
    if (how === 'suspend') this.#sleptAt.set(clock.wall, Infinity)
    this.#did(how === 'pause' ? 'client paused' : 'client suspended', client.name)
    this.#later(1.5 * MAX_LEASE_MS, () => {
      clock.wake()
      if (how === 'suspend') this.#sleptAt.set(clock.wall, this.#options.time.now)
      this.#options.woke()
      this.#options.trace(() => `${client.name} wakes`)
    })
  }

  #crashClient(downMs = 1_000): void {
    const client = this.#client()
    if (client?.alive !== true) return
    client.crash()
    this.#did('client crashed', client.name)
    this.#later(downMs, () => {
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

  /** Another minority of the masters than before: its leases rest on the smallest quorum. */
  #cutOff(client: SimulatedClient): void {
    const { masters, random } = this.#options
    for (const link of this.#cutLinks.get(client) ?? []) link.mend()
    const cut = random.shuffle(client.links).slice(0, Math.floor((masters.length - 1) / 2))
    for (const link of cut) link.cut('both', 0)
    this.#cutLinks.set(client, cut)
    this.#did('cut off from a minority', client.name)
  }

  /** On a resource that has no other history. */
  #meet(): void {
    const { clients, random, time } = this.#options
    const [first, second] = random.shuffle(clients.filter(({ alive }) => alive))
    if (first === undefined || second === undefined) return
    this.#first = first
    this.#meeting = `{r}meet-${++this.#meetings}`
    const resource = this.#meeting
    void first.meet(resource, random.pick([MAX_LEASE_MS / 2, MAX_LEASE_MS]))
    time.in(random.between(0, random.pick([10, 60])), () => {
      if (second.alive)
        void second.meet(resource, Math.round(random.between(0.15, 0.3) * MAX_LEASE_MS))
    })
  }

  #stepClient(): void {
    const { clients, random, time } = this.#options
    const client = random.pick(clients)
    const { clock, name } = client
    const byMs = stepMs(random)
    // Nor can one that was set back while its machine was suspended, or just after.
    if (time.now - (this.#sleptAt.get(clock.wall) ?? -Infinity) < 1.1 * MAX_LEASE_MS) return
    if (!this.#step(clock.wall, byMs)) return
    this.#did('client clock stepped', `${name} by ${byMs.toFixed(0)} ms`)
    // What it had trusted before is over then, or was extended since.
    if (!random.chance(0.8)) return
    this.#options.time.in(1.2 * MAX_LEASE_MS, () => {
      if (!this.#stopped && client.clock === clock) this.#pause('suspend', client)
    })
  }

  #stepMasters(): void {
    const { masters, random } = this.#options
    const count = this.#isMinority || random.chance(0.6) ? 1 : masters.length
    for (const master of random.shuffle(masters).slice(0, count)) this.#stepMaster(master)
  }

  #stepMaster(master: SimulatedMaster, wrongMs = LONG_MS + this.#upToMs(LONG_MS)): boolean {
    const byMs = stepMs(this.#options.random)
    if (this.#isMinority && !this.#wrong.has(master.wall) && this.#wrong.size >= this.#mayBeWrong) {
      return false
    }
    if (!this.#step(master.wall, byMs, wrongMs)) return false
    this.#did('master clock stepped', `${master.name} by ${byMs.toFixed(0)} ms`)
    // A client that starts now has not seen the step.
    if (this.#isMinority && this.#options.random.chance(0.5)) this.#crashClient(50)
    return true
  }

  /**
   * The battery of its clock is empty: it has forgotten everything, and NTP sets it right later.
   */
  #rebootWrongly(): void {
    const { masters, random } = this.#options
    const master = random.pick(masters)
    const wrongMs = 50 + this.#upToMs(random.pick([300, LONG_MS]))
    if (master.state === 'down' || master.disk === 'always') return
    if (!this.#stepMaster(master, wrongMs)) return
    master.crash()
    master.restart('nothing')
    this.#did('master rebooted with a wrong clock', master.name)
  }

  #upToMs(maxMs: number): number {
    return this.#options.random.between(0, maxMs)
  }

  /** So many clocks may be wrong at once that the others are a quorum. */
  get #mayBeWrong(): number {
    return Math.floor((this.#options.masters.length - 1) / 2)
  }

  get #isMinority(): boolean {
    return this.#options.scenario.clocks === 'stepped'
  }

  /**
   * Not while it is wrong, nor so soon after that a step there and back could hide in one lease.
   */
  #step(wall: WallClock, byMs: number, wrongMs = LONG_MS + this.#upToMs(LONG_MS)): boolean {
    if (this.#wrong.has(wall)) return false
    this.#wrong.add(wall)
    const { time, random } = this.#options
    this.#movedAt.set(wall, time.now)
    wall.step(byMs)
    time.in(wrongMs, () => {
      wall.repair()
      this.#movedAt.set(wall, time.now)
      this.#options.trace(() => 'a clock is set right')
      if (!this.#stopped && this.#isMinority && random.chance(0.5)) this.#crashClient(50)
      time.in(LONG_MS, () => this.#wrong.delete(wall))
    })
    return true
  }
}

/** Longer than any lease, its drift and the answers that are under way. */
export const LONG_MS = 1.5 * MAX_LEASE_MS

/** More than masters may be apart, and than a slow answer may hide. Back as often as forward. */
function stepMs(random: SeededRandom): number {
  const size = random.pick([2 * MAX_LEASE_MS, 10 * MAX_LEASE_MS, 3_600_000])
  return random.between(MAX_LEASE_MS, size) * (random.chance(0.5) ? 1 : -1)
}
