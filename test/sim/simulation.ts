/**
 * One seed: a world is drawn, the real `Redlock` of every client works in it while the nemesis
 * breaks things, then everything heals, every client must get every resource within the bound, and
 * all is closed and searched for remains. The same seed and the same code give the same run.
 */
import { Redlock } from '../../src/redlock/redlock.ts'
import { FaultCounts } from './fault-counts.ts'
import { LONG_MS, Nemesis } from './nemesis.ts'
import { Referee, type Violation } from './referee.ts'
import { callsUsing, drawScenario, MAX_LEASE_MS, type Clocks, type Scenario } from './scenario.ts'
import { SeededRandom } from './seeded-random.ts'
import { SimulatedClient, type RedlockClass } from './simulated-client.ts'
import { SimulatedMaster, type Disk } from './simulated-master.ts'
import { SimulatedNetwork } from './simulated-network.ts'
import { VirtualTime } from './virtual-time.ts'
import { WallClock } from './wall-clock.ts'

export interface SimulationOptions {
  readonly seed: number
  readonly clocks: Clocks
  /** Left out: drawn. */
  readonly masters?: number | undefined
  readonly clients: number
  /** The class under test; another for a changed copy of the source. */
  readonly Redlock?: RedlockClass
  /** Gets every line of what happens, for a run that is looked at. */
  readonly onTrace?: (line: string) => void
}

export interface SimulationResult {
  readonly seed: number
  readonly clocks: Clocks
  readonly virtualMs: number
  readonly events: number
  readonly leases: number
  readonly passedOn: number
  readonly extensions: number
  readonly writesAccepted: number
  readonly writesRefused: number
  readonly faults: Readonly<Record<string, number>>
  /** How often masters gave each reply, by script and first word. */
  readonly replies: Readonly<Record<string, number>>
  readonly violations: readonly Violation[]
}

/** How often the referee looks on its own. */
const LOOK_MS = 25
/** Of two fleets on the same servers. */
const NAMESPACES = ['sim', 'sim:other'] as const
const RECORDS: readonly string[] = NAMESPACES.map((name) => `${name}:master`)
/** Where clocks jump, a key may be left with an hour to live: later work goes to fresh names. */
const FRESH_NAMES_MS = 8_000
/** The longest that a loop is still busy after it was told to end. */
const IDLE_MS = 30_000
/**
 * Longest wait for a resource after everything has healed: a master that was not counted, remains
 * of one lease, and taking turns.
 */
const WAIT_BOUND_MS = 3 * MAX_LEASE_MS + 2_000

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const world = new World(options)
  return world.run()
}

class World {
  readonly #options: SimulationOptions
  readonly #time = new VirtualTime()
  readonly #random: SeededRandom
  readonly #scenario: Scenario
  readonly #faults = new FaultCounts()
  readonly #referee: Referee
  readonly #network: SimulatedNetwork
  readonly #masters: readonly SimulatedMaster[]
  readonly #clients: readonly SimulatedClient[]
  readonly #nemesis: Nemesis | undefined
  #virtualMs = 0

  constructor(options: SimulationOptions) {
    this.#options = options
    this.#random = new SeededRandom(options.seed)
    const scenario = drawScenario(this.#random.fork(), options.clocks)
    const { judged } = scenario
    this.#scenario = scenario
    const common = { time: this.#time, faults: this.#faults, trace: this.#trace }
    this.#referee = new Referee({ ...common, judged })
    this.#network = new SimulatedNetwork({
      ...common,
      random: this.#random.fork(),
      profile: scenario.network,
      deadlineMs: scenario.masterTimeoutMs,
    })
    this.#masters = Array.from({ length: this.#mastersCount }, (_, index) => this.#master(index))
    this.#clients = Array.from({ length: options.clients }, (_, index) => this.#client(index))
    if (scenario.drift > 0) this.#faults.add('drifting clocks')
    if (scenario.aheadMs > 0) {
      this.#faults.add('clock ahead of the fleet')
      this.#clients.at(-1)?.clock.wall.step(scenario.aheadMs)
    }
    if (scenario.behindMs > 0) {
      this.#faults.add('clock behind the fleet')
      this.#clients.at(0)?.clock.wall.step(-scenario.behindMs)
    }
    if (scenario.twoFleets) this.#faults.add('two fleets on the same servers')
    if (scenario.lateMs > 0) this.#startLate(this.#clients.at(1), scenario.lateMs)
    this.#nemesis = new Nemesis({
      ...common,
      random: this.#random.fork(),
      scenario,
      masters: this.#masters,
      clients: this.#clients,
      network: this.#network,
      woke: () => {
        this.#referee.look()
      },
    })
  }

  async run(): Promise<SimulationResult> {
    this.#lookNowAndThen()
    await this.#time.runUntil(this.#scenario.activeMs)
    this.#nemesis?.stop()
    await this.#comeToRest()
    await this.#proveProgress()
    await this.#closeAll()
    await this.#searchForRemains()
    return this.#result()
  }

  readonly #trace = (line: () => string): void => {
    this.#options.onTrace?.(`${this.#time.now.toFixed(3).padStart(12)}  ${line()}`)
  }

  #wall(): WallClock {
    const { drift, skewMs } = this.#scenario
    const random = this.#random
    return new WallClock({
      time: this.#time,
      offsetMs: random.between(-skewMs, skewMs),
      slew: random.pick([-0.5, 0.5, random.between(-0.5, 0.5)]) * drift,
      wanderMs: skewMs / 2,
    })
  }

  #master(index: number): SimulatedMaster {
    const master = new SimulatedMaster({
      name: `master-${index + 1}`,
      random: this.#random.fork(),
      wall: this.#wall(),
      trueNow: () => this.#time.now,
      disk: this.#disk(),
    })
    // The fleet was founded before the run: most masters know that they hold no leases.
    if (this.#random.chance(0.9)) {
      const terms = [master.runId, MAX_LEASE_MS, this.#mastersCount]
      for (const name of NAMESPACES) master.eval('bootstrap', [`${name}:master`], terms)
    }
    return master
  }

  #client(index: number): SimulatedClient {
    const { drift, clocks, twoFleets } = this.#scenario
    const random = this.#random
    return new SimulatedClient({
      name: `client-${index + 1}`,
      time: this.#time,
      random: random.fork(),
      wall: this.#wall(),
      rate: 1 + random.pick([-0.5, 0.5, random.between(-0.5, 0.5)]) * drift,
      masters: this.#masters,
      network: this.#network,
      referee: this.#referee,
      faults: this.#faults,
      resources: () => {
        const isSane = clocks === 'sane'
        const era = isSane ? 0 : Math.floor(this.#time.now / FRESH_NAMES_MS)
        if (isSane && random.chance(0.01)) return ['{r}-seldom']
        const names = Array.from(
          { length: this.#scenario.resources },
          (_, each) => `{r}${each + 1}-${era}`,
        )
        return random.chance(0.15) ? names : [random.pick(names)]
      },
      scenario: this.#scenario,
      namespace: NAMESPACES[twoFleets && index === 2 ? 1 : 0],
      using: callsUsing(this.#options.seed),
      Redlock: this.#options.Redlock ?? Redlock,
      trace: this.#trace,
      answered: (...answer) => {
        this.#nemesis?.answered(...answer)
      },
    })
  }

  get #mastersCount(): number {
    return this.#options.masters ?? this.#scenario.masters
  }

  #disk(): Disk {
    const { durableChance, halfDurableChance } = this.#scenario
    if (this.#random.chance(durableChance)) return 'always'
    return this.#random.chance(halfDurableChance) ? 'half' : 'none'
  }

  #startLate(client: SimulatedClient | undefined, lateMs: number): void {
    this.#faults.add('client started late')
    client?.crash()
    this.#time.in(lateMs, () => {
      if (client?.alive === false) client.start()
    })
  }

  #lookNowAndThen(): void {
    this.#time.in(LOOK_MS, () => {
      this.#referee.look()
      if (this.#time.now < this.#scenario.activeMs) this.#lookNowAndThen()
    })
  }

  /** Loops end, late bytes arrive. */
  async #comeToRest(): Promise<void> {
    this.#trace(() => 'everything heals')
    for (const client of this.#clients) client.retire()
    const late = Math.max(this.#scenario.network.postponeMs + 3_000, 2 * LONG_MS)
    await this.#time.runUntil(this.#time.now + late)
    const idle = (): boolean => this.#clients.every(({ unsettled }) => unsettled.length === 0)
    await this.#time.runUntil(this.#time.now + IDLE_MS, idle)
  }

  async #proveProgress(): Promise<void> {
    const time = this.#time
    let open = 0
    for (const client of this.#clients) {
      for (let index = 1; index <= this.#scenario.resources; index++) {
        open++
        void client.prove(`{r}${index}-0`, WAIT_BOUND_MS).then((problem) => {
          open--
          if (problem !== undefined) this.#referee.report('WAIT', `${client.name}: ${problem}`)
        })
      }
    }
    await time.runUntil(time.now + WAIT_BOUND_MS + 3_000, () => open === 0)
    if (open > 0) this.#referee.report('WAIT', `${open} clients still wait after the bound`)
  }

  async #closeAll(): Promise<void> {
    let open = this.#clients.length
    for (const client of this.#clients) {
      void client.close().then(() => {
        open--
      })
    }
    await this.#time.runUntil(this.#time.now + 5_000, () => open === 0)
    // What `close` does not wait for: the last tries of a release.
    await this.#time.runUntil(this.#time.now + 100)
    this.#referee.look()
    for (const client of this.#clients) {
      for (const what of client.unsettled) this.#remains(client, `a promise: ${what}`)
      const { liveTimers } = client.clock
      if (liveTimers > 0) this.#remains(client, `${liveTimers} timers`)
      const { leases } = client.status()
      if (leases > 0) this.#remains(client, `${leases} leases`)
    }
  }

  #remains(client: SimulatedClient, what: string): void {
    this.#referee.report('SETTLE', `after close, ${client.name} still has ${what}`)
  }

  /** Every key but the enrolment has its time, and when that is over the masters are empty. */
  async #searchForRemains(): Promise<void> {
    for (const { memory, name } of this.#masters) {
      for (const key of memory.keys()) {
        if (RECORDS.includes(key)) continue
        const ttlMs = memory.pttl(key)
        if (ttlMs < 0) this.#referee.report('CLEAN', `${name} keeps ${key} for ever`)
        if (
          this.#scenario.clocks === 'sane' &&
          key.startsWith('sim:lease:') &&
          ttlMs > MAX_LEASE_MS
        ) {
          this.#referee.report('CLEAN', `${name} keeps ${key} for ${ttlMs} ms`)
        }
      }
    }
    const virtualNow = this.#time.now
    await this.#time.runUntil(virtualNow + 49 * 3_600_000)
    for (const { memory, name } of this.#masters) {
      const left = memory.keys().filter((key) => !RECORDS.includes(key))
      if (left.length > 0) this.#referee.report('CLEAN', `${name} kept ${left.join(', ')}`)
    }
    this.#virtualMs = virtualNow
  }

  #result(): SimulationResult {
    const { leases, passedOn, extensions, writesAccepted, writesRefused, violations } =
      this.#referee
    const replies = new Map<string, number>()
    for (const master of this.#masters) {
      for (const [word, count] of master.replies) {
        replies.set(word, (replies.get(word) ?? 0) + count)
      }
    }
    const { seed, clocks } = this.#options
    return {
      seed,
      clocks,
      virtualMs: this.#virtualMs,
      events: this.#time.executed,
      leases,
      passedOn,
      extensions,
      writesAccepted,
      writesRefused,
      faults: Object.fromEntries(this.#faults.counts),
      replies: Object.fromEntries(replies),
      violations,
    }
  }
}
