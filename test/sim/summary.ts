/**
 * What many seeds add up to, and whether they proved anything: a fault that never happened was not
 * survived.
 */
import { CLOCK_FAULTS, FAULTS } from './fault-counts.ts'
import type { SimulationResult } from './simulation.ts'

/** Replies without which a rule of the protocol was never put to use. */
const REPLIES = [
  ...['acquire:granted', 'acquire:taken', 'acquire:quarantined', 'acquire:skewed'],
  ...['acquire:abandoned', 'acquire:unenrolled', 'confirm:counter', 'confirm:lost'],
  ...['extend:extended', 'extend:missing', 'extend:lost', 'heal:healed', 'heal:lost'],
] as const

type Sum = (typeof SUMS)[number]

export interface FailedSeed {
  readonly seed: number
  readonly clocks: string
  readonly violations: SimulationResult['violations']
}

const SUMS = [
  ...(['virtualMs', 'events', 'leases', 'passedOn', 'extensions'] as const),
  ...(['writesAccepted', 'writesRefused'] as const),
] as const

export class Summary {
  seeds = 0
  readonly sums = Object.fromEntries(SUMS.map((name) => [name, 0])) as Record<Sum, number>
  readonly faults: Record<string, number> = {}
  readonly replies: Record<string, number> = {}
  readonly failed: FailedSeed[] = []
  readonly #clocks = new Set<string>()

  add(result: SimulationResult): void {
    this.seeds++
    for (const name of SUMS) this.sums[name] += result[name]
    this.#clocks.add(result.clocks)
    addCounts(this.faults, result.faults)
    addCounts(this.replies, result.replies)
    const { seed, clocks, violations } = result
    if (violations.length > 0) this.failed.push({ seed, clocks, violations })
  }

  get virtualHours(): number {
    return this.sums.virtualMs / 3_600_000
  }

  /** As plain data. */
  totals(): object {
    const { seeds, virtualHours, sums, faults, replies, failed } = this
    return { seeds, virtualHours, ...sums, faults, replies, failed }
  }

  /** What never happened, though it should have. */
  missing(): readonly string[] {
    const faults: readonly string[] = [
      ...FAULTS,
      ...(['jumps', 'stepped'].every((kind) => this.#clocks.has(kind)) ? CLOCK_FAULTS : []),
    ]
    return [
      ...faults.filter((fault) => (this.faults[fault] ?? 0) === 0),
      ...REPLIES.filter((reply) => (this.replies[reply] ?? 0) === 0),
      ...(this.sums.passedOn === 0 ? ['lease passed on'] : []),
    ]
  }

  toString(): string {
    const counts = (each: Readonly<Record<string, number>>): string =>
      Object.entries(each)
        .sort(([a], [b]) => a.localeCompare(b))
        .map(([name, count]) => `  ${String(count).padStart(9)}  ${name}`)
        .join('\n')
    const { events, leases, passedOn, extensions, writesAccepted, writesRefused } = this.sums
    return [
      `${this.seeds} seeds, ${this.virtualHours.toFixed(2)} virtual hours, ${events} events`,
      `${leases} leases (${passedOn} passed on), ${extensions} extensions, ` +
        `${writesAccepted} writes accepted and ${writesRefused} refused by the fenced store`,
      `faults\n${counts(this.faults)}`,
      `replies of the masters\n${counts(this.replies)}`,
    ].join('\n')
  }
}

function addCounts(total: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(more)) total[name] = (total[name] ?? 0) + count
}
