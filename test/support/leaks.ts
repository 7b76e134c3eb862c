/** Whether a test left something behind that keeps the process alive. */

import { setTimeout as delay } from 'node:timers/promises'

const BETWEEN_LOOKS_MS = 10

/** Timers and handles of a test; the test runner's own pipes and ports are not among them. */
const WATCHED = [
  'Timeout',
  'TCPSocketWrap',
  'TCPServerWrap',
  'TCPConnectWrap',
  'ProcessWrap',
  'PipeWrap',
] as const

export interface LeakWatch {
  /**
   * Resolves as soon as there is not more of anything than when the watch began.
   *
   * @throws Error naming what is left
   */
  assertNone(): Promise<void>
}

export interface LeakOptions {
  /**
   * How many timers are the test's right to leave. The baseline is not asked for these: at that
   * moment the test runner may have one of its own under way, which would hide a leaked one.
   *
   * @defaultValue `0`
   */
  readonly timers?: number
  /**
   * How long to look again: handles close a few turns of the event loop after they were asked to, and ioredis gives a
   * server 2 s to close its end.
   *
   * @defaultValue `5000`
   */
  readonly settleMs?: number
}

/**
 * Takes the present handles as the baseline. Begin at the top of a file, before any fixture.
 *
 * @example
 * ```ts
 * const leaks = watchLeaks()
 * afterAll(() => leaks.assertNone())
 * ```
 */
export function watchLeaks({ timers = 0, settleMs = 5_000 }: LeakOptions = {}): LeakWatch {
  const before = new Map(countHandles()).set('Timeout', timers)
  return {
    async assertNone() {
      const deadline = performance.now() + settleMs
      let left = surplus(before, countHandles())
      while (left.length > 0 && performance.now() < deadline) {
        await delay(BETWEEN_LOOKS_MS)
        left = surplus(before, countHandles())
      }
      if (left.length > 0) throw new Error(`Left behind: ${left.join(', ')}`)
    },
  }
}

function countHandles(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo()) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  return counts
}

function surplus(
  before: ReadonlyMap<string, number>,
  now: ReadonlyMap<string, number>,
): readonly string[] {
  return WATCHED.flatMap((kind) => {
    const more = (now.get(kind) ?? 0) - (before.get(kind) ?? 0)
    return more > 0 ? [`${more} ${kind}`] : []
  })
}
