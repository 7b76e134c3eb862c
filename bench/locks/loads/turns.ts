import { setTimeout as delay } from 'node:timers/promises'
import type { LockClient } from '../contender.ts'
import { quantiles } from '../../statistics.ts'
import type { Turns, TurnsResult } from './calls.ts'
import { startMeter } from './meter.ts'

const RESOURCE = 'contended'

/** Each client is a contender of its own with its own connections, as in a process of its own. */
export async function runTurns(clients: readonly LockClient[], turns: Turns): Promise<TurnsResult> {
  const { ttlMs, holdMs, durationMs, waiters = 1 } = turns
  const contenders = clients.flatMap((client) => Array<LockClient>(waiters).fill(client))
  const waits = contenders.map((): number[] => [])
  const gaps: number[] = []
  let releasedAt: number | undefined
  let done = 0
  let failed = 0
  let inside = 0
  let overlaps = 0
  const until = performance.now() + durationMs
  const contend = async (client: LockClient, waitsOfOne: number[]): Promise<void> => {
    while (performance.now() < until) {
      const startedAt = performance.now()
      try {
        const lock = await client.acquire(RESOURCE, ttlMs)
        const grantedAt = performance.now()
        waitsOfOne.push(grantedAt - startedAt)
        if (releasedAt !== undefined) gaps.push(grantedAt - releasedAt)
        if (inside++ > 0) overlaps++
        if (holdMs > 0) await delay(holdMs)
        inside--
        releasedAt = performance.now()
        await lock.release()
        if (performance.now() < until) done++
      } catch {
        failed++
        waitsOfOne.push(performance.now() - startedAt) // In vain, but waited.
      }
    }
  }
  const read = startMeter()
  await Promise.all(contenders.map((client, index) => contend(client, waits[index] ?? [])))
  const { cpuMs } = read()
  return {
    ...{ done, failed, overlaps, cpuMs },
    waitMs: quantiles(waits.flat()),
    gapMs: quantiles(gaps),
    waitMsOf: waits.map((waitsOfOne) => quantiles(waitsOfOne).mean),
  }
}
