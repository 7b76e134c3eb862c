/**
 * What one seed's world is like. Every seed switches a random part of the faults on and draws how
 * hard they hit ("swarm testing"): a world that has all of them all the time never gets far enough
 * to go wrong.
 */
import type { NetworkProfile } from './simulated-network.ts'
import type { Property } from './referee.ts'
import type { SeededRandom } from './seeded-random.ts'

/**
 * `sane`: clocks run at about the same rate and agree within the allowed skew. `stepped`: a
 * minority of the masters' clocks step far, or are wrong after a reboot, and are set right later;
 * clients come and go. `jumps`: every clock is stepped, memory is kept. `amnesia`: masters' clocks
 * are stepped and memory is lost, clients' clocks are right. In the last two no client starts late
 * or reaches a master late, because it could not see steps of a majority. Every step is long and
 * lasts for longer than any lease: shorter ones are remaining risks in docs/safety.md.
 */
export const KINDS = ['sane', 'stepped', 'jumps', 'amnesia'] as const
export type Clocks = (typeof KINDS)[number]

/** The longest lease of the simulated fleet; all durations follow from it. */
export const MAX_LEASE_MS = 1_000
/** The rates of any two clocks differ by at most this fraction. */
export const DRIFT = 0.01

const LEASES_MS = [100, 100, 100, 200, 200, 500, MAX_LEASE_MS]
const LONG_LEASES_MS = [200, 500, MAX_LEASE_MS, MAX_LEASE_MS]
/** Counters are forgotten meanwhile, also on masters whose clocks are slow. */
export const REST_MS = 11 * MAX_LEASE_MS

/** The kind of a seed, so that the seed alone names a run. */
export function clocksOf(seed: number): Clocks {
  const kinds = ['sane', 'stepped', 'jumps', 'amnesia', 'sane', 'stepped', 'sane'] as const
  return kinds[seed % kinds.length] ?? 'sane'
}

/**
 * Whether clients also call `using`. Not everywhere: from the first call on, Node tracks contexts
 * in the whole process, which is slow before Node 24.
 */
export function callsUsing(seed: number): boolean {
  return seed % 5 === 0
}

/** Mean true milliseconds between two faults of a kind; undefined where the seed leaves it out. */
export interface FaultRates {
  readonly crashMs: number | undefined
  readonly flushMs: number | undefined
  readonly freezeMs: number | undefined
  readonly pauseMs: number | undefined
  readonly suspendMs: number | undefined
  readonly clientCrashMs: number | undefined
  readonly closeMs: number | undefined
  readonly severMs: number | undefined
  readonly partitionMs: number | undefined
  readonly stepClientMs: number | undefined
  readonly stepMasterMs: number | undefined
  readonly wrongRebootMs: number | undefined
  /** Between two changes of the masters that a client cannot reach. */
  readonly cutOffMs: number | undefined
  /** Some masters are out of a client's reach from its start. */
  readonly cutOffAtStart: boolean
  /** Two clients meet on a fresh resource, while the first one's questions are held up. */
  readonly meetMs: number | undefined
  /** Chance that the answer of a master that grants brings a fault about. */
  readonly momentChance: number
}

export interface Scenario {
  readonly clocks: Clocks
  readonly judged: ReadonlySet<Property>
  readonly activeMs: number
  readonly network: NetworkProfile
  readonly faults: FaultRates
  /** How much of the drift allowance the clocks use. */
  readonly drift: number
  /** Wall clocks start this far apart at most. */
  readonly skewMs: number
  /** Chance that a master has every write on disk, or says so. */
  readonly durableChance: number
  /** Of three, one that forgets is enough for a second quorum. */
  readonly masters: number
  /** The longest time for which a master that crashed is down. */
  readonly downMs: number
  /** What clients ask for. */
  readonly leasesMs: readonly number[]
  /** How many of them at once, by client. */
  readonly loops: number
  readonly autoExtendChance: number
  readonly resources: number
  readonly handOverChance: number
  /** How often a lease that is kept alive is held through many extensions. */
  readonly longHoldChance: number
  /** When all clients rest, for longer than counters live. */
  readonly restFromMs: number
  /** Chance that it does so only while it does not rewrite its file. */
  readonly halfDurableChance: number
  /** One client's wall clock is this far ahead, beyond what masters accept. */
  readonly aheadMs: number
  /** One client's wall clock is this far behind. */
  readonly behindMs: number
  readonly fenceTtlMs: number
  /** One client starts this late. */
  readonly lateMs: number
  /** One client is of another fleet on the same servers. */
  readonly twoFleets: boolean
  readonly memoryLoss: boolean
  /** How long clients wait for one master. */
  readonly masterTimeoutMs: number
}

const TOKENS: readonly Property[] = ['MONO', 'UNIQ', 'STORE', 'SETTLE', 'CLEAN', 'ME', 'WAIT']
const ALL: readonly Property[] = [...TOKENS, 'CONT', 'LAPSE']

export function drawScenario(random: SeededRandom, clocks: Clocks): Scenario {
  const sane = clocks === 'sane'
  const late = clocks !== 'jumps' && clocks !== 'amnesia'
  const some = (chance: number, minMs: number, maxMs: number): number | undefined => {
    const meanMs = random.between(minMs, maxMs)
    return random.chance(chance) ? meanMs : undefined
  }
  const stepped = clocks === 'stepped'
  const halfDurableChance = sane ? random.pick([0, 0, 0.5, 1]) : 0
  const behindMs = random.chance(0.1) ? 3_600_000 * random.between(0.1, 48) : 0
  const isLong = random.chance(0.5)
  // With a lost counter tokens rest on the clocks.
  const memoryLoss = clocks !== 'jumps' && behindMs === 0
  const masters = stepped || halfDurableChance > 0 || random.chance(0.4) ? 3 : 5
  // A client and a master that are ahead lift the counters; once those are lost, tokens fall.
  const mayBeAhead = sane || !memoryLoss ? 1 : 0
  const rests = sane && random.chance(0.05)
  return {
    clocks,
    judged: new Set(late ? ALL : clocks === 'jumps' ? [...TOKENS, 'CONT'] : TOKENS),
    activeMs: random.between(8_000, 16_000) + (rests ? REST_MS : 0),
    network: drawNetwork(random),
    faults: {
      crashMs: some(halfDurableChance > 0 ? 1 : 0.6, 1_000, 10_000),
      flushMs: memoryLoss ? some(0.3, 2_000, 15_000) : undefined,
      freezeMs: some(0.4, 500, 8_000),
      pauseMs: some(0.4, 500, 8_000),
      suspendMs: some(0.3, 1_000, 10_000),
      clientCrashMs: late ? some(stepped ? 0.6 : 0.3, 2_000, 15_000) : undefined,
      closeMs: late ? some(0.3, 2_000, 15_000) : undefined,
      severMs: some(0.5, 200, 5_000),
      partitionMs: some(0.4, 500, 8_000),
      stepClientMs: clocks === 'jumps' ? some(1, 200, 2_000) : undefined,
      stepMasterMs: sane ? undefined : some(late ? 0.5 : 0.8, 1_000, 8_000),
      wrongRebootMs: stepped && memoryLoss ? some(0.7, 500, 4_000) : undefined,
      cutOffMs: some(masters === 3 ? 0.6 : 0.2, 500, 4_000),
      cutOffAtStart: late,
      meetMs: some(0.3, 500, 2_000),
      momentChance: random.pick([0, 0, 0.02]),
    },
    drift: random.chance(0.7) ? DRIFT : 0,
    // Before a memory loss tokens rest on the clocks: twice the skew must stay below the longest
    // lease.
    skewMs: clocks === 'amnesia' ? 0 : random.pick([0, 5, MAX_LEASE_MS / 9]),
    durableChance: clocks === 'jumps' ? 0.8 : random.pick([0, 0.5]),
    halfDurableChance,
    masters,
    downMs: random.pick([0.1, 1.5]) * MAX_LEASE_MS,
    leasesMs: isLong ? LONG_LEASES_MS : LEASES_MS,
    autoExtendChance: clocks === 'jumps' ? 0.8 : random.pick([0.4, 0.8]),
    resources: random.pick([1, 2]),
    handOverChance: 0.2,
    loops: random.pick([1, 1, 2]),
    longHoldChance: random.pick([0.1, 0.5]),
    restFromMs: rests ? random.between(2_000, 6_000) : Infinity,
    aheadMs: (random.chance(0.15) ? MAX_LEASE_MS * random.between(2, 500) : 0) * mayBeAhead,
    behindMs,
    fenceTtlMs: rests ? 10 * MAX_LEASE_MS : 24 * 3_600_000,
    lateMs: late && random.chance(0.3) ? random.between(0, 8_000) : 0,
    twoFleets: clocks === 'sane' && random.chance(0.15),
    memoryLoss,
    masterTimeoutMs: random.pick([50, 50, 500]),
  }
}

/**
 * Chance and length of a hold-up. What follows on the connection waits too, so the long ones are
 * rare.
 */
const SPIKES = [
  [0, 0],
  [0.1, 30],
  [0.03, 100],
  [0.02, 300],
  [0.004, MAX_LEASE_MS],
  [0.02, MAX_LEASE_MS],
] as const

function drawNetwork(random: SeededRandom): NetworkProfile {
  const [spikeChance, spikeMs] = random.pick(SPIKES)
  return {
    usualMs: random.pick([0.5, 2, 10]),
    spikeChance,
    spikeMs,
    // An enrolment is eight round trips: with more loss than this, few masters ever vote.
    lossChance: random.pick([0, 0.002, 0.01, 0.03]),
    duplicateChance: random.pick([0, 0.005, 0.05]),
    postponeChance: random.pick([0, 0.3, 0.9]),
    postponeMs: random.pick([100, MAX_LEASE_MS, 2 * MAX_LEASE_MS]),
  }
}
