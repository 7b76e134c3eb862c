/**
 * Looks, once a second, at lines in which jobs sleep: the backstop for a head that was removed
 * while no job of its line ran, for deadlines, and for a mark that is lost. One worker at a time
 * does it, for a bounded number of lines, so its cost does not grow with the waiting jobs.
 */
import { sleep, systemClock } from '../clock.ts'
import type { LineRunner } from './line-runner.ts'

const EVERY_MS = 1_000
/** Lines that one call takes. */
const LIMIT = 200
const MAX_SWEEPS = 500

/**
 * Sweeps until `signal` aborts.
 * @param settings of the worker, for others to compare with: see `settings-check.ts`.
 */
export async function keepSweeping(
  runner: LineRunner,
  settings: string,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<void> {
  const report = (error: unknown): void => {
    if (!signal.aborted) onError(error)
  }
  while (!signal.aborted) {
    await sleep(systemClock, EVERY_MS * (0.75 + systemClock.random() / 2), signal)
      .then(() => sweep(runner, { everyMs: Math.ceil(EVERY_MS * 0.7), settings }))
      .catch(report)
  }
}

/** Looks at all lines in which jobs sleep, now. */
export async function sweepAll(runner: LineRunner): Promise<void> {
  let before: string | undefined
  for (let tries = 0; tries < MAX_SWEEPS; tries++) {
    const [lines, sweepNumber] = await sweep(runner, { before })
    before ??= String(sweepNumber)
    if (lines < LIMIT) return
  }
}

async function sweep(
  runner: LineRunner,
  args: { everyMs?: number; before?: string | undefined; settings?: string },
): Promise<readonly [lines: number, sweepNumber: number]> {
  const reply = await runner.run('line/lua/sweep', { most: LIMIT, ...args })
  const [lines, , sweepNumber] = reply as [number, number, number]
  return [lines, sweepNumber]
}
