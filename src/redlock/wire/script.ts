import { createHash } from 'node:crypto'

/** A Lua script and the SHA-1 under which a server knows it once it is loaded. */
export interface Script {
  readonly name: string
  readonly lua: string
  readonly sha1: string
}

export function defineScript(name: string, lua: string): Script {
  return { name, lua, sha1: createHash('sha1').update(lua).digest('hex') }
}
