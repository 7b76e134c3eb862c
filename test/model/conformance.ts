/**
 * Walks through the model at random and makes the real code take the same steps: real `Redlock`
 * clients, whose messages run on simulated masters when the model says so. After every step both
 * must agree on what each master has stored and on which leases are complete, under which token.
 *
 * Counters are the model's small numbers times the least step between two grants, above a common
 * base.
 */
import type { Lease } from '../../src/lock/lease.ts'
import { silentLogger } from '../../src/logger.ts'
import { keyspace } from '../../src/redlock/keyspace.ts'
import { QuorumLease } from '../../src/redlock/attempt.ts'
import { Redlock } from '../../src/redlock/redlock.ts'
import { quorumOf } from '../../src/redlock/quorum.ts'
import { TOKENS_PER_GRANT } from '../../src/redlock/verbs.ts'
import type { Asked } from '../../src/redlock/wire/calls.ts'
import { FaultCounts } from '../sim/fault-counts.ts'
import { SeededRandom } from '../sim/seeded-random.ts'
import { SimulatedConnection } from '../sim/simulated-connection.ts'
import { SimulatedMaster } from '../sim/simulated-master.ts'
import { CALM, Link, SimulatedNetwork, type Socket } from '../sim/simulated-network.ts'
import { VirtualClock } from '../sim/virtual-clock.ts'
import { VirtualTime } from '../sim/virtual-time.ts'
import { EPOCH_MS, WallClock } from '../sim/wall-clock.ts'
import {
  COUNTER,
  EXTENDING,
  get,
  HELD,
  HOLDER,
  PHASE,
  PROPOSAL,
  QUARANTINE,
  TOKEN,
  TRAFFIC,
} from './protocol-state.ts'
import { Protocol, type Scope, type Step } from './protocol.ts'

const NAMESPACE = 'conformance'
const RESOURCE = 'r'
const LEASE_MS = 1_000
/** Two of them are a little longer than a lease: its keys are over then. */
const TICK_MS = LEASE_MS / 2 + 1
const BASE_US = (EPOCH_MS + 2_000) * 1_000
const MAX_STEPS = 60

type Attempt = 0 | 1

interface Move {
  readonly step: Step
  readonly label: string
  readonly row: Uint32Array
}

interface Outcome {
  lease: QuorumLease | undefined
  /** How often, when the last event of a step has run. */
  extended: number
  /** When its last extension began. */
  askedAt: number
}

interface Message {
  readonly procedure: string
  readonly run: () => void
}

/** Carries enrolments at once, and calls only when the walk says so. */
class HeldLink extends Link {
  /** The procedure that the next message calls; none for an enrolment. */
  next = ''
  readonly sent: Message[] = []
  readonly #time: VirtualTime

  constructor(network: SimulatedNetwork, time: VirtualTime) {
    const options = { time, random: new SeededRandom(1), faults: new FaultCounts() }
    super(network, { ...options, profile: CALM, deadlineMs: LEASE_MS })
    this.#time = time
  }

  override carry(direction: 'request' | 'reply', _socket: Socket, arrive: () => void): void {
    const procedure = this.next
    this.next = ''
    if (direction === 'request' && procedure !== '') {
      this.sent.push({ procedure, run: arrive })
    } else {
      this.#time.in(0, arrive)
    }
  }
}

class ClientClock extends VirtualClock {
  offsetMs = 0

  override wallNow(): number {
    return this.wall.now() + this.offsetMs
  }
}

interface Client {
  readonly redlock: Redlock
  readonly clock: ClientClock
  readonly links: readonly HeldLink[]
}

/** The real code, and the masters that the model speaks of. */
class RealWorld {
  readonly #time = new VirtualTime()
  readonly #masters: readonly SimulatedMaster[]
  /** By attempt. */
  readonly #clients: Client[] = []
  readonly outcomes: readonly [Outcome, Outcome] = [
    { lease: undefined, extended: 0, askedAt: 0 },
    { lease: undefined, extended: 0, askedAt: 0 },
  ]
  readonly #tokens = new Map<string, Attempt>()
  readonly #scope: Scope

  constructor(scope: Scope) {
    this.#scope = scope
    this.#masters = Array.from({ length: scope.masters }, (_, index) => {
      const master = new SimulatedMaster({
        name: `master-${index + 1}`,
        random: new SeededRandom(index + 1),
        wall: this.#wall(),
        trueNow: () => this.#time.now,
        disk: 'none',
      })
      this.#bootstrap(master)
      return master
    })
    this.#clients = [this.#client(0), this.#client(1)]
  }

  async begin(): Promise<void> {
    await this.#time.runUntil(2_000)
  }

  async take({ step, row }: Move): Promise<void> {
    const { what, attempt = 0, master = 0 } = step
    const own = row[this.#scope.masters + attempt] ?? 0
    if (what === 'start') this.#start(attempt, get(own, PROPOSAL))
    if (what === 'begin to extend') this.#extend(attempt)
    if (what === 'vanish') this.#masters[master]?.memory.delete(`${NAMESPACE}:lease:${RESOURCE}`)
    if (what === 'forget') this.#forget(master)
    if (what === 'acquire' || what === 'confirm' || what === 'extend' || what === 'heal') {
      this.#deliver(what, attempt, master)
    }
    const passes = what === 'time passes' ? TICK_MS : 0
    await this.#time.runUntil(this.#time.now + passes)
    if (passes > 0) this.#endQuarantines(row)
  }

  /**
   * The code sends no key back for a lease that is over or an answer that is late, and a tombstone
   * outlasts its quarantine: the model may give the key back then.
   */
  may({ what, attempt = 0, master = 0 }: Step): boolean {
    if (what === 'heal' && this.#isAbandoned(attempt, master)) return false
    const { lease, askedAt } = this.outcomes[attempt]
    const isHeld = lease !== undefined && lease.remainingMs() > 0 && askedAt === this.#time.now
    return what !== 'heal' || isHeld || this.#messageOf(what, attempt, master) !== undefined
  }

  /** As the model would say it: of each master its holder and counter, of each lease its token. */
  seen(): readonly string[] {
    const masters = this.#masters.map(({ memory }) => {
      const token = memory.get(`${NAMESPACE}:lease:${RESOURCE}`)
      const attempt = token === undefined ? undefined : this.#tokens.get(token)
      const holder = attempt === undefined ? 0 : attempt + 1
      return `${holder} at ${small(Number(memory.get(`${NAMESPACE}:fence:${RESOURCE}`) ?? 0))}`
    })
    const leases = this.outcomes.map(({ lease, extended }) => {
      const held = lease !== undefined && lease.remainingMs() > 0
      const how = held ? `held with ${small(lease.fencingToken)}` : 'not held'
      return `${how}, ${extended} extended`
    })
    return [...masters, ...leases]
  }

  #isAbandoned(attempt: Attempt, master: number): boolean {
    const tombstone = keyspace(NAMESPACE).tombstone(this.outcomes[attempt].lease?.token ?? '')
    return this.#masters[master]?.memory.exists(tombstone) === true
  }

  #start(attempt: Attempt, proposal: number): void {
    const client = this.#clients[attempt]
    if (client === undefined) return
    this.#propose(client, proposal)
    const options = { leaseMs: LEASE_MS, autoExtend: false }
    void this.#grant(attempt, client.redlock.tryAcquire(RESOURCE, options))
  }

  async #grant(attempt: Attempt, call: ReturnType<Redlock['tryAcquire']>): Promise<void> {
    const outcome = await call
    const lease: Lease | undefined = outcome.status === 'granted' ? outcome.lease : undefined
    if (lease instanceof QuorumLease) this.outcomes[attempt].lease = lease
  }

  #extend(attempt: Attempt): void {
    const outcome = this.outcomes[attempt]
    outcome.askedAt = this.#time.now
    const extended = ({ status }: { readonly status: string }): void => {
      if (status === 'extended') outcome.extended++
    }
    outcome.lease?.extend().then(extended, () => undefined)
  }

  #deliver(procedure: string, attempt: Attempt, master: number): void {
    const message = this.#messageOf(procedure, attempt, master)
    if (message === undefined) throw new Error(`The real code has not sent this ${procedure}`)
    const sent = this.#clients[attempt]?.links[master]?.sent ?? []
    sent.splice(sent.indexOf(message), 1)
    message.run()
  }

  #messageOf(procedure: string, attempt: Attempt, master: number): Message | undefined {
    const sent = this.#clients[attempt]?.links[master]?.sent
    return sent?.findLast((each) => each.procedure === procedure)
  }

  /** Another client has enrolled it anew before anybody asks it again. */
  #forget(index: number): void {
    const master = this.#masters[index]
    if (master === undefined) return
    master.flush()
    if (!this.#scope.clock) {
      this.#bootstrap(master)
      return
    }
    const [quarantineMs, fleetSize, fenceTtlMs] = [LEASE_MS, this.#scope.masters, 86_400_000]
    const fleet = [master.runId, LEASE_MS, quarantineMs, '0', fleetSize, '1', 'founder', 'lost']
    master.eval('enrol', [`${NAMESPACE}:master`], [...fleet, fenceTtlMs])
  }

  #endQuarantines(row: Uint32Array): void {
    for (const [index, master] of this.#masters.entries()) {
      if (get(row[index] ?? 0, QUARANTINE) > 0) continue
      const key = `${NAMESPACE}:master`
      master.eval('waited', [key], [master.memory.hash(key).get('quarantine') ?? '', '0'])
    }
  }

  #bootstrap(master: SimulatedMaster): void {
    const terms = [master.runId, LEASE_MS, this.#scope.masters]
    master.eval('bootstrap', [`${NAMESPACE}:master`], terms)
  }

  /** In the middle of a microsecond, because a double rounds. */
  #propose({ clock }: Client, proposal: number): void {
    clock.offsetMs = (large(proposal) + 0.5) / 1_000 - clock.wall.now()
  }

  #wall(): WallClock {
    return new WallClock({ time: this.#time, offsetMs: 0, slew: 0, wanderMs: 0 })
  }

  #client(attempt: Attempt): Client {
    const time = this.#time
    const random = new SeededRandom(7)
    const clock = new ClientClock({ time, random, wall: this.#wall(), rate: 1 })
    const network = new SimulatedNetwork({
      ...{ time, random, profile: CALM, faults: new FaultCounts(), deadlineMs: LEASE_MS },
    })
    const links = this.#masters.map(() => new HeldLink(network, time))
    let connected = 0
    const redlock = new Redlock({
      masters: this.#masters.map(({ name }) => `redis://${name}`),
      ...{ leaseMs: LEASE_MS, maxLeaseMs: LEASE_MS, masterTimeoutMs: LEASE_MS },
      ...{ namespace: NAMESPACE, logger: silentLogger, clock, maxClockSkewMs: LEASE_MS / 2 },
      fenceTtlMs: 86_400_000,
      connect: (options) => {
        const [master, link] = [this.#masters[connected], links[connected++]]
        if (master === undefined || link === undefined) throw new Error('More masters than servers')
        const observe = (event: string, { verb, token = '' }: Asked): void => {
          if (event !== 'call') return
          this.#tokens.set(token, attempt)
          link.next = verb
        }
        return new SimulatedConnection(options, { master, link, clock, observe })
      },
    })
    return { redlock, clock, links }
  }
}

function large(small: number): number {
  return BASE_US + small * TOKENS_PER_GRANT
}

function small(counter: number): number {
  return counter === 0 ? 0 : (counter - BASE_US) / TOKENS_PER_GRANT
}

function expected(
  row: Uint32Array,
  masters: number,
  extensions: readonly [number, number],
): readonly string[] {
  const words = Array.from(row.subarray(0, masters))
  const attempts = Array.from(row.subarray(masters, masters + 2))
  return [
    ...words.map((word) => `${get(word, HOLDER)} at ${get(word, COUNTER)}`),
    ...attempts.map((word, index) => {
      const how = get(word, PHASE) === HELD ? `held with ${get(word, TOKEN)}` : 'not held'
      return `${how}, ${extensions[index]} extended`
    }),
  ]
}

/** What the real code does by itself as soon as it can. */
const AT_ONCE = new Set(['complete', 'ask to confirm', 'extended'])

/** They end walks before much has happened, so the others are taken first as a rule. */
const LOSSES_AND_TIME = new Set(['vanish', 'forget', 'time passes'])

export interface Walk {
  readonly steps: readonly string[]
  /** By kind of step. */
  readonly taken: ReadonlyMap<string, number>
}

/** @throws Error with the steps so far, where model and code differ. */
export async function walk(given: Scope, seed: number): Promise<Walk> {
  const scope = { ...given, sorted: false }
  const random = new SeededRandom(seed)
  const row = new Uint32Array(scope.masters + 3)
  let moves: Move[] = []
  const protocol = new Protocol(scope, row, (label, _broken, step) => {
    moves.push({ step, label: label(), row: row.slice() })
  })
  protocol.writeInitial()
  let state: Uint32Array = row.slice()
  const world = new RealWorld(scope)
  await world.begin()
  const steps: string[] = []
  const taken = new Map<string, number>()
  const extensions: [number, number] = [0, 0]
  while (steps.length < MAX_STEPS) {
    moves = []
    protocol.successors(state)
    const forced = moves.filter(({ step }) => AT_ONCE.has(step.what))
    const free = moves.filter(({ step }) => isReal(step, state, scope.masters) && world.may(step))
    const deeds = free.filter(({ step }) => !LOSSES_AND_TIME.has(step.what))
    const drawn = deeds.length > 0 && random.chance(0.7) ? deeds : free
    const [move] = forced.length > 0 ? forced : drawn.length > 0 ? [random.pick(drawn)] : []
    if (move === undefined) break
    const { what, attempt = 0, master } = move.step
    steps.push(master === undefined ? move.label : `${move.label} (master ${master + 1})`)
    taken.set(what, (taken.get(what) ?? 0) + 1)
    if (what === 'extended') extensions[attempt]++
    try {
      await world.take(move)
      state = move.row
      moves = []
      protocol.successors(state)
      // What the code does at once, the model does in its next step.
      if (moves.some(({ step }) => AT_ONCE.has(step.what))) continue
      if (what === 'extend' && isGone(state, scope.masters, attempt)) break
      compare(world.seen(), expected(state, scope.masters, extensions))
    } catch (error) {
      throw new Error(`Seed ${seed}: ${String(error)}\n  ${steps.join('\n  ')}`, { cause: error })
    }
  }
  return { steps, taken }
}

/**
 * No quorum can extend it any more, because that many masters have another answer: the code gives
 * such a lease up before its time, and the model does not.
 */
function isGone(row: Uint32Array, masters: number, attempt: Attempt): boolean {
  const { extend } = TRAFFIC[attempt]
  const answers = Array.from(row.subarray(0, masters)).map((word) => get(word, extend))
  const possible = answers.filter((answer) => answer === 1 || answer === 2).length
  const isAsking = get(row[masters + attempt] ?? 0, EXTENDING) === 1
  return isAsking && possible < quorumOf(masters)
}

/** A second delivery is heard by nobody; what is asked twice at once is one round. */
function isReal({ what, attempt = 0 }: Step, state: Uint32Array, masters: number): boolean {
  if (what === 'acquire again') return false
  return what !== 'begin to extend' || get(state[masters + attempt] ?? 0, EXTENDING) === 0
}

function compare(seen: readonly string[], wanted: readonly string[]): void {
  if (seen.join() === wanted.join()) return
  throw new Error(`the code has [${seen.join(', ')}], the model [${wanted.join(', ')}]`)
}
