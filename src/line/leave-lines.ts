/** Jobs that leave their lines otherwise than by running. */
import type { LineRunner } from './line-runner.ts'
import { lineScript } from './line-library.ts'

/**
 * A failed job that holds its lines leaves them, and stays among the failed ones.
 *
 * KEYS  1 job
 * ARGV  1 space · 2 slots · 3 base · 4 job id
 * Returns  1 it held them | 0
 */
const skipBody = `
local job = redis.call('HMGET', KEYS[1], 'redlock:lines', 'timestamp', 'redlock:holds')
if not (job[1] and job[3]) then return 0 end
redis.call('HDEL', KEYS[1], 'redlock:holds')
leave(ARGV[3], ARGV[4], job[1], job[2])
return 1
`
const skipScript = lineScript('skip', skipBody)

/**
 * Makes jobs that sleep ordinary waiting jobs, in their order. They lose their places and their
 * shares, so a plain worker can take it from there.
 *
 * KEYS  1 any · ARGV  1 space · 2 slots · 3 base · 4 the most jobs
 * Returns  sleepers that were looked at, jobs that were woken
 * Keeps: none is looked at twice. An id without a job is dropped.
 */
const leaveLinesBody = `
local base, from, most = ARGV[3], string.format('%.0f', ASLEEP), tonumber(ARGV[4])
local woken = 0
local sleepers = redis.call('ZRANGEBYSCORE', base .. 'delayed', from, '+inf', 'LIMIT', 0, most)
for _, id in ipairs(sleepers) do
  local job = redis.call('HMGET', base .. id, 'timestamp', 'priority', 'redlock:lines')
  local priority, lines = tonumber(job[2]) or 0, cjson.decode(job[3] or '[]')
  for _, resource in ipairs(lines) do
    redis.call('ZREM', lineKey(resource), placeOf(base, id, job[1]))
  end
  redis.call('HDEL', base .. id, 'redlock:share')
  local own = {jobKey = base .. id, base = base, id = id, lines = '[]', priority = priority}
  if job[1] and wake(own, false, '') then woken = woken + 1
  else redis.call('ZREM', base .. 'delayed', id) end
end
return {#sleepers, woken}
`
const leaveLinesScript = lineScript('leave-lines', leaveLinesBody)

/**
 * KEYS  1 any · ARGV  1 space · 2 slots · 3 base. All jobs of the queue are gone: so are its
 * tenants.
 */
const forgetBody = `
for _, tenant in ipairs(redis.call('ZRANGE', readyKey(ARGV[3]), 0, -1)) do
  redis.call('DEL', readyJobsKey(ARGV[3], tenant))
end
redis.call('DEL', readyKey(ARGV[3]), sharesKey(ARGV[3]))
`
const forgetScript = lineScript('forget', forgetBody)

/** Jobs that leave their lines in one call. */
const LIMIT = 1_000

/** A failed job lets its lines go on, and stays failed. @returns false where it held none. */
export async function skipJob(runner: LineRunner, jobId: string): Promise<boolean> {
  const args = [runner.toKey(''), jobId]
  return (await runner.runOn(skipScript, runner.toKey(jobId), args)) === 1
}

/** Makes all jobs that sleep ordinary waiting jobs. @returns how many they were. */
export async function leaveLines(runner: LineRunner): Promise<number> {
  let moved = 0
  let found: number
  do {
    const reply = await runner.run(leaveLinesScript, 'shares', [runner.toKey(''), LIMIT])
    const [sleepers, woken] = reply as readonly [number, number]
    found = sleepers
    moved += woken
  } while (found === LIMIT)
  await forgetTenants(runner)
  return moved
}

/** All jobs of the queue are gone. */
export async function forgetTenants(runner: LineRunner): Promise<void> {
  await runner.run(forgetScript, 'shares', [runner.toKey('')])
}
