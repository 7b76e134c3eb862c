/** How a worker process comes to its end: a signal or an empty queue, then everything closed. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Queue, Worker } from 'bullmq'

type StopSignal = 'SIGINT' | 'SIGTERM'

const CLOSE_LIMIT_MS = 10_000
const BETWEEN_LOOKS_MS = 200

/** What must be closed at the end, last opened first. */
export class Closing {
  readonly #closers: (() => Promise<void> | void)[] = []

  add(close: () => Promise<void> | void): void {
    this.#closers.push(close)
  }

  async run(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close()
  }
}

export interface Stopping {
  /** The first signal that asks this process to stop. */
  readonly stopped: Promise<StopSignal>
  readonly signal: AbortSignal
  /** Gives the signals back to Node, so that a further one ends the process at once. */
  forget(): void
}

export function watchSignals(): Stopping {
  const stop = new AbortController()
  let forget = (): void => undefined
  const stopped = new Promise<StopSignal>((resolve) => {
    const onSignal = (signal: StopSignal): void => {
      forget()
      stop.abort()
      resolve(signal)
    }
    // A parent that is gone, however it ended, disconnects: then no process waits for this one.
    const onOrphaned = (): void => {
      onSignal('SIGTERM')
    }
    process.on('SIGINT', onSignal).on('SIGTERM', onSignal).on('disconnect', onOrphaned)
    process.channel?.unref()
    forget = () => {
      process.off('SIGINT', onSignal).off('SIGTERM', onSignal).off('disconnect', onOrphaned)
    }
  })
  return {
    stopped,
    signal: stop.signal,
    forget: () => {
      forget()
      stop.abort()
    },
  }
}

/** Resolves when the queue has no job left to run; later than that by a look at most. */
export async function untilDrained(
  queue: Queue,
  signal: AbortSignal,
): Promise<{ readonly failed: number }> {
  while (!signal.aborted) {
    const left = await queue.getJobCountByTypes('wait', 'prioritized', 'active', 'delayed')
    if (left === 0) break
    await delay(BETWEEN_LOOKS_MS)
  }
  return { failed: await queue.getFailedCount() }
}

/** Lets running jobs finish, within a limit: a job cut short here runs again elsewhere. */
export async function closeInTime(worker: Pick<Worker, 'close'>): Promise<void> {
  const limit = new AbortController()
  const late = delay(CLOSE_LIMIT_MS, undefined, { signal: limit.signal }).then(
    () => worker.close(true),
    () => undefined, // Closed in time.
  )
  await Promise.race([worker.close(), late])
  limit.abort()
}
