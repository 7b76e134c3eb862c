/** Whether a test left something behind that keeps the process alive. */

import { createHook } from 'node:async_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll } from 'vitest'

const BETWEEN_LOOKS_MS = 10

/** Handles of a test; the test runner's own pipes and ports are not among them. */
const WATCHED = [
  ...['TCPSocketWrap', 'TCPServerWrap', 'TCPConnectWrap', 'ProcessWrap', 'PipeWrap'],
] as const

/** Files that set timers of the test runner, or of the watch itself. */
const NOT_OF_THE_TEST = /node_modules\/(@vitest|vitest|birpc|tinypool)\/|support\/leaks\.ts/

export interface LeakWatch {
  /**
   * Resolves as soon as no timer of this watch is left and no more handles than when it began. It
   * is the end of the watch: a hook makes every promise of the process dearer, and files share one.
   *
   * @throws Error naming what is left, and where each timer was set
   */
  assertNone(): Promise<void>
}

export interface LeakOptions {
  /**
   * How long to look again: handles close a few turns of the event loop after they were asked to,
   * and ioredis gives a server 2 s to close its end.
   *
   * @defaultValue `5000`
   */
  readonly settleMs?: number
}

/**
 * Takes the present handles as the baseline. Begin at the top of a file, before any fixture.
 * Of timers it sees those that are set from now on: files share a process.
 *
 * @example
 * ```ts
 * const leaks = watchLeaks()
 * afterAll(() => leaks.assertNone())
 * ```
 */
export function watchLeaks({ settleMs = 5_000 }: LeakOptions = {}): LeakWatch {
  const before = countHandles()
  const timers = watchTimers()
  return {
    async assertNone() {
      const deadline = performance.now() + settleMs
      while (anyLeft() && performance.now() < deadline) await delay(BETWEEN_LOOKS_MS)
      if (anyLeft()) throw new Error(`Left behind: ${described()}`)
      timers.end()
    },
  }

  function anyLeft(): boolean {
    return timers.left().length > 0 || surplus(before, countHandles()).length > 0
  }

  function described(): string {
    const places = timers.left()
    const counts = surplus(before, countHandles())
    if (places.length > 0) counts.push(`${places.length} Timeout`)
    return [counts.join(', '), ...places].join('\n')
  }
}

/** Of a whole file. To be called before any fixture: hooks run last in, first out. */
export function assertNoLeaks(): void {
  const leaks = watchLeaks()
  afterAll(() => leaks.assertNone())
}

interface TimerWatch {
  /** Where each timer was set that is still to fire and keeps the process alive. */
  left(): readonly string[]
  end(): void
}

function watchTimers(): TimerWatch {
  const pending = new Map<number, { readonly timer: NodeJS.Timeout; readonly place: Error }>()
  const hook = createHook({
    init(id, type, _trigger, resource) {
      if (type !== 'Timeout') return
      pending.set(id, { timer: resource as NodeJS.Timeout, place: new Error() })
    },
    destroy(id) {
      pending.delete(id)
    },
  }).enable()
  return {
    left: () =>
      [...pending.values()].flatMap(({ timer, place }) => {
        if (!timer.hasRef()) return []
        const frames = (place.stack ?? '').split('\n').slice(1)
        const callers = frames.filter((frame) => !/\bnode:|new Promise/.test(frame)).slice(1)
        return NOT_OF_THE_TEST.test(callers[0] ?? '') ? [] : [callers.join('\n')]
      }),
    end() {
      hook.disable()
      pending.clear()
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

function surplus(before: ReadonlyMap<string, number>, now: ReadonlyMap<string, number>): string[] {
  return WATCHED.flatMap((kind) => {
    const more = (now.get(kind) ?? 0) - (before.get(kind) ?? 0)
    return more > 0 ? [`${more} ${kind}`] : []
  })
}
