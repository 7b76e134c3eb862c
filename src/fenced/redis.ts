/** Redis commands that run together, or not at all where a later lease has written. */
import { StaleTokenError } from '../errors.ts'

/** A name and its arguments: `['HSET', 'account:a', 'balance', 10]`. */
export type RedisCommand = readonly [name: string, ...args: (string | number | Buffer)[]]

/** An ioredis client. */
export interface FencedRedisClient {
  /** Runs a script. */
  eval(
    script: string,
    numberOfKeys: number,
    ...args: (string | number | Buffer)[]
  ): Promise<unknown>
}

/**
 * KEYS 1 the largest token so far, and the keys of the commands.
 * ARGV 1 token, then for each command: how many words, and the words.
 * Returns {1, replies…}, or {0, the stored token} where the token is stale.
 * Tokens stay below 2^53, so that Lua compares them exactly.
 */
const SCRIPT = `
local stored = redis.call('GET', KEYS[1])
-- rule: stale-commands-do-not-run
if stored and tonumber(stored) > tonumber(ARGV[1]) then return {0, stored} end
redis.call('SET', KEYS[1], ARGV[1])
local replies, at = {1}, 2
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return replies`

/**
 * Runs `commands` as one script. The largest token is stored at `tokenKey`, which must never
 * expire; one such key may guard many keys. In a cluster all of them are of one slot.
 * @param keys every key that the commands use.
 * @returns the reply of each command. One that fails ends the script; those before it stay done.
 * @throws StaleTokenError when a later lease has written; then nothing ran.
 * @example
 * ```ts
 * const add = ['HINCRBY', 'account:a', 'balance', 10] as const
 * await fencedRedis(redis, lease, 'account:a:token', ['account:a'], [add])
 * ```
 */
export async function fencedRedis(
  redis: FencedRedisClient,
  lease: { readonly fencingToken: number },
  tokenKey: string,
  keys: readonly string[],
  commands: readonly RedisCommand[],
): Promise<readonly unknown[]> {
  const words = commands.flatMap((command) => [command.length, ...command])
  const all = [tokenKey, ...keys]
  const reply = await redis.eval(SCRIPT, all.length, ...all, lease.fencingToken, ...words)
  const [isDone, ...replies] = reply as readonly [number, ...unknown[]]
  if (isDone === 1) return replies
  throw new StaleTokenError(tokenKey, lease.fencingToken, Number(replies[0]))
}
