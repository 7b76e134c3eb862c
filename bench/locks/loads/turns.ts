import { setTimeout as delay } from 'node:timers/promises'
import type { LockClient } from '../contender.ts'
import { quantiles } from '../../statistics.ts'
import type { Turns, TurnsResult } from './calls.ts'
import { startMeter } from './meter.ts'

const RESOURCE = 'contended'

/** Each client is a contender of its own with its own connections, as in a process of its own. */
export async function runTurns(clients: readonly LockClient[], turns: Turns): Promise<TurnsResult> {
  const { ttlMs, holdMs, durationMs } = turns
  const waits = clients.map((): number[] => [])
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
        waitsOfOne.push(performance.now() - startedAt)
        if (inside++ > 0) overlaps++
        if (holdMs > 0) await delay(holdMs)
        inside--
        await lock.release()
        if (performance.now() < until) done++
      } catch {
        failed++
        waitsOfOne.push(performance.now() - startedAt) // In vain, but waited.
      }
    }
  }
  const read = startMeter()
  await Promise.all(clients.map((client, index) => contend(client, waits[index] ?? [])))
  const { cpuMs } = read()
  return {
    ...{ done, failed, overlaps, cpuMs },
    waitMs: quantiles(waits.flat()),
    waitMsOf: waits.map((waitsOfOne) => quantiles(waitsOfOne).mean),
  }
}
