import { setTimeout as delay } from 'node:timers/promises'
import type { LockClient } from '../contender.ts'
import { quantiles } from '../../statistics.ts'
import type { Flow, FlowResult } from './calls.ts'
import { startMeter } from './meter.ts'

/** How long after the end an answer may still come. */
const GRACE_MS = 8_000

/**
 * `concurrency` workers on one client. Nothing but the counting happens between the library's
 * calls.
 */
export async function runFlow(client: LockClient, flow: Flow): Promise<FlowResult> {
  const { ttlMs, concurrency, resources, durationMs } = flow
  const acquireMs: number[] = []
  let done = 0
  let failed = 0
  let atWork = concurrency
  const until = performance.now() + durationMs
  const work = async (first: number): Promise<void> => {
    for (let index = first; performance.now() < until; index += concurrency) {
      const startedAt = performance.now()
      try {
        const lock = await client.acquire(`r${index % resources}`, ttlMs)
        acquireMs.push(performance.now() - startedAt)
        await lock.release()
        done++
      } catch {
        failed++ // Counted: what it was is the business of compare:safety.
      }
    }
    atWork--
  }
  const read = startMeter()
  const limit = new AbortController()
  await Promise.race([
    Promise.all(Array.from({ length: concurrency }, (_, first) => work(first))),
    delay(durationMs + GRACE_MS, undefined, { signal: limit.signal }).catch(() => undefined),
  ])
  const meter = read()
  limit.abort()
  return { ...meter, done, failed, stuck: atWork, acquireMs: quantiles(acquireMs) }
}
