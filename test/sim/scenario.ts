/**
 * What one seed's world is like. Every seed switches a random part of the faults on and draws how hard they
 * hit ("swarm testing"): a world that has all of them all the time never gets far enough to go wrong.
 */
import type { NetworkProfile } from './simulated-network.ts'
import type { Property } from './referee.ts'
import type { SeededRandom } from './seeded-random.ts'

/**
 * `sane`: clocks run at about the same rate and agree within the allowed skew; everything is promised.
 * `jumps`: every clock is stepped, memory is kept. `amnesia`: masters' clocks are stepped and memory is lost,
 * clients' clocks are right. In the last two only what is said of tokens is promised.
 */
export type Clocks = 'sane' | 'jumps' | 'amnesia'

/** The longest lease of the simulated fleet; all durations follow from it. */
export const MAX_LEASE_MS = 3_000
/** The rates of any two clocks differ by at most this fraction. */
export const DRIFT = 0.01

/** The kind of a seed, so that the seed alone names a run. */
export function clocksOf(seed: number): Clocks {
  if (seed % 4 === 3) return 'amnesia'
  return seed % 4 === 2 ? 'jumps' : 'sane'
}

/**
 * Whether clients also call `using`. Not everywhere: from the first call on, Node tracks contexts in the whole
 * process, which is slow.
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
  /** Chance that a master promises to have every write on disk. */
  readonly durableChance: number
  /** One client's wall clock is this far ahead, beyond what masters accept. */
  readonly aheadMs: number
  readonly memoryLoss: boolean
  /** How long clients wait for one master. */
  readonly masterTimeoutMs: number
}

const TOKENS: readonly Property[] = ['MONO', 'UNIQ', 'STORE', 'SETTLE', 'CLEAN']
const SANE: readonly Property[] = [...TOKENS, 'ME', 'CONT', 'LAPSE', 'WAIT']

export function drawScenario(random: SeededRandom, clocks: Clocks): Scenario {
  const sane = clocks === 'sane'
  const some = (chance: number, minMs: number, maxMs: number): number | undefined => {
    const meanMs = random.between(minMs, maxMs)
    return random.chance(chance) ? meanMs : undefined
  }
  const memoryLoss = clocks !== 'jumps'
  return {
    clocks,
    judged: new Set(sane ? SANE : clocks === 'jumps' ? [...TOKENS, 'CONT'] : TOKENS),
    activeMs: random.between(15_000, 40_000),
    network: drawNetwork(random),
    faults: {
      crashMs: some(0.6, 1_000, 15_000),
      flushMs: memoryLoss ? some(0.3, 2_000, 15_000) : undefined,
      freezeMs: some(0.4, 500, 8_000),
      pauseMs: some(0.4, 500, 8_000),
      suspendMs: some(0.3, 1_000, 10_000),
      clientCrashMs: some(0.3, 2_000, 15_000),
      closeMs: some(0.3, 2_000, 15_000),
      severMs: some(0.5, 200, 5_000),
      partitionMs: some(0.4, 500, 8_000),
      stepClientMs: clocks === 'jumps' ? some(0.8, 200, 4_000) : undefined,
      stepMasterMs: sane ? undefined : some(0.9, 100, 3_000),
    },
    drift: random.chance(0.7) ? DRIFT : 0,
    // Before a memory loss tokens rest on the clocks: twice the skew must stay below the longest lease.
    skewMs: clocks === 'amnesia' ? 0 : random.pick([0, 5, MAX_LEASE_MS / 9]),
    durableChance: clocks === 'jumps' ? 0.8 : random.pick([0, 0.5]),
    aheadMs: random.chance(0.15) ? MAX_LEASE_MS * random.between(2, 500) : 0,
    memoryLoss,
    masterTimeoutMs: random.pick([50, 50, 500]),
  }
}

/** Chance and length of a hold-up. What follows on the connection waits too, so the long ones are rare. */
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
    lossChance: random.pick([0, 0.002, 0.02, 0.08]),
    duplicateChance: random.pick([0, 0.005, 0.05]),
    postponeChance: random.pick([0, 0.3, 0.9]),
    postponeMs: random.pick([100, MAX_LEASE_MS, 2 * MAX_LEASE_MS]),
  }
}
