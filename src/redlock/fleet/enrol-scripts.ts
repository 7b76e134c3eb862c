/**
 * A server's enrolment, as Lua: whether it is the one the fleet knows, and whether it may grant.
 * How long a quarantine has lasted is counted by clients, on their monotonic clocks. The server has
 * only a wall clock, which may be set meanwhile.
 */
import { luaText } from '../../lua.ts'
import { defineScript, type Script } from '../../lua.ts'

const scriptOf = (name: string): Script => defineScript(name, luaText(`redlock/lua/${name}`))

export const enrolScript: Script = scriptOf('enrol')
export const waitedScript: Script = scriptOf('waited')
export const bootstrapScript: Script = scriptOf('bootstrap')
