/** Jobs that leave their lines otherwise than by running. */
import { ownScript } from './bullmq/composed-script.ts'
import type { LineRunner } from './line-runner.ts'

const skipScript = ownScript('line/lua/skip')

const leaveLinesScript = ownScript('line/lua/leave-lines')

/** Jobs that leave their lines in one call. */
const LIMIT = 1_000

/** A failed job lets its lines go on, and stays failed. @returns false where it held none. */
export async function skipJob(runner: LineRunner, jobId: string): Promise<boolean> {
  return (await runner.run(skipScript, { id: jobId })) === 1
}

/** Makes all jobs that sleep or are held ordinary waiting jobs. @returns how many they were. */
export async function leaveLines(runner: LineRunner): Promise<number> {
  let [from, moved] = [0, 0]
  let found: number
  do {
    const reply = await runner.run(leaveLinesScript, { from, most: LIMIT })
    const [seen, stay, woken] = reply as readonly [number, number, number]
    found = seen
    from += stay
    moved += woken
  } while (found === LIMIT)
  return moved
}
