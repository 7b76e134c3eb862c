/**
 * A Lua file of this package as it runs in Redis: without its comments and indents, and with the
 * files that it includes.
 *
 * A script begins with a header, `--[[ … ]]`: what it does, KEYS, ARGV, what it returns, and what
 * it keeps. Where it says `--- @include "name"`, the text of that file of its folder stands, or of
 * a file of another folder, named from `src/` on.
 *
 * Where it says `--- @modules a b`, `rules('a')` is what the file `a` of its folder returns. It is
 * made when a script first needs it: every function costs a call that makes it. So one function
 * makes all of them. It stands where the last of them are named.
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
const COMMENT = /^ *(?:--(?!- @(?:include|modules|layer|bullmq)).*)?\n/gm
const INCLUDE = /^--- @include "([\w/-]+)"$/gm
const MODULES = /^--- @modules (.*)\n?/gm

/** @param path from `src/` on, without `.lua`: `line/lua/finish`. */
export function luaText(path: string): string {
  const text = included(path)
  const modules = [...text.matchAll(MODULES)].flatMap(([, paths = '']) => paths.split(' '))
  let left = [...text.matchAll(MODULES)].length
  return text.replace(MODULES, () => (--left === 0 ? makerOf(modules) : ''))
}

function included(path: string): string {
  const folder = path.slice(0, path.lastIndexOf('/') + 1)
  return bodyOf(path)
    .replace(INCLUDE, (_, name: string) => included(name.includes('/') ? name : folder + name))
    .replace(MODULES, (whole, names: string) =>
      names.includes('/') ? whole : `--- @modules ${names.replace(/\S+/g, `${folder}$&`)}\n`,
    )
}

function makerOf(modules: readonly string[]): string {
  const made = modules.map(
    (path) =>
      `if which == '${path.slice(path.lastIndexOf('/') + 1)}' then\n${included(path)}\nend\n`,
  )
  return `local made
function rules(which)
made = made or {}
made[which] = made[which] or (function()
${made.join('')}end)()
return made[which]
end
`
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
  return lua.replace(/\b(?:redis\.|r)?call\((?:[^()]|\([^(),]*\))*\)/g, (call) =>
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
