/** The numbers of a sleeping job, which `lua/keys.lua` and `lua/shares.lua` define. */
import { luaConstant } from '../lua.ts'

/** What a sleeping job's hash has for `delay`. */
export const ASLEEP_DELAY_MS: number = Number(luaConstant('line/lua/keys', 'ASLEEP_DELAY'))
/** The first score of sleeping jobs in `delayed`. */
export const ASLEEP: string = luaConstant('line/lua/keys', 'ASLEEP')
/** The field of BullMQ's `meta` hash that says how far tenants are served. */
export const VIRTUAL_TIME: string = luaConstant('line/lua/keys', 'TIME_FIELD')
