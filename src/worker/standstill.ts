/** What keeps every job of a queue from starting, and what to do. */
import type { LineRunner } from '../line/line-runner.ts'

export interface Standstill {
  /** A sentence. */
  readonly fact: string
  readonly fix: string
}

export function inWords({ fact, fix }: Standstill): string {
  return `${fact} To go on: ${fix}`
}

/** Undefined where nothing does. */
export function standstillOf(
  queue: string,
  isPaused: boolean,
  hasWorkers: boolean,
): Standstill | undefined {
  if (isPaused) return { fact: `Queue \`${queue}\` is paused.`, fix: 'call `queue.resume()`' }
  if (hasWorkers) return undefined
  return { fact: `No worker of queue \`${queue}\` is connected.`, fix: 'start one' }
}

/** What a job waits for that only its queue and its workers keep from starting. */
export async function startIn(lines: LineRunner): Promise<string> {
  const [gate, count] = (await lines.run('line/lua/queue-gate', {})) as readonly [string, number]
  const anew = `which counts anew in ${count} ms`
  if (gate === 'concurrency') return `the global concurrency of its queue: ${count} may run`
  if (gate === 'rate') return `the global rate limit of its queue, ${anew}`
  return `a free worker${gate === '' ? '' : `, or for the \`limiter\` of its workers, ${anew}`}`
}
