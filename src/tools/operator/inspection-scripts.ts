/** What an operator asks of one server, as Lua: one moment of it. Nothing is changed. */
import { luaText } from '../../lua.ts'
import { defineScript, type Script } from '../../redlock/wire/script.ts'

/** `lua/enrolment.lua` */
export const enrolmentScript: Script = defineScript(
  'enrolment',
  luaText('tools/operator/lua/enrolment'),
)

/** `lua/leases.lua` */
export const leasesScript: Script = defineScript('leases', luaText('tools/operator/lua/leases'))

/** `lua/immortal.lua` */
export const immortalScript: Script = defineScript(
  'immortal',
  luaText('tools/operator/lua/immortal'),
)
