/** How scripts are run on the keys of a queue, and what `lua/keys.lua` says of these. */
import type { RedisQueueBackend } from 'bullmq'
import { luaConstant } from '../lua.ts'

/**
 * What a script of ours is given, by name, as one text of JSON. What is undefined is absent. Those
 * of `lua/keys.lua` are in all.
 */
export type Arguments = Readonly<Record<string, unknown>>

export interface LineRunner {
  /** Of the queue. */
  readonly name: string
  /** @param path of a script of ours, from `src/` on. */
  run(path: string, args: Arguments): Promise<unknown>
  /** What BullMQ's keys of the queue begin with. */
  readonly base: string
}

/** A client of the queue's Redis. */
export type Client = Awaited<RedisQueueBackend['connection']['client']>

/** What a sleeping job's hash has for `delay`. */
export const ASLEEP_DELAY_MS: number = Number(luaConstant('line/lua/keys', 'ASLEEP_DELAY'))
/** The first score of sleeping jobs in `delayed`. */
export const ASLEEP: string = luaConstant('line/lua/keys', 'ASLEEP')
/** The field of BullMQ's `meta` hash that says how far tenants are served: see `lua/shares.lua`. */
export const VIRTUAL_TIME: string = luaConstant('line/lua/keys', 'TIME_FIELD')

/**
 * As `lua/keys.lua` names it.
 * @param base what BullMQ's keys of the queue begin with.
 */
export function keyIn(base: string, key: string): string {
  return `${base}redlock:::${key}`
}

/**
 * The last key of every script. It is never there. While a slot moves between nodes of a cluster, a
 * node lets a script with such a key try again: else it would run with half of the queue's keys.
 */
export function absentKeyIn(base: string): string {
  // rule: no-script-runs-while-its-slot-moves
  return keyIn(base, 'absent')
}
