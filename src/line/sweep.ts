/**
 * Looks, once a second, at lines in which jobs sleep: the backstop for a head that was removed
 * while no job of its line ran, for deadlines, and for a mark that is lost. One worker at a time
 * does it, for a bounded number of lines, so its cost does not grow with the waiting jobs.
 */
import type { LineRunner } from './line-runner.ts'

/** How often one of the workers looks. */
export const SWEEP_MS = 1_000
/** Lines that one call takes. */
const LIMIT = 200
const MAX_SWEEPS = 500

/**
 * Looks, unless another worker did so a moment ago.
 * @param settings of the worker, for others to compare with: see `settings-check.ts`.
 */
export async function sweepOnce(runner: LineRunner, settings: string): Promise<void> {
  const everyMs = Math.ceil(SWEEP_MS * 0.7)
  await runner.run('line/lua/sweep', { most: LIMIT, everyMs, settings })
}

/** Looks at all lines in which jobs sleep, now. */
export async function sweepAll(runner: LineRunner): Promise<void> {
  let before: string | undefined
  for (let tries = 0; tries < MAX_SWEEPS; tries++) {
    const reply = await runner.run('line/lua/sweep', { most: LIMIT, before })
    const [lines, sweepNumber] = reply as readonly [number, number]
    before ??= String(sweepNumber)
    if (lines < LIMIT) return
  }
}
