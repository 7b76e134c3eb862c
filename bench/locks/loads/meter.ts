/** Time and processor time of the part that is measured. */

export interface Meter {
  readonly tookMs: number
  readonly cpuMs: number
}

export function startMeter(): () => Meter {
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  return () => {
    const tookMs = performance.now() - startedAt
    const { user, system } = process.cpuUsage(cpu)
    return { tookMs, cpuMs: (user + system) / 1_000 }
  }
}
