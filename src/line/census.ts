/** What a scrape asks about the lines of a worker's queue. */
import { systemClock, withinMs } from '../clock.ts'
import type { LineCensus } from '../channel.ts'
import { ownScript } from './bullmq/composed-script.ts'
import type { LineRunner } from './line-runner.ts'

/** A scrape waits this long at most, and looks at this many lines for the longest. */
const LIMIT_MS = 500
const LINES = 1_000

const censusScript = ownScript('line/lua/census')

/** Undefined when the queue's Redis does not answer soon. */
export async function lineCensus(runner: LineRunner): Promise<LineCensus | undefined> {
  try {
    const request = runner.run(censusScript, { most: LINES })
    const reply = (await withinMs(systemClock, LIMIT_MS, request)) as number[] | undefined
    if (reply === undefined) return undefined
    const [lines = 0, parked = 0, longest = 0, limited = 0, tenants = 0, ...full] = reply
    const [refused = 0, dropped = 0, runnable = 0, oldestMs = 0] = full
    return { lines, parked, longest, limited, tenants, refused, dropped, runnable, oldestMs }
  } catch {
    return undefined // The queue's Redis is away: others report that.
  }
}
