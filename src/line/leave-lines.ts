/** Jobs that leave their lines otherwise than by running. */
import type { LineBackend } from './line-backend.ts'
import { lineScript } from './bullmq/composed-script.ts'

const skipScript = lineScript('skip')

const leaveLinesScript = lineScript('leave-lines')

const forgetScript = lineScript('forget-tenants')

/** Jobs that leave their lines in one call. */
const LIMIT = 1_000

/** A failed job lets its lines go on, and stays failed. @returns false where it held none. */
export async function skipJob(backend: LineBackend, jobId: string): Promise<boolean> {
  const args = [backend.toKey(''), jobId]
  return (await backend.runOn(skipScript, backend.toKey(jobId), args)) === 1
}

/** Makes all jobs that sleep ordinary waiting jobs. @returns how many they were. */
export async function leaveLines(backend: LineBackend): Promise<number> {
  let moved = 0
  let found: number
  do {
    const reply = await backend.run(leaveLinesScript, 'shares', [backend.toKey(''), LIMIT])
    const [sleepers, woken] = reply as readonly [number, number]
    found = sleepers
    moved += woken
  } while (found === LIMIT)
  await forgetTenants(backend)
  return moved
}

/** All jobs of the queue are gone. */
export async function forgetTenants(backend: LineBackend): Promise<void> {
  await backend.run(forgetScript, 'shares', [backend.toKey('')])
}
