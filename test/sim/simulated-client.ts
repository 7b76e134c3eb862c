/**
 * One worker process: a real `Redlock` on a virtual clock, and loops that take leases and work
 * under them, some carefully, some not. It can be killed and started again; what it was doing then
 * never ends.
 */
import type { Asked } from '../../src/redlock/wire/calls.ts'
import { sleep } from '../../src/clock.ts'
import type { Lease } from '../../src/lock/lease.ts'
import type { AcquireOptions } from '../../src/lock/lease-options.ts'
import type { Redlock, RedlockStatus } from '../../src/redlock/redlock.ts'
import type { RedlockOptions } from '../../src/redlock/settings.ts'
import type { FaultCounts } from './fault-counts.ts'
import type { Holding, Referee } from './referee.ts'
import { DRIFT, MAX_LEASE_MS, REST_MS, type Scenario } from './scenario.ts'
import type { SeededRandom } from './seeded-random.ts'
import { SimulatedConnection } from './simulated-connection.ts'
import type { SimulatedMaster } from './simulated-master.ts'
import type { Link, SimulatedNetwork } from './simulated-network.ts'
import { VirtualClock } from './virtual-clock.ts'
import type { VirtualTime } from './virtual-time.ts'
import type { WallClock } from './wall-clock.ts'
import { silentLogger } from '../../src/logger.ts'

export type RedlockClass = new (options: RedlockOptions) => Redlock

export interface ClientOptions {
  readonly name: string
  readonly time: VirtualTime
  readonly random: SeededRandom
  readonly wall: WallClock
  readonly rate: number
  readonly masters: readonly SimulatedMaster[]
  readonly network: SimulatedNetwork
  readonly referee: Referee
  readonly faults: FaultCounts
  /** What to take next: one resource, or several at once. */
  readonly resources: () => readonly string[]
  readonly scenario: Scenario
  readonly namespace: string
  readonly using: boolean
  readonly Redlock: RedlockClass
  readonly trace: (line: () => string) => void
  /** A master has just made a reply. */
  readonly answered: (
    client: SimulatedClient,
    master: number,
    script: string,
    reply: unknown,
    resources: string,
  ) => void
}

const MAX_TRIES = 20
/** What a client may be told without anything being wrong. */
const EXPECTED = new Set([
  ...['RESOURCE_TAKEN', 'SPLIT_VOTE', 'QUORUM_UNREACHABLE', 'LEASE_LOST', 'CLOSED'],
])

class GaveUp extends Error {
  readonly code = 'QUORUM_UNREACHABLE'
}

export class SimulatedClient {
  readonly name: string
  readonly #options: ClientOptions
  readonly #random: SeededRandom
  /** Calls that have not settled yet, by what they are. */
  #unsettled = new Map<symbol, string>()
  #clock!: VirtualClock
  #redlock!: Redlock
  #links: Link[] = []
  #connections: SimulatedConnection[] = []
  #working = false
  #closing = false

  constructor(options: ClientOptions) {
    this.name = options.name
    this.#options = options
    this.#random = options.random
    this.start()
  }

  get clock(): VirtualClock {
    return this.#clock
  }

  get links(): readonly Link[] {
    return this.#links
  }

  get unsettled(): readonly string[] {
    return [...this.#unsettled.values()]
  }

  get alive(): boolean {
    return this.#clock.state !== 'crashed' && !this.#closing
  }

  status(): RedlockStatus {
    return this.#redlock.status()
  }

  /** A new process, connected anew, with its loops. */
  start(): void {
    const { time, wall, rate, masters, network, scenario, Redlock } = this.#options
    const clock = new VirtualClock({ time, random: this.#random.fork(), wall, rate })
    this.#clock = clock
    this.#unsettled = new Map()
    this.#links = masters.map(() => network.link())
    this.#connections = []
    this.#closing = false
    this.#redlock = new Redlock({
      masters: masters.map((_, index) => `redis://master-${index + 1}`),
      leaseMs: 1_000,
      maxLeaseMs: MAX_LEASE_MS,
      driftFactor: DRIFT,
      masterTimeoutMs: scenario.masterTimeoutMs,
      connectTimeoutMs: 300,
      namespace: this.#options.namespace,
      fenceTtlMs: scenario.fenceTtlMs,
      owner: this.name,
      logger: silentLogger,
      clock,
      connect: (options) => {
        const index = this.#connections.length
        const [master, link] = [masters[index], this.#links[index]]
        if (master === undefined || link === undefined) throw new Error('More masters than servers')
        const connection = new SimulatedConnection(options, {
          master,
          link,
          clock,
          observe: (...event) => {
            this.#observe(clock, index, ...event)
          },
        })
        this.#connections.push(connection)
        return connection
      },
    })
    this.#working = true
    for (let loop = 0; loop < scenario.loops; loop++) void this.#track('loop', this.#loop(clock))
  }

  /** The loops end after what they are doing. */
  retire(): void {
    this.#working = false
  }

  crash(): void {
    this.#clock.crash()
    this.#unsettled.clear()
  }

  /** In the middle of whatever it does, as a worker that is told to stop. */
  async close(): Promise<void> {
    if (this.status().leases > 0) this.#options.faults.add('client closed while holding')
    this.#working = false
    this.#closing = true
    await this.#track('close', this.#redlock.close())
  }

  severOne(): boolean {
    return this.#connections.length > 0 && this.#random.pick(this.#connections).sever()
  }

  /** One attempt beside what it does otherwise. */
  async meet(resource: string, leaseMs: number): Promise<void> {
    const clock = this.#clock
    const autoExtend = this.#random.chance(0.9)
    try {
      const call = this.#redlock.tryAcquire(resource, { leaseMs, autoExtend })
      const outcome = await this.#track(`meet ${resource}`, call)
      if (outcome.status === 'granted') await this.#holdAndEnd(clock, outcome.lease, autoExtend)
    } catch (error) {
      this.#expected(error)
    }
  }

  /** Waits for `resource` as long as a lease may at most be in the way; says how that ended. */
  async prove(resource: string, waitMs: number): Promise<string | undefined> {
    try {
      const lease = await this.#track(
        `prove ${resource}`,
        this.#redlock.acquire(resource, { leaseMs: 1_000, waitMs }),
      )
      const holding = this.#granted(this.#clock, lease)
      await sleep(this.#clock, 5)
      this.#options.referee.released(holding)
      await this.#track('release', lease.release())
      return undefined
    } catch (error) {
      return (error as Error).message
    }
  }

  async #loop(clock: VirtualClock): Promise<void> {
    while (this.#works(clock)) {
      await sleep(clock, this.#pauseMs())
      if (!this.#works(clock)) return
      try {
        await this.#turn(clock)
      } catch (error) {
        if (this.#expected(error) === 'QUORUM_UNREACHABLE') await this.#retreat(clock)
      }
    }
  }

  #expected(error: unknown): string {
    const code = (error as { readonly code?: string }).code ?? ''
    if (!EXPECTED.has(code)) {
      this.#options.referee.report('CLEAN', `${this.name} threw ${String(error)}`)
    }
    return code
  }

  /** Between two pieces of work; now and then until the long rest of all is over. */
  #pauseMs(): number {
    const { time, scenario } = this.#options
    const restedMs = time.now - scenario.restFromMs
    const isRest = restedMs >= 0 && restedMs < REST_MS
    return (
      this.#random.between(1, this.#random.pick([5, 40, 200])) + (isRest ? REST_MS - restedMs : 0)
    )
  }

  /** Too few masters vote, mostly for a while: more attempts would tell nothing new. */
  async #retreat(clock: VirtualClock): Promise<void> {
    const random = this.#random
    await sleep(clock, random.chance(0.2) ? random.between(0, 20) : random.between(50, 600))
  }

  /** Not when it retires, nor in a loop of the process before. */
  #works(clock: VirtualClock): boolean {
    return this.#working && this.#clock === clock
  }

  async #turn(clock: VirtualClock): Promise<void> {
    const random = this.#random
    const resource = this.#options.resources()
    const leaseMs = random.pick(this.#options.scenario.leasesMs)
    const autoExtend = random.chance(this.#options.scenario.autoExtendChance)
    const slots = resource.length === 1 && random.chance(0.15) ? 2 : 1
    const redlock = this.#redlock
    const style = random.next()
    if (style < 0.1) {
      await this.#besiege(clock, resource, leaseMs)
    } else if (style < 0.4) {
      const call = redlock.tryAcquire(resource, { leaseMs, autoExtend, slots })
      const outcome = await this.#track(`tryAcquire ${resource.join()}`, call)
      if (outcome.status === 'granted') await this.#holdAndEnd(clock, outcome.lease, autoExtend)
      if (outcome.status === 'unreachable') await this.#retreat(clock)
    } else if (style < 0.7 || !this.#options.using) {
      const lease = await this.#acquire(clock, resource, { leaseMs, autoExtend })
      await this.#holdAndEnd(clock, lease, autoExtend)
    } else {
      const waitMs = this.#waitMs()
      const call = redlock.using(resource, { leaseMs, waitMs, slots }, async (lease) => {
        const holding = this.#granted(clock, lease)
        await (random.chance(0.3)
          ? this.#nest(clock, holding, resource, slots)
          : this.#hold(clock, holding, true))
        this.#options.referee.released(holding)
      })
      await this.#track(`using ${resource.join()}`, call)
    }
  }

  /** Asks for what it holds already: all of it, or a slot. */
  async #nest(
    clock: VirtualClock,
    outer: Holding,
    resource: readonly string[],
    outerSlots: number,
  ): Promise<void> {
    const slots = resource.length === 1 && this.#random.chance(0.5) ? 2 : 1
    try {
      await this.#redlock.using(resource, { slots, waitMs: 0 }, async (lease) => {
        const believed = slots === 1 ? resource : lease.resources
        const joined = lease === outer.lease && believed.join() === lease.resources.join()
        const holding = joined ? outer : this.#granted(clock, lease, believed)
        await this.#hold(clock, holding, true)
        if (!joined) this.#options.referee.released(holding)
      })
    } catch (error) {
      if (slots === outerSlots || !(error instanceof TypeError)) throw error
    }
  }

  /** Asks again and again, so as to be there in the moment in which a lease ends. */
  async #besiege(clock: VirtualClock, resource: readonly string[], leaseMs: number): Promise<void> {
    for (let tries = 0; tries < MAX_TRIES && this.#works(clock); tries++) {
      const call = this.#redlock.tryAcquire(resource, { leaseMs })
      const outcome = await this.#track(`tryAcquire ${resource.join()}`, call)
      if (outcome.status === 'granted') {
        await this.#holdAndEnd(clock, outcome.lease, false)
        return
      }
      if (outcome.status === 'unreachable') {
        await this.#retreat(clock)
        return
      }
      // As long as there is no hurry, rarely.
      const leftMs = outcome.status === 'taken' ? outcome.retryAfterMs : 0
      await sleep(clock, leftMs > 40 ? leftMs - 20 : this.#random.between(1, 8))
    }
  }

  /** Some callers give up waiting before they are served. */
  async #acquire(
    clock: VirtualClock,
    resource: readonly string[],
    options: AcquireOptions,
  ): Promise<Lease> {
    const patience = new AbortController()
    const limit = clock.after(this.#random.between(1, 4_000), () => {
      patience.abort(new GaveUp())
    })
    const waitMs = this.#waitMs()
    try {
      const call = this.#redlock.acquire(resource, { ...options, waitMs, signal: patience.signal })
      return await this.#track(`acquire ${resource.join()}`, call)
    } finally {
      limit.cancel()
    }
  }

  #waitMs(): number {
    return this.#random.integer(0, this.#random.pick([0, 100, 100, 200, 2_000]))
  }

  async #holdAndEnd(clock: VirtualClock, lease: Lease, autoExtend: boolean): Promise<void> {
    const { referee } = this.#options
    const holding = this.#granted(clock, lease)
    await this.#hold(clock, holding, autoExtend)
    const ending = this.#random.next()
    if (ending < 0.1 && !autoExtend) return // Forgotten: it lapses.
    const handsOver = ending < 0.1 + this.#options.scenario.handOverChance
    if (handsOver && lease.remainingMs() > 0 && this.#works(clock)) {
      await this.#handOver(clock, holding)
      return
    }
    referee.released(holding)
    const release = this.#track(`release ${lease.resource}`, lease.release())
    if (this.#random.chance(0.7)) await release
  }

  async #handOver(clock: VirtualClock, holding: Holding): Promise<void> {
    const { lease } = holding
    this.#options.referee.released(holding)
    const { leaseMs } = lease
    const autoExtend = this.#random.chance(this.#options.scenario.autoExtendChance)
    const next = this.#redlock.handOver(lease, { leaseMs, autoExtend })
    if (next !== undefined) {
      this.#options.referee.passedOn++
      await this.#holdAndEnd(clock, next, autoExtend)
      return
    }
    // As a worker does: the next job asks right behind the release.
    void this.#track(`release ${lease.resource}`, lease.release())
    const call = this.#redlock.tryAcquire(lease.resources, { leaseMs, autoExtend })
    const outcome = await this.#track(`tryAcquire ${lease.resource}`, call)
    if (outcome.status === 'granted') await this.#holdAndEnd(clock, outcome.lease, autoExtend)
  }

  async #hold(clock: VirtualClock, holding: Holding, autoExtend: boolean): Promise<void> {
    const { referee } = this.#options
    const { lease } = holding
    const random = this.#random
    if (!autoExtend && random.chance(0.25)) {
      await this.#holdToTheEnd(clock, holding)
      return
    }
    if (autoExtend && random.chance(this.#options.scenario.longHoldChance)) {
      await this.#holdForLong(clock, lease)
      return
    }
    const careful = random.chance(0.6)
    const stepMs = lease.leaseMs * (random.chance(0.1) ? 1.5 : random.between(0.01, 0.4))
    const steps = random.integer(0, 4)
    for (let step = 0; step < steps && this.#works(clock); step++) {
      if (careful && lease.signal.aborted) return
      if (!careful || lease.remainingMs() > 0) this.#write(holding)
      await sleep(clock, random.between(0, stepMs))
      referee.look()
      if (autoExtend || random.chance(0.3)) continue
      await this.#track(`extend ${lease.resource}`, lease.extend())
      referee.look()
    }
    if (!careful) this.#write(holding)
  }

  /** Through many extensions. */
  async #holdForLong(clock: VirtualClock, lease: Lease): Promise<void> {
    const until = clock.now() + this.#random.between(1, 4) * MAX_LEASE_MS
    while (this.#works(clock) && clock.now() < until && lease.remainingMs() > 0) {
      await sleep(clock, 200)
      this.#options.referee.look()
    }
  }

  /** Uses every millisecond of the trust, and no more. */
  async #holdToTheEnd(clock: VirtualClock, holding: Holding): Promise<void> {
    while (this.#works(clock)) {
      const leftMs = holding.lease.remainingMs()
      if (leftMs <= 0) return
      this.#write(holding)
      await sleep(clock, Math.min(leftMs, 300))
    }
  }

  #granted(clock: VirtualClock, lease: Lease, believed = lease.resources): Holding {
    // Closed, and perhaps started anew since: what the process before is still granted is released
    // at once.
    const closing = this.#closing || this.#clock !== clock
    const fleet = this.#options.namespace === 'sim' ? '' : `${this.#options.namespace} `
    const terms = { closing, fleet, believed }
    return this.#options.referee.granted(this.name, clock, lease, terms)
  }

  /** What was written travels too, sometimes for longer than the lease. */
  #write(holding: Holding): void {
    const { time, referee } = this.#options
    const slow = this.#random.chance(0.2)
    time.in(this.#random.between(0.1, slow ? 2 * MAX_LEASE_MS : 3), () => {
      referee.write(holding)
    })
  }

  async #track<Result>(what: string, call: Promise<Result>): Promise<Result> {
    const id = Symbol(what)
    const unsettled = this.#unsettled
    unsettled.set(id, what)
    try {
      return await call
    } finally {
      unsettled.delete(id)
    }
  }

  #observe(
    clock: VirtualClock,
    index: number,
    event: 'call' | 'reply',
    asked: Asked,
    reply?: unknown,
  ): void {
    const { referee, trace, masters, answered } = this.#options
    const { verb: script, token = '', resources = [] } = asked
    const master = masters[index]?.name
    if (event === 'call' && script === 'acquire') referee.attempted(token, clock)
    if (event === 'call' && script === 'extend') referee.extendRoundBegins(token, clock)
    if (event === 'reply') answered(this, index, script, reply, String(resources))
    trace(() => {
      const said = event === 'call' ? '' : ` = ${JSON.stringify(reply)}`
      const { fence = '', leaseMs = '', waitMs = '', waiter = '' } = asked
      const rest = [resources, fence, leaseMs, waitMs, waiter].join(' ')
      return `${this.name} ${event === 'call' ? 'asks' : 'ran on'} ${master}: ${script} ${token.slice(0, 8)} ${rest}${said}`
    })
  }
}
