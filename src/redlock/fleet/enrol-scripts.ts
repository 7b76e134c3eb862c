/**
 * A server's enrolment, as Lua: whether it is the one the fleet knows, and whether it may grant.
 * How long a quarantine has lasted is counted by clients, on their monotonic clocks. The server has
 * only a wall clock, which may be set meanwhile.
 */
import { luaText } from '../../lua.ts'
import { defineScript, type Script } from '../wire/script.ts'

/** `lua/enrol.lua` */
export const enrolScript: Script = defineScript('enrol', luaText('redlock/lua/enrol'))

/** `lua/waited.lua` */
export const waitedScript: Script = defineScript('waited', luaText('redlock/lua/waited'))

/** `lua/close.lua` */
export const closeScript: Script = defineScript('close', luaText('redlock/lua/close'))

/** `lua/open.lua` */
export const openScript: Script = defineScript('open', luaText('redlock/lua/open'))

/** `lua/retire.lua` */
export const retireScript: Script = defineScript('retire', luaText('redlock/lua/retire'))

/** `lua/bootstrap.lua` */
export const bootstrapScript: Script = defineScript('bootstrap', luaText('redlock/lua/bootstrap'))
