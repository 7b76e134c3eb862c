import { setTimeout as delay } from 'node:timers/promises'
import type { LockClient } from '../contender.ts'
import { quantiles } from '../../statistics.ts'
import type { Turns, TurnsResult } from './calls.ts'
import { startMeter } from './meter.ts'

const RESOURCE = 'contended'

export async function runTurns(client: LockClient, turns: Turns): Promise<TurnsResult> {
  const { ttlMs, holdMs, durationMs, waiters } = turns
  const waits: number[] = []
  const gaps: number[] = []
  let releasedAt: number | undefined
  let done = 0
  let failed = 0
  let inside = 0
  let overlaps = 0
  const until = performance.now() + durationMs
  const contend = async (): Promise<void> => {
    while (performance.now() < until) {
      const startedAt = performance.now()
      try {
        const lock = await client.acquire(RESOURCE, ttlMs)
        const grantedAt = performance.now()
        waits.push(grantedAt - startedAt)
        if (releasedAt !== undefined) gaps.push(grantedAt - releasedAt)
        if (inside++ > 0) overlaps++
        await delay(holdMs)
        inside--
        releasedAt = performance.now()
        await lock.release()
        if (performance.now() < until) done++
      } catch {
        failed++
        waits.push(performance.now() - startedAt) // In vain, but waited.
      }
    }
  }
  const read = startMeter()
  await Promise.all(Array.from({ length: waiters }, contend))
  const { cpuMs } = read()
  return {
    ...{ done, failed, overlaps, cpuMs },
    waitMs: quantiles(waits),
    gapMs: quantiles(gaps),
  }
}
