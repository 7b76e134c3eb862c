/** An episode and its verdict. Where the machine stood still, times say nothing: it runs again. */
import { runEpisode } from './episode.ts'
import type { History } from './history.ts'
import { judge, type Violation } from './oracle.ts'
import type { Plan } from './plan.ts'
import type { World } from './world.ts'

export interface Judged {
  readonly history: History
  readonly violations: readonly Violation[]
}

const STOOD_STILL_MS = 200
const TRIES = 3
/** Whatever the machine does, these hold. */
const ALWAYS: ReadonlySet<string> = new Set([
  ...['one at a time', 'tokens increase', 'results are of the job', 'steps are of the job'],
  ...['a refused job is not there', 'no job is lost'],
])

/** Of those that no stalled machine explains. */
export function areSerious(violations: readonly Violation[]): boolean {
  return violations.some(({ rule }) => ALWAYS.has(rule))
}

export async function judgedEpisode(world: World, plan: Plan): Promise<Judged> {
  for (let attempt = 1; ; attempt += 1) {
    const judged = verdictOf(await runEpisode(world, plan))
    const { history, violations } = judged
    const isDisturbed = history.lagMs > STOOD_STILL_MS && !areSerious(violations)
    if (violations.length === 0 || !isDisturbed || attempt === TRIES) return judged
  }
}

export function verdictOf(history: History): Judged {
  return { history, violations: judge(history) }
}
