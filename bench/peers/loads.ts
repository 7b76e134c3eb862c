/** The loads of the lock benchmark, inside the process of a library. */
import { setTimeout as delay } from 'node:timers/promises'
import { percentile } from '../rounds.ts'
import type { Client, Held } from './adapters.ts'

/** How long after the end an answer may still come. */
const GRACE_MS = 8_000
const RELEASED_AT_ONCE = 256

export type FlowResult = Awaited<ReturnType<typeof flow>>

/**
 * Acquire and release, again and again, by this number at once, each with separate resources.
 * Nothing but the counting happens between the library's calls.
 */
export async function flow(
  client: Client,
  load: Record<'ttlMs' | 'concurrency' | 'resources' | 'durationMs', number>,
) {
  const { ttlMs, concurrency, resources, durationMs } = load
  const acquireMs: number[] = []
  let done = 0
  let failed = 0
  let atWork = concurrency
  const cpu = process.cpuUsage()
  const begunAt = performance.now()
  const until = begunAt + durationMs
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
  const limit = new AbortController()
  await Promise.race([
    Promise.all(Array.from({ length: concurrency }, (_, first) => work(first))),
    delay(durationMs + GRACE_MS, undefined, { signal: limit.signal }).catch(() => undefined),
  ])
  const tookMs = performance.now() - begunAt
  const { user, system } = process.cpuUsage(cpu)
  limit.abort()
  return {
    perSecond: (done / tookMs) * 1_000,
    /** Not granted; or neither granted nor refused a while after the end. */
    missed: failed + atWork,
    /** For an acquire and its release. */
    clientUs: (user + system) / done,
    done,
    /** Of an acquire. */
    medianMs: part(acquireMs, 0.5),
    p99Ms: part(acquireMs, 0.99),
  }
}

/** This number of waiters want the same resource, again and again. */
export async function turns(
  client: Client,
  load: Record<'ttlMs' | 'holdMs' | 'durationMs' | 'waiters', number>,
) {
  const { ttlMs, holdMs, durationMs, waiters } = load
  const waits: number[] = []
  const gaps: number[] = []
  let releasedAt: number | undefined
  let done = 0
  let inside = 0
  let overlaps = 0
  const until = performance.now() + durationMs
  const contend = async (): Promise<void> => {
    while (performance.now() < until) {
      const startedAt = performance.now()
      try {
        const lock = await client.acquire('contended', ttlMs)
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
        waits.push(performance.now() - startedAt) // In vain, but waited.
      }
    }
  }
  await Promise.all(Array.from({ length: waiters }, contend))
  return {
    /** Turns that ended in time. */
    done,
    /** Moments in which two held it. */
    overlaps,
    longestMs: part(waits, 1),
    /** The median from the call that releases it to the next grant. */
    gapMs: part(gaps, 0.5),
  }
}

/** Of the last `hold`. */
let held: Held[] = []

/** Takes this number of leases and keeps them until `letGo`. */
export async function hold(
  client: Client,
  { ttlMs, leases, concurrency }: Record<'ttlMs' | 'leases' | 'concurrency', number>,
) {
  const locks = new Array<Held>(leases)
  let next = 0
  const before = heapBytes()
  const take = async (): Promise<void> => {
    while (next < leases) {
      const index = next++
      locks[index] = await client.acquire(`held${index}`, ttlMs)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, take))
  // Replies of the masters that were not waited for are still on their way.
  await delay(100)
  const heap = heapBytes() - before
  held = locks
  /** `lost` counts those that were lost when the memory was read. */
  return { heapBytes: heap / leases, lost: locks.filter((lock) => !lock.isHeld()).length }
}

export async function letGo(): Promise<void> {
  while (held.length > 0) {
    const some = held.splice(-RELEASED_AT_ONCE)
    await Promise.all(some.map((lock) => lock.release()))
  }
}

/** 0 without a sample. */
function part(samples: readonly number[], of: number): number {
  return samples.length === 0 ? 0 : percentile(samples, of)
}

function heapBytes(): number {
  // Twice: what the first collection lets go of may hold more.
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}
