/** One way in which a lock can go wrong, and what it costs a library to meet it. */
import type { Acquired, RemoteClient } from '../peers/remote-client.ts'
import type { Bench } from './bench.ts'

export interface Cell {
  readonly verdict: 'pass' | 'FAIL' | 'n/a'
  /** One line with what was measured. */
  readonly evidence: string
}

export interface Hazard {
  /** What a lock must do, as a row's heading. */
  readonly title: string
  /** What happens to the lock, in a sentence. */
  readonly scenario: string
  run(bench: Bench): Promise<Cell>
}

/**
 * Not what the libraries' documentation shows, but what their users can do: a limit on every
 * command of the connection.
 */
const TUNED = { commandTimeoutMs: 200 }

export const pass = (evidence: string): Cell => ({ verdict: 'pass', evidence })
export const fail = (evidence: string): Cell => ({ verdict: 'FAIL', evidence })
export const notApplicable = (evidence: string): Cell => ({ verdict: 'n/a', evidence })
/** Pass or fail. */
export const verdict = (isPassed: boolean, evidence: string): Cell =>
  isPassed ? pass(evidence) : fail(evidence)

/** A row that fails is measured again with {@link TUNED}, and says what came of it. */
export async function alsoTuned(
  bench: Bench,
  waitMs: number,
  measure: (client: RemoteClient, resource: string) => Promise<Cell>,
): Promise<Cell> {
  const first = await measure(await bench.client({ waitMs }), 'r')
  if (first.verdict !== 'FAIL') return first
  await bench.masters.pass()
  const tuned = await measure(await bench.client({ waitMs, ...TUNED }), 'r2')
  const words = `with ioredis commandTimeout ${TUNED.commandTimeoutMs}`
  return fail(`${first.evidence} (${words}: ${tuned.evidence})`)
}

export function milliseconds(ms: number): string {
  const magnitude = Math.abs(ms)
  if (magnitude >= 1_000) return `${(ms / 1_000).toFixed(1)} s`
  return `${magnitude < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`
}

export function outcomeOf(acquired: Acquired): string {
  if (acquired.status === 'pending') return `no answer in ${milliseconds(acquired.limitMs)}`
  const what = acquired.status === 'held' ? 'granted' : 'refused'
  return `${what} after ${milliseconds(acquired.tookMs)}`
}
