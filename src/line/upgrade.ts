/**
 * Takes over the places that release 0.1 has written. Its workers must have stopped: they would not
 * wake a job that sleeps as it does today. Done before the first job is added or fetched.
 */
import { keyScript, type ComposedScript } from './bullmq/composed-script.ts'
import { lineScript } from './line-library.ts'
import type { QueueName } from './settings-check.ts'

/** KEYS  1 any · ARGV  3 another. Returns  how many of them exist */
const existScript = keyScript(
  'exist',
  `return redis.call('EXISTS', KEYS[1]) + redis.call('EXISTS', ARGV[3])`,
)

/**
 * Moves the places of a line that release 0.1 has written to where they are now, in their order.
 * Its places were tickets `[prefix, queue, id]`, and a hash told which of their jobs slept.
 *
 * KEYS  1 line of release 0.1
 * ARGV  1 space · 2 slots · 3 resource · 4 parked hash of release 0.1
 * Returns  places moved
 */
const upgradeBody = `
local resource, parked, moved = ARGV[3], ARGV[4], 0
for _, ticket in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local isTicket, at = pcall(cjson.decode, ticket)
  local base = isTicket and type(at) == 'table' and #at == 3 and at[1] .. ':' .. at[2] .. ':'
  local jobKey = base and base .. at[3]
  local job = base and redis.call('HMGET', jobKey, 'timestamp', 'finishedOn', 'redlock:lines', 'opts')
  if job and job[1] and not job[2] then
    local seq, lines, known = nextSeq(), cjson.decode(job[3] or '[]'), false
    for _, line in ipairs(lines) do known = known or line == resource end
    if not known then lines[#lines + 1] = resource end
    redis.call('ZADD', lineKey(resource), 'NX', seq, placeOf(base, at[3], job[1]))
    redis.call('HSET', jobKey, 'redlock:lines', cjson.encode(lines))
    local asleep = redis.call('HGET', parked, ticket)
    if asleep and redis.call('ZSCORE', base .. 'delayed', at[3]) then
      local priority, opts = tonumber(string.match(asleep, '^%d+')) or 0, cjson.decode(job[4])
      if (opts['delay'] or 0) >= 600000 and opts['delay'] <= 660000 then
        opts['delay'], opts['priority'] = nil, priority > 0 and priority or nil
      end
      redis.call('HSET', jobKey, 'delay', ASLEEP_DELAY, 'priority', priority, 'opts', cjson.encode(opts))
      redis.call('ZADD', base .. 'delayed', 'XX', asleepScore(seq, priority), at[3])
      redis.call('ZADD', SPACE .. 'sleeping-lines', 'NX', seq, resource)
    end
    moved = moved + 1
  end
end
redis.call('DEL', KEYS[1], parked)
return moved
`
const upgradeScript = lineScript('upgrade', upgradeBody)

export interface UpgradeClient {
  scan(
    cursor: string,
    options: { readonly MATCH: string; readonly COUNT: number },
  ): Promise<readonly [string, readonly string[]]>
  del(...keys: string[]): Promise<number>
}

const KEYS_PER_PAGE = 1_000

/** @param run runs a script whose first key is given, with its own arguments. */
export async function upgradeLines(
  client: UpgradeClient,
  namespace: string,
  { prefix, queue }: QueueName,
  run: (script: ComposedScript, key: string, args: readonly string[]) => Promise<unknown>,
): Promise<void> {
  // Release 0.1 lists lines in which jobs sleep, and what its processes agree on.
  const signs = [`${namespace}:lines`, `redlock:terms:${prefix}:${queue}`] as const
  if ((await run(existScript, signs[0], [signs[1]])) === 0) return
  const [before, after] = [`${namespace}:{`, '}:line']
  let cursor = '0'
  do {
    const pattern = `${before.replace(/[[\]*?\\]/g, '\\$&')}*${after}`
    const [next, keys] = await client.scan(cursor, { MATCH: pattern, COUNT: KEYS_PER_PAGE })
    for (const line of keys) {
      const resource = line.slice(before.length, -after.length)
      await run(upgradeScript, line, [resource, `${before}${resource}}:parked`])
    }
    cursor = next
  } while (cursor !== '0')
  await client.del(...signs)
}
