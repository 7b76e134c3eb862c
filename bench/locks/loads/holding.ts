import type { Lock, LockClient } from '../contender.ts'
import type { Holding, HoldingResult } from './calls.ts'

/** Of the last `hold`. */
let held: Lock[] = []

export async function hold(client: LockClient, holding: Holding): Promise<HoldingResult> {
  const { leases, concurrency, ttlMs } = holding
  const locks = new Array<Lock>(leases)
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
  await new Promise((resolve) => setTimeout(resolve, 100))
  const after = heapBytes()
  held = locks
  return { heapBytes: (after - before) / leases, held: locks.every((lock) => lock.isHeld()) }
}

export async function letGo(): Promise<void> {
  const AT_ONCE = 256
  while (held.length > 0) {
    const some = held.splice(-AT_ONCE)
    await Promise.all(some.map((lock) => lock.release()))
  }
}

function heapBytes(): number {
  // Twice: what the first collection lets go of may hold more.
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}
