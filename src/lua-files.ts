/** The Lua files of this package. The build replaces this module by one that has their texts. */
import { readFileSync } from 'node:fs'

/** @param path from `src/` on. */
export function luaFile(path: string): string {
  return readFileSync(new URL(path, import.meta.url), 'utf8')
}
