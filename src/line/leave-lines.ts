/** Jobs that leave their lines otherwise than by running. */
import type { LineRunner } from './line-runner.ts'

/** Jobs that leave their lines in one call. */
const LIMIT = 1_000

/** A failed job lets its lines go on, and stays failed. @returns false where it held none. */
export async function skipJob(runner: LineRunner, jobId: string): Promise<boolean> {
  return (await runner.run('line/lua/skip', { id: jobId })) === 1
}

/** Makes all jobs that sleep or are held ordinary waiting jobs. @returns how many they were. */
export async function leaveLines(runner: LineRunner): Promise<number> {
  let [from, moved] = [0, 0]
  let found: number
  do {
    const reply = await runner.run('line/lua/leave-lines', { from, most: LIMIT })
    const [seen, stay, woken] = reply as readonly [number, number, number]
    found = seen
    from += stay
    moved += woken
  } while (found === LIMIT)
  return moved
}
