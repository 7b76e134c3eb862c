/** `npm run demo` in a child process, and what it found. */
import { runProgram } from './program.ts'

export const DEMO = 'workers/demo/main.ts'
export const DEMO_LIMIT_MS = 240_000

interface DemoResult {
  readonly right: boolean
  readonly jobsIn: number
  readonly jobsDone: number
  readonly duplicateEffects: readonly unknown[]
  readonly outOfTurnEffects: readonly unknown[]
  readonly wrongBalances: readonly unknown[]
  readonly staleWritesRefused: readonly unknown[]
  readonly interruptedJobRanAgain: boolean
  readonly faults: readonly { name: string; seen: readonly string[]; missing?: string }[]
  readonly problems: readonly string[]
}

interface DemoRun {
  readonly code: number | null
  readonly out: readonly string[]
  readonly err: readonly string[]
  readonly result: DemoResult
}

export async function demo(...args: readonly string[]): Promise<DemoRun> {
  const { code, out, err } = await runProgram(DEMO, ['--fast', '--json', ...args])
  if (out.length === 0) throw new Error(`The demo ended with ${code}: ${err.join('\n')}`)
  const result = JSON.parse(out.at(-1) ?? '') as DemoResult
  return { code, out, err, result }
}
