/**
 * Runs BullMQ's own script text and ours as one Lua script. BullMQ's text becomes a function whose
 * `redis` we may replace, so that its reads and writes can be answered by our rules.
 *
 * KEYS are BullMQ's, and one that is never there. The last of ARGV has our arguments as JSON, which
 * our text sees as ARGV, by name; those before it are BullMQ's (`theirs`).
 */
import { RedisConnection } from 'bullmq'
import { getOrInsert } from '../../get-or-insert.ts'
import { luaText, withTexts } from '../../lua.ts'
import { ASLEEP_DELAY_MS } from '../line-runner.ts'

export interface ComposedScript {
  /** The name under which it is registered with a client. */
  readonly command: string
  /** As many as the one of BullMQ that takes most of them, and the absent one. */
  readonly numberOfKeys: number
  readonly lua: string
}

/** A script of the installed BullMQ. */
interface BullmqScript {
  readonly numberOfKeys: number
  readonly lua: string
}

/** Changes with the text of our scripts: clients of two releases may share a connection. */
const REVISION = 40

const COMMENT = /^ *--(?:\[\[[^]*?\]\] *\n?|.*\n)/gm
const FUNCTION = /^local (?:rcall = redis\.call$|(?:function |(?=\w+ = function))(\w+)[^]*?^end$)/gm
/** When a delay ends. BullMQ makes a score of it. */
const DELAYED_UNTIL = /^( *local delayedTimestamp = )(.*\+ delay\b.*)$/gm
/** The id in the key of a job. BullMQ takes the end; ids of jobs of schedulers have colons. */
const ID_IN_KEY = 'string.match(jobKey, ".*:(.*)")'
const ID_OF_SCHEDULED = 'string.match(jobKey, ".*:(repeat:.*:%d+)$")'
/** Where a file of ours says that BullMQ's text stands. */
const FUNCTIONS_STAND = '--- @bullmq functions'
const SCRIPT_STANDS = /^--- @bullmq script(?:, with (.*))?$/m

/** They come last. What is left is BullMQ's. */
const OUR_ARGUMENTS = 'local theirs, ARGV = ARGV, cjson.decode(table.remove(ARGV))'
/** Also words that are no commands. */
const COMMANDS = /(?<=["'])[A-Z]{3,}(?=["'])/g
const RIGHTS_STAND = '$commands'

const LAYER = '--- @layer\n'

/** Functions that a text of ours calls for every job: a global name is looked up at every call. */
const NAMES = { 'redis.call': 'redisCall', 'string.match': 'match', 'string.find': 'find' }
const LOOKED_UP = `local ${Object.values(NAMES).join(', ')} = ${Object.keys(NAMES).join(', ')}`

function lookedUp(own: string): string {
  return Object.entries(NAMES).reduce(
    (text, [global, local]) => text.replaceAll(`${global}(`, `${local}(`),
    own,
  )
}

export interface Composition {
  /** Commands of BullMQ that `rcall` of our text, or its `redis`, looks at; without it, all. */
  readonly watched?: readonly string[]
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
  getOrSetMaxEvents: 'metaKey',
  isQueuePausedOrMaxed: 'queueMetaKey, activeKey',
  removeJobKeys: 'jobKey',
}

/**
 * @param path of our text, from `src/` on: what it returns is the reply. It may call
 * `bullmq(redis, KEYS, theirs)`. Or it says where BullMQ's functions stand, which call `rcall`, and
 * its script, which is `bullmq(KEYS, theirs)`, with which functions of ours in place of BullMQ's.
 * @param replaces BullMQ's scripts whose place it takes, if any. Of several, ARGV says which one.
 */
export function composedScript(
  path: string,
  replaces: readonly string[] = [],
  { watched, usual = [] }: Composition = {},
): ComposedScript {
  const scripts = replaces.map((name) => {
    const { numberOfKeys, lua } = scriptOf(name)
    return { name, numberOfKeys, lua: watched ? passing(lua, watched) : lua }
  })
  const own = luaText(path)
  const parts = own.includes(FUNCTIONS_STAND) ? partsOf(scripts, new Set(usual)) : undefined
  const whole = parts
    ? []
    : scripts.map(({ lua }) => `local function bullmq(redis, KEYS, ARGV)\n${lua}\nend`)
  const ours = lookedUp(own)
    .replace(FUNCTIONS_STAND, () => parts?.functions ?? '')
    .replace(SCRIPT_STANDS, (_, replaced?: string) => scriptWith(parts?.script ?? '', replaced))
  const text = [LOOKED_UP, ...whole, OUR_ARGUMENTS, ours].join('\n')
  const name = path.slice(path.lastIndexOf('/') + 1)
  return {
    command: `redlock:${REVISION}:${name}:${replaces.join('+')}`,
    numberOfKeys: Math.max(1, ...scripts.map(({ numberOfKeys }) => numberOfKeys)) + 1,
    lua: layered(text.replace(/^ +|\n(?=\n)/gm, '')),
  }
}

const ownScripts = new Map<string, ComposedScript>()

/** A script of ours alone. It is put together once, when it is first needed. */
export function ownScript(path: string): ComposedScript {
  return getOrInsert(ownScripts, path, () => composedScript(path))
}

/** With our arguments, and with what it asks of the server before it does anything. */
function begun(lua: string): string {
  const commands = [...new Set(lua.match(COMMANDS))].sort().join(' ')
  const rights = luaText('line/lua/rights').replace(RIGHTS_STAND, commands)
  return lua.replace(OUR_ARGUMENTS, () => `${OUR_ARGUMENTS}\n${rights}`)
}

/**
 * What follows `--- @layer` stands in a function of its own. A function that is made looks for each
 * local name of the one around it among all that are in use; names from further out are at hand.
 */
function layered(lua: string): string {
  return begun(lua)
    .split(LAYER)
    .reduceRight((inner, outer) => `${outer}return (function()\n${inner}\nend)()`)
}

/** Commands that nothing looks at go to Redis without a call through the replaced `redis`. */
function passing(lua: string, watched: readonly string[]): string {
  return lua.replace(/\brcall\((?=\s*["'](\w+)["'])/g, (call, command: string) =>
    watched.includes(command) ? call : 'redisCall(',
  )
}

let scripts: Map<string, BullmqScript> | undefined

/**
 * BullMQ's scripts by name without a version, as its own connection class registers them. Empty for
 * a BullMQ that registers none: BullMQ 5 and older.
 */
export function bullmqScripts(): ReadonlyMap<string, BullmqScript> {
  if (scripts !== undefined) return scripts
  const found = new Map<string, BullmqScript>()
  scripts = found
  const defineCommand = (name: string, script: BullmqScript): unknown =>
    found.set(name.split(':')[0] ?? name, script)
  // `protected` in BullMQ's types; it only calls `defineCommand` on the client.
  const prototype = RedisConnection.prototype as unknown as {
    loadCommands?: (this: { readonly _client: object }, version: string) => void
  }
  prototype.loadCommands?.call({ _client: { defineCommand } }, 'any')
  return found
}

/** As BullMQ has it, without comments, and with an end of all delays. */
function scriptOf(name: string): BullmqScript {
  const script = bullmqScripts().get(name)
  if (script === undefined) throw new TypeError(`This BullMQ has no script \`${name}\``)
  const lua = script.lua.replace(COMMENT, '')
  // rule: no-delay-reaches-those-that-sleep
  const bounded = lua.replace(DELAYED_UNTIL, `$1math.min($2, ${ASLEEP_DELAY_MS - 2})`)
  // rule: scheduled-parent-is-known-by-its-key
  const known = bounded.replace(ID_IN_KEY, () => `(${ID_OF_SCHEDULED} or ${ID_IN_KEY})`)
  return { ...script, lua: withTexts(known) }
}

/**
 * The functions of BullMQ's texts, and what is left of these. They are made once a call, not for
 * every job, and those that are seldom called when one of them is. Where BullMQ unpacks options,
 * ours may give it a table.
 */
function partsOf(
  texts: readonly { readonly name: string; readonly lua: string }[],
  named: ReadonlySet<string>,
): { readonly functions: string; readonly script: string } {
  const usual = new Map<string, string>()
  const rare = new Map<string, string>()
  const bodies = texts.map(({ name: of, lua }) => {
    const unpacking = lua.replaceAll('cmsgpack.unpack(', 'unpacked(')
    const body = unpacking.replace(FUNCTION, (text: string, name: string | undefined) => {
      if (name === undefined) return ''
      const found = name in BULLMQ_FUNCTIONS || named.has(name) ? usual : rare
      found.set(name, text)
      return ''
    })
    return [of, body] as const
  })
  const calls = new RegExp(`(?<![.:\\w]|function )(${[...rare.keys()].join('|')})(?=\\()`, 'g')
  const onDemand = (text: string): string => text.replace(calls, "rare('$1')")
  const functions = `local function unpacked(packed)
return type(packed) == 'table' and packed or cmsgpack.unpack(packed)
end
local made, makeRare
local function rare(name)
made = made or makeRare()
return made[name]
end
${[...usual.values()].map(onDemand).join('\n')}
function makeRare()
${[...rare.values()].join('\n')}
return {${[...rare.keys()].map((name) => `${name} = ${name}`).join(', ')}}
end`
  const scripts = bodies.map(([of, body]) => {
    const made = `bullmq = function(KEYS, ARGV)\n${onDemand(body)}\nend`
    return bodies.length === 1 ? made : `if ARGV.replaces == '${of}' then ${made} end`
  })
  return { functions, script: ['local bullmq', ...scripts].join('\n') }
}

/** @param replaced `<ours> for <BullMQ's>, …` */
function scriptWith(script: string, replaced: string | undefined): string {
  return (replaced?.split(', ') ?? []).reduce((before, pair) => {
    const [ours = '', theirs = ''] = pair.split(' for ')
    return before.replace(new RegExp(`(?<![.:\\w])${theirs}(?=\\()`, 'g'), ours)
  }, script)
}

/** A function that stands in several texts with another meaning. They cannot share it. */
export function unlike(texts: readonly string[]): string | undefined {
  const known = new Map<string, string>()
  for (const lua of texts) {
    for (const [text, name] of lua.replace(COMMENT, '').matchAll(FUNCTION)) {
      const words = text.replace(/\s+/g, ' ')
      if (name !== undefined && (known.get(name) ?? words) !== words) return name
      known.set(name ?? '', words)
    }
  }
  return undefined
}

/** A function that a text uses in another way than by a call. It cannot be made on demand. */
export function passedOn(text: string): string | undefined {
  const lua = text.replace(COMMENT, '')
  const names = [...lua.matchAll(FUNCTION)].flatMap(([, name]) => name ?? [])
  return names.find((name) =>
    new RegExp(`^(?:(?!--).)*?(?<![.:\\w"'])${name}(?![\\w(]| = function)`, 'm').test(lua),
  )
}

/** Whether a text defines a function of BullMQ as it is known. */
export function hasFunction(lua: string, name: string): boolean {
  const [, found] = new RegExp(`^local function ${name}\\(([^)]*)\\)`, 'm').exec(lua) ?? []
  const parameters = found?.replace(/\s+/g, ' ')
  const known = BULLMQ_FUNCTIONS[name] ?? ''
  return known === '' ? parameters?.endsWith('timestamp, opts') === true : parameters === known
}
