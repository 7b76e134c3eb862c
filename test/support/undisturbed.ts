/**
 * For cases whose premise is that the machine keeps time: a lease is renewed, a worker is awake.
 * When the machine stands still for longer than that, such a case fails and shows nothing.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import type { AcquireOutcome, Lease } from '../../src/index.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'

export interface Undisturbed {
  /** A server that takes no part in the case. Its answers tell how long the machine stood still. */
  readonly bystander: { readonly host: string; readonly port: number }
  /** Clears up what a failed run left. Without it, each run clears up after itself. */
  readonly clear?: () => Promise<void>
  /** What the case bears. @defaultValue `50` */
  readonly stallMs?: number
}

const STALL_MS = 50
const RUNS = 5
const PING_EVERY_MS = 5

/** What no machine may do, however long it stands still. It is thrown at once. */
export class NeverExcused extends Error {}

/** @throws NeverExcused where a rival was granted a resource whose lease still counts as held. */
export function neverTwoHolders(lease: Lease, rival: AcquireOutcome): void {
  const leftMs = lease.remainingMs()
  if (rival.status === 'granted' && leftMs > 0) {
    throw new NeverExcused(`two holders: the first trusts its lease for another ${leftMs} ms`)
  }
}

/**
 * Runs the case again when it failed and the machine stood still meanwhile, up to five times. On a
 * machine that kept time the first failure is thrown.
 */
export async function undisturbed<T>(
  { bystander, clear, stallMs = STALL_MS }: Undisturbed,
  run: () => Promise<T>,
): Promise<T> {
  for (let runs = 1; ; runs++) {
    const watch = await watchStalls(bystander)
    try {
      return await run()
    } catch (error) {
      const stalledMs = Math.round(watch.longestMs())
      const isExcused = stalledMs >= stallMs && !(error instanceof NeverExcused)
      if (!isExcused || runs === RUNS) throw error
      console.log(`the machine stood still for ${stalledMs} ms: run ${runs} shows nothing`, error)
    } finally {
      await watch.end()
    }
    await clear?.()
  }
}

/** For files without a fleet: {@link undisturbed} beside a server of its own. */
export function useBystander(): <T>(run: () => Promise<T>) => Promise<T> {
  let bystander: TestServer | undefined
  beforeAll(async () => {
    bystander = await startServer({ name: 'bystander' })
  })
  afterAll(() => bystander?.close())
  return (run) => {
    if (bystander === undefined) throw new Error('the bystander is started in beforeAll')
    return undisturbed({ bystander }, run)
  }
}

interface StallWatch {
  /** The longest that an answer took, or takes. */
  longestMs(): number
  end(): Promise<void>
}

async function watchStalls({ host, port }: Undisturbed['bystander']): Promise<StallWatch> {
  const client = new Redis({ host, port })
  await client.ping()
  let longestMs = 0
  let since = performance.now()
  let watching = true
  const measure = (): void => {
    longestMs = Math.max(longestMs, performance.now() - since)
    since = performance.now()
  }
  const ping = async (): Promise<void> => {
    while (watching) {
      await client.ping()
      measure()
      await delay(PING_EVERY_MS)
    }
  }
  const pinging = ping()
  return {
    longestMs() {
      measure()
      return longestMs
    },
    async end() {
      watching = false
      await pinging
      await client.quit()
    },
  }
}
