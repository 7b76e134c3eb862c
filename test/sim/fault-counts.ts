/**
 * What the simulated world did to the lock. A run in which one of these never happened proves
 * nothing about it.
 */
export const FAULTS = [
  ...['request lost', 'reply lost', 'delayed past the deadline', 'late on an old connection'],
  ...['duplicated', 'connection broken', 'partition', 'cut off from a minority'],
  ...['held up at a bad moment', 'master crashed, all kept', 'master crashed, last second lost'],
  ...['master crashed, nothing kept', 'master flushed', 'master frozen', 'client paused'],
  ...['client suspended', 'client crashed', 'client closed while holding'],
  ...['clock ahead of the fleet', 'drifting clocks', 'clock behind the fleet'],
  ...['client started late', 'two fleets on the same servers'],
] as const

/** Only where clocks are insane. */
export const CLOCK_FAULTS = [
  'client clock stepped',
  'master clock stepped',
  'master rebooted with a wrong clock',
] as const

export type Fault = (typeof FAULTS)[number] | (typeof CLOCK_FAULTS)[number]

export class FaultCounts {
  readonly counts = new Map<Fault, number>()

  add(fault: Fault): void {
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1)
  }

  of(fault: Fault): number {
    return this.counts.get(fault) ?? 0
  }
}
