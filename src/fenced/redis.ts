/** Redis commands that run together, or not at all where a later lease has written. */
import { StaleTokenError } from '../lock-errors.ts'
import { luaText } from '../lua.ts'
import { integerOption, refuse } from '../options.ts'
import { tokenOf } from './token.ts'

/** A name and its arguments: `['HSET', 'account:a', 'balance', 10]`. */
export type RedisCommand = readonly [name: string, ...args: (string | number | Buffer)[]]

interface Prefix {
  readonly keyPrefix?: string | undefined
}

/** An ioredis client without a `keyPrefix`. */
export interface FencedRedisClient {
  /** Of the client. */
  readonly options?: Prefix & { readonly redisOptions?: Prefix | undefined }
  /** Runs a script. */
  eval(
    script: string,
    numberOfKeys: number,
    ...args: (string | number | Buffer)[]
  ): Promise<unknown>
}

const SCRIPT = luaText('fenced/lua/fenced')
/** A script passes fewer than 8 000 words to a command. It fails when its token is stored. */
const MAX_WORDS = 7_000

/**
 * Runs `commands` as one script. The largest token is stored at `tokenKey`, which must never
 * expire; one such key may guard many keys. In a cluster all of them are of one slot.
 * @param keys every key that the commands use.
 * @returns the reply of each command. One that fails ends the script; those before it stay done.
 * @throws StaleTokenError when a later lease has written; then nothing ran. TypeError for a client
 * with a `keyPrefix`, and for a command of more than 7 000 words.
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
  const prefix = redis.options?.keyPrefix ?? redis.options?.redisOptions?.keyPrefix
  // It would stand before the names of keys, and not before those in the commands.
  // rule: fenced-commands-have-their-own-keys
  if (prefix) refuse('redis', 'a client without `keyPrefix`: write whole names of keys', prefix)
  const token = tokenOf(lease)
  for (const [nr, { length }] of commands.entries()) {
    // rule: fenced-command-fits-into-its-script
    integerOption(`commands[${nr}].length`, length, 1, MAX_WORDS)
  }
  const words = commands.flatMap((command) => [command.length, ...command])
  const all = [tokenKey, ...keys]
  const reply = await redis.eval(SCRIPT, all.length, ...all, token, ...words)
  const [isDone, ...replies] = reply as readonly [number, ...unknown[]]
  if (isDone === 1) return replies
  throw new StaleTokenError(tokenKey, token, Number(replies[0]))
}
