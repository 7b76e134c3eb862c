/** What a scrape asks about the lines of a worker's queue. */
import { systemClock, withinMs } from '../clock.ts'
import type { LineCensus } from '../telemetry/worker-source.ts'
import { lineScript } from './line-library.ts'
import type { LineRunner } from './line-runner.ts'

/** A scrape waits this long at most, and looks at this many lines for the longest. */
const LIMIT_MS = 500
const LINES = 1_000

/**
 * KEYS  1 sleeping-lines
 * ARGV  1 space · 2 slots · 3 delayed set of the queue · 4 the most lines · 5 base
 * Returns  lines in which jobs sleep, sleeping jobs of the queue, sleeping jobs of the longest
 * line, resources with limits, tenants with jobs that may start
 */
const censusBody = `
local longest = 0
for _, resource in ipairs(redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[4]) - 1)) do
  longest = math.max(longest, redis.call('ZCARD', lineKey(resource)) - SLOTS)
end
local asleep = redis.call('ZCOUNT', ARGV[3], string.format('%.0f', ASLEEP), '+inf')
return {redis.call('ZCARD', KEYS[1]), asleep, longest, redis.call('HLEN', SPACE .. 'limits'),
  redis.call('ZCARD', readyKey(ARGV[5]))}
`
const censusScript = lineScript('census', censusBody)

/** Undefined when the queue's Redis does not answer soon. */
export async function lineCensus(runner: LineRunner): Promise<LineCensus | undefined> {
  const args = [runner.toKey('delayed'), LINES, runner.toKey('')]
  try {
    const request = runner.run(censusScript, 'sleeping-lines', args)
    const reply = (await withinMs(systemClock, LIMIT_MS, request)) as number[] | undefined
    if (reply === undefined) return undefined
    const [lines = 0, parked = 0, longest = 0, limited = 0, tenants = 0] = reply
    return { lines, parked, longest, limited, tenants }
  } catch {
    return undefined // The queue's Redis is away: others report that.
  }
}
