import type { Lock, LockClient } from '../contender.ts'
import { quantiles } from '../../statistics.ts'
import type { Extensions, ExtensionsResult } from './calls.ts'
import { startMeter } from './meter.ts'

export async function runExtensions(
  client: LockClient,
  { ttlMs, leases, durationMs }: Extensions,
): Promise<ExtensionsResult> {
  const locks = await Promise.all(
    Array.from({ length: leases }, (_, index) => client.acquire(`extended${index}`, ttlMs)),
  )
  const extendMs: number[] = []
  let failed = 0
  const until = performance.now() + durationMs
  const extend = async (lock: Lock): Promise<void> => {
    while (performance.now() < until) {
      const startedAt = performance.now()
      try {
        await lock.extend()
        extendMs.push(performance.now() - startedAt)
      } catch {
        failed++
      }
    }
  }
  const read = startMeter()
  await Promise.all(locks.map(extend))
  const meter = read()
  await Promise.all(locks.map((lock) => lock.release()))
  return { ...meter, done: extendMs.length, failed, extendMs: quantiles(extendMs) }
}
