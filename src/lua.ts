/**
 * A Lua file of this package as it runs in Redis: without its header, and with the files that it
 * includes.
 *
 * A script begins with a header, `--[[ … ]]`: what it does, KEYS, ARGV, what it returns, and what it
 * keeps. Where it says `--- @include "name"`, the text of that file of its folder stands. An
 * included file includes none.
 */
import { luaFile } from './lua-files.ts'

const HEADER = /^--\[\[[^]*?\]\]\n+/
const INCLUDE = /^ *--- @include "([\w-]+)"$/gm

/** @param path from `src/` on, without `.lua`: `line/lua/finish`. */
export function luaText(path: string): string {
  const folder = path.slice(0, path.lastIndexOf('/') + 1)
  return bodyOf(path).replace(INCLUDE, (_, name: string) => {
    const included = bodyOf(folder + name)
    if (included.search(INCLUDE) === -1) return included
    throw new Error(`${folder}${name}.lua is included, so it may include no file`)
  })
}

function bodyOf(path: string): string {
  return luaFile(`${path}.lua`).replace(HEADER, '').trimEnd()
}
