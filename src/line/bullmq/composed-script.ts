/**
 * Runs BullMQ's own script text and ours as one Lua script. BullMQ's text becomes a function whose
 * `redis` we may replace, so that its reads and writes can be answered by our rules.
 *
 * KEYS are BullMQ's. ARGV[1] is a JSON array of our arguments, which our text sees as ARGV; what
 * follows it are BullMQ's.
 */
import { luaText } from '../../lua.ts'
import { bullmqScripts, type BullmqScript } from './bullmq-scripts.ts'

export interface ComposedScript {
  /** BullMQ's script whose place it takes. */
  readonly replaces: string
  /** The name under which it is registered with a client. */
  readonly command: string
  readonly numberOfKeys: number
  readonly lua: string
}

/** Changes with the text of our scripts: clients of two releases may share a connection. */
const REVISION = 7

interface Composition {
  /** Commands of BullMQ that the replaced `redis` looks at; without it, all. */
  readonly watched?: readonly string[]
  /** Tells two scripts apart that take the place of the same one. */
  readonly variant?: string
  /**
   * The file runs BullMQ's text for several jobs: `bullmqWith(redis)` returns a function of
   * `(KEYS, theirs)`.
   */
  readonly repeats?: boolean
}

/**
 * @param file in `lua/`: what it returns is the reply. It may call `bullmq(redis, KEYS, theirs)`.
 */
export function composedScript(
  replaces: string,
  file: string,
  { watched, variant = '', repeats = false }: Composition = {},
): ComposedScript {
  const { numberOfKeys, lua } = scriptOf(replaces)
  const text = watched === undefined ? lua : passing(lua, watched)
  return {
    replaces,
    command: `redlock:${REVISION}:${replaces}${variant}`,
    numberOfKeys,
    lua: [
      'local direct = redis.call',
      asFunction('bullmqPromote', scriptOf('promote').lua),
      repeats ? asRepeated('bullmqWith', text) : asFunction('bullmq', text),
      'local theirs = {unpack(ARGV, 2)}',
      'local ARGV = cjson.decode(ARGV[1])',
      luaText(`line/lua/${file}`),
    ].join('\n'),
  }
}

/** Commands that nothing looks at go to Redis without a call through the replaced `redis`. */
function passing(lua: string, watched: readonly string[]): string {
  return lua.replace(/\brcall\((?=\s*["'](\w+)["'])/g, (call, command: string) =>
    watched.includes(command) ? call : 'direct(',
  )
}

/**
 * A script of ours alone, with BullMQ's `promote` at hand. It is put together when it is first
 * needed: BullMQ has been checked by then.
 * @param file in `lua/`.
 */
export function lineScript(file: string): ComposedScript {
  return {
    ...ofOneKey(file),
    get lua() {
      return [
        asFunction('bullmqPromote', scriptOf('promote').lua),
        luaText(`line/lua/${file}`),
      ].join('\n')
    },
  }
}

/**
 * A script of ours that touches no job. Its ARGV begin with the space of our keys and the slots.
 * @param path from `src/` on.
 */
export function keyScript(path: string): ComposedScript {
  return { ...ofOneKey(path.slice(path.lastIndexOf('/') + 1)), lua: luaText(path) }
}

function ofOneKey(name: string): Omit<ComposedScript, 'lua'> {
  return { replaces: '', command: `redlock:${REVISION}:${name}`, numberOfKeys: 1 }
}

function scriptOf(name: string): BullmqScript {
  const script = bullmqScripts().get(name)
  if (script === undefined) throw new TypeError(`This BullMQ has no script \`${name}\``)
  return script
}

function asFunction(name: string, lua: string): string {
  return `local function ${name}(redis, KEYS, ARGV)\n${lua}\nend`
}

/**
 * The functions of the text are made once, not in every call, and what it unpacks is kept: several
 * jobs have the same options.
 */
function asRepeated(name: string, lua: string): string {
  const functions: string[] = []
  const rest = lua.replace(/^local (?:rcall = redis\.call$|function [^]*?^end$)/gm, (text) => {
    functions.push(text)
    return ''
  })
  return `local function ${name}(redis)
local unpacked = {}
local cmsgpack = {pack = cmsgpack.pack, unpack = function(packed)
  unpacked[packed] = unpacked[packed] or cmsgpack.unpack(packed)
  return unpacked[packed]
end}
${functions.join('\n')}
return function(KEYS, ARGV)
${rest}
end
end`
}
