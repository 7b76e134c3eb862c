/**
 * Runs BullMQ's own script text and ours as one Lua script. BullMQ's text becomes a function whose
 * `redis` we may replace, so that its reads and writes can be answered by our rules.
 *
 * KEYS are BullMQ's. The last of ARGV has our arguments as JSON, which our text sees as ARGV, by
 * name; those before it are BullMQ's (`theirs`).
 */
import { luaText, withTexts } from '../../lua.ts'
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
const REVISION = 10

const COMMENT = /^ *--(?:\[\[[^]*?\]\]|.*) *\n/gm
const FUNCTION = /^local (?:rcall = redis\.call$|function (\w+)[^]*?^end$)/gm
/** Where a file of ours says that BullMQ's text stands. */
const FUNCTIONS_STAND = '--- @bullmq functions'
const SCRIPT_STANDS = /^--- @bullmq script(?:, with (.*))?$/m

/** They come last. What is left is BullMQ's. */
const OUR_ARGUMENTS = 'local theirs, ARGV = ARGV, cjson.decode(table.remove(ARGV))'

interface Composition {
  /** Commands of BullMQ that `rcall` of our text, or its `redis`, looks at; without it, all. */
  readonly watched?: readonly string[]
  /** Tells two scripts apart that take the place of the same one. */
  readonly variant?: string
  /** Functions of BullMQ's text that most calls need, beside {@link BULLMQ_FUNCTIONS}. */
  readonly usual?: readonly string[]
}

/** Functions of BullMQ's scripts that ours call, and the parameters that are relied upon. */
export const BULLMQ_FUNCTIONS: Readonly<Record<string, string>> = {
  getQueueMetadata: 'queueMetaKey, activeKey, waitKey',
  getRateLimitTTL: 'maxJobs, rateLimiterKey',
  prepareJobForProcessing: [
    'keyPrefix, rateLimiterKey, eventStreamKey, jobId, processedOn, maxJobs, limiterDuration',
    'markerKey, opts',
  ].join(', '),
  promoteDelayedJobs: [
    'delayedKey, markerKey, targetKey, prioritizedKey, eventStreamKey, prefix, timestamp',
    'priorityCounterKey, isPaused',
  ].join(', '),
  /** Its last ones are `timestamp, opts`. */
  fetchNextJob: '',
  trimEvents: 'metaKey, eventStreamKey',
}

/**
 * @param file in `lua/`: what it returns is the reply. It may call `bullmq(redis, KEYS, theirs)`.
 * Or it says where BullMQ's functions stand, which call `rcall`, and its script, which is
 * `bullmq(KEYS, theirs)`, with which functions of ours in place of BullMQ's.
 */
export function composedScript(
  replaces: string,
  file: string,
  { watched, variant = '', usual = [] }: Composition = {},
): ComposedScript {
  const { numberOfKeys, lua } = scriptOf(replaces)
  const text = watched === undefined ? lua : passing(lua, watched)
  const own = luaText(`line/lua/${file}`)
  const stands = own.includes(FUNCTIONS_STAND)
  const parts = partsOf(text, new Set(usual))
  const composed = own
    .replace(FUNCTIONS_STAND, () => parts.functions)
    .replace(SCRIPT_STANDS, (_, replaced?: string) => scriptWith(parts.script, replaced))
  return {
    replaces,
    command: `redlock:${REVISION}:${replaces}${variant}`,
    numberOfKeys,
    lua: [
      'local direct = redis.call',
      ...promoteFor(own),
      ...(stands ? [] : [asFunction('bullmq', 'redis, KEYS, ARGV', text)]),
      OUR_ARGUMENTS,
      composed,
    ]
      .join('\n')
      .replace(/^ +|\n(?=\n)/gm, ''),
  }
}

/** Commands that nothing looks at go to Redis without a call through the replaced `redis`. */
function passing(lua: string, watched: readonly string[]): string {
  return lua.replace(/\brcall\((?=\s*["'](\w+)["'])/g, (call, command: string) =>
    watched.includes(command) ? call : 'direct(',
  )
}

/**
 * A script of ours alone. It is put together when it is first needed: BullMQ has been checked then.
 * @param path from `src/` on.
 */
export function ownScript(path: string): ComposedScript {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return {
    ...{ replaces: '', command: `redlock:${REVISION}:${name}`, numberOfKeys: 1 },
    get lua() {
      const text = luaText(path)
      return [...promoteFor(text), OUR_ARGUMENTS, text].join('\n')
    },
  }
}

/** BullMQ's own way to move a job to those that may start, where a text uses it. */
function promoteFor(text: string): readonly string[] {
  if (!text.includes('bullmqPromote')) return []
  return [asFunction('bullmqPromote', 'redis, KEYS, ARGV', scriptOf('promote').lua)]
}

/** As BullMQ has it, without comments. */
function scriptOf(name: string): BullmqScript {
  const script = bullmqScripts().get(name)
  if (script === undefined) throw new TypeError(`This BullMQ has no script \`${name}\``)
  return { ...script, lua: withTexts(script.lua.replace(COMMENT, '')) }
}

function asFunction(name: string, parameters: string, lua: string): string {
  return `local function ${name}(${parameters})\n${lua}\nend`
}

/**
 * The functions of BullMQ's text, and what is left of it. They are made once a call, not for every
 * job, and those that are seldom called when one of them is. Where BullMQ unpacks options, ours may
 * give it a table.
 */
function partsOf(
  lua: string,
  named: ReadonlySet<string>,
): { readonly functions: string; readonly script: string } {
  const usual: string[] = []
  const rare = new Map<string, string>()
  const script = lua.replace(FUNCTION, (text: string, name: string | undefined) => {
    if (name === undefined) return ''
    if (name in BULLMQ_FUNCTIONS || named.has(name)) usual.push(text)
    else rare.set(name, text)
    return ''
  })
  const calls = new RegExp(`(?<![.:\\w]|function )(${[...rare.keys()].join('|')})(?=\\()`, 'g')
  const onDemand = (text: string): string =>
    text.replace(calls, "rare('$1')").replaceAll('cmsgpack.unpack(', 'unpacked(')
  const functions = `local function unpacked(packed)
return type(packed) == 'table' and packed or cmsgpack.unpack(packed)
end
local made, makeRare
local function rare(name)
made = made or makeRare()
return made[name]
end
${usual.map(onDemand).join('\n')}
function makeRare()
${[...rare.values()].map((text) => text.replaceAll('cmsgpack.unpack(', 'unpacked(')).join('\n')}
return {${[...rare.keys()].map((name) => `${name} = ${name}`).join(', ')}}
end`
  return { functions, script: onDemand(script) }
}

/** @param replaced `<ours> for <BullMQ's>, …` */
function scriptWith(script: string, replaced: string | undefined): string {
  const text = (replaced?.split(', ') ?? []).reduce((before, pair) => {
    const [ours = '', theirs = ''] = pair.split(' for ')
    return before.replace(new RegExp(`(?<![.:\\w])${theirs}(?=\\()`, 'g'), ours)
  }, script)
  return asFunction('bullmq', 'KEYS, ARGV', text)
}

/** A function that a text uses in another way than by a call. It cannot be made on demand. */
export function passedOn(text: string): string | undefined {
  const lua = text.replace(COMMENT, '')
  const names = [...lua.matchAll(FUNCTION)].flatMap(([, name]) => name ?? [])
  return names.find((name) =>
    new RegExp(`^(?:(?!--).)*?(?<![.:\\w"'])${name}(?![\\w(])`, 'm').test(lua),
  )
}

/** Whether a text defines a function of BullMQ as it is known. */
export function hasFunction(lua: string, name: string): boolean {
  const [, found] = new RegExp(`^local function ${name}\\(([^)]*)\\)`, 'm').exec(lua) ?? []
  const parameters = found?.replace(/\s+/g, ' ')
  const known = BULLMQ_FUNCTIONS[name] ?? ''
  return known === '' ? parameters?.endsWith('timestamp, opts') === true : parameters === known
}
