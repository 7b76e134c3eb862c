/** What keeps the jobs of a queue waiting, for `doctor`. */
import { systemClock } from '../../clock.ts'
import type { Finding } from '../../lock/finding.ts'
import { ownScript } from '../../line/bullmq/composed-script.ts'
import type { LineRunner } from '../../line/line-runner.ts'
import { duration } from './duration.ts'
import { findingsOf } from './findings.ts'

/** Lines that are looked at. */
const LINES = 1_000
/** A job that has waited longer is told of. */
const LONG_MS = 60_000
/** For how long a full line is told of. */
const FULL_RECENTLY_MS = 600_000

const standingScript = ownScript('line/lua/standing')

/** As `line/lua/standing.lua` returns it. */
type Standing = readonly [
  waiting: number,
  oldestId: string,
  oldestSinceMs: number,
  held: number,
  heldResource: string,
  holder: string,
  failedReason: string,
  behind: number,
  fullAtMs: number,
  fullResource: string,
  refused: number,
  dropped: number,
]

/** @param standstill what keeps every job of the queue from starting, in a sentence. */
export async function checkJobs(
  runner: LineRunner,
  standstill: () => Promise<string | undefined>,
): Promise<readonly Finding[]> {
  const queue = runner.queueName
  const reply = (await runner.run(standingScript, { most: LINES })) as Standing
  const [waiting, oldestId, oldestSinceMs, held, heldResource, holder, failedReason, behind] = reply
  const [fullAtMs, fullResource, refused, dropped] = reply.slice(8) as [
    ...[number, string, number, number],
  ]
  const stands = waiting === 0 ? undefined : await standstill()
  return findingsOf(`queue ${queue}`, (report) => {
    const ageMs = oldestId === '' ? 0 : systemClock.wallNow() - oldestSinceMs
    const oldest = `job ${oldestId} has waited for ${duration(Math.max(0, ageMs))}`
    if (stands !== undefined) {
      const fix = stands.includes('paused') ? 'resume it: `queue.resume()`' : 'start a worker of it'
      report('warning', 'queue-stands', `${waiting} jobs wait, ${oldest}: ${stands}`, fix)
    } else if (ageMs > LONG_MS) {
      const fix = `see why: bullmq-redlock why ${queue} ${oldestId}`
      report('note', 'long-wait', `${waiting} jobs wait, and ${oldest}`, fix)
    }
    if (held > 0) {
      const fact =
        `failed jobs hold ${held} lines; ${behind} jobs wait behind job ${holder} of ` +
        `\`${heldResource}\`, which failed: ${failedReason}`
      const fix = `bullmq-redlock retry ${queue} ${holder}, or skip ${queue} ${holder}`
      report('warning', 'line-held', fact, fix)
    }
    if (systemClock.wallNow() - fullAtMs <= FULL_RECENTLY_MS) {
      const fact =
        `the line of \`${fullResource}\` was full at ${new Date(fullAtMs).toISOString()}; ` +
        `${refused} jobs were refused and ${dropped} dropped until now`
      const fix = `see what it waits for (inspect ${fullResource}), or raise \`maxLength\` of the LockedQueue`
      report('warning', 'line-full', fact, fix)
    }
  })
}
