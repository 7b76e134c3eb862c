/**
 * A Lua file of this package as it runs in Redis: without its comments and indents, and with the
 * files that it includes.
 *
 * A script begins with a header, `--[[ … ]]`: what it does, KEYS, ARGV, what it returns, and what
 * it keeps. Where it says `--- @include "name"`, the text of that file of its folder stands, or of
 * a file of another folder, named from `src/` on.
 *
 * Where it says `--- @module rules "name"`, `rules()` is what that file returns. It is made when a
 * script first needs it, because every function costs a call that makes it.
 */
import { createHash } from 'node:crypto'
import { luaFile } from './lua-files.ts'

/** A script and the SHA-1 under which a server knows it once it is loaded. */
export interface Script {
  readonly name: string
  readonly lua: string
  readonly sha1: string
}

export function defineScript(name: string, lua: string): Script {
  return { name, lua, sha1: createHash('sha1').update(lua).digest('hex') }
}

const HEADER = /^--\[\[[^]*?\]\]\n+/
/** A line that is a comment, or empty. */
const COMMENT = /^ *(?:--(?!- @(?:include|module|layer|bullmq)).*)?\n/gm
const INCLUDE = /^--- @include "([\w/-]+)"$/gm
const MODULE = /^--- @module (\w+) "([\w-]+)"$/gm

/** @param path from `src/` on, without `.lua`: `line/lua/finish`. */
export function luaText(path: string): string {
  const folder = path.slice(0, path.lastIndexOf('/') + 1)
  return bodyOf(path)
    .replace(INCLUDE, (_, name: string) => luaText(name.includes('/') ? name : folder + name))
    .replace(MODULE, (_, rules: string, name: string) =>
      [
        `local ${rules}Made`,
        `local function ${rules}()`,
        `if not ${rules}Made then ${rules}Made = (function()`,
        luaText(folder + name),
        `end)() end`,
        `return ${rules}Made`,
        `end`,
      ].join('\n'),
    )
}

/** A number or a text that a file defines for all: it stands there, and nowhere else. */
export function luaConstant(path: string, name: string): string {
  const [, , value] =
    new RegExp(`^local ${name} = ('?)(.*)\\1$`, 'm').exec(luaFile(`${path}.lua`)) ?? []
  if (value === undefined) throw new Error(`${path}.lua defines no ${name}`)
  return value
}

function bodyOf(path: string): string {
  const text = luaFile(`${path}.lua`).replace(HEADER, '').replace(COMMENT, '')
  return withTexts(text.replace(/^ +/gm, '').trimEnd())
}

/**
 * A number that is given to a command becomes a text here: Redis makes one of it every time, which
 * costs as much as a short command.
 */
export function withTexts(lua: string): string {
  return lua.replace(/\b(?:redis\.|r)?call\([^()]*\)/g, (call) =>
    call.replace(/(?<=, *)-?\d+(?= *[,)])/g, '"$&"'),
  )
}

/** Any text as a string of Lua: bytes that could end or change it are written as numbers. */
export function luaString(text: string): string {
  const bytes = [...Buffer.from(text)].map((byte) =>
    byte > 0x7e || byte < 0x20 || byte === 0x22 || byte === 0x5c
      ? `\\${String(byte).padStart(3, '0')}`
      : String.fromCharCode(byte),
  )
  return `"${bytes.join('')}"`
}
