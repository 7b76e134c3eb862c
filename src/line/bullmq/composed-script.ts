/**
 * Runs BullMQ's own script text and ours as one Lua script. BullMQ's text becomes a function whose
 * `redis` we may replace, so that its reads and writes can be answered by our rules.
 *
 * KEYS are BullMQ's. ARGV[1] has our arguments as JSON, which our text sees as ARGV, by name; what
 * follows it are BullMQ's (`theirs`).
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
const REVISION = 9

const COMMENT = /^ *--(?:\[\[[^]*?\]\]|.*) *\n/gm
const FUNCTION = /^local (?:rcall = redis\.call$|function (\w+)[^]*?^end$)/gm

const OUR_ARGUMENTS = 'local ARGV = cjson.decode(ARGV[1])'

interface Composition {
  /** Commands of BullMQ that the replaced `redis` looks at; without it, all. */
  readonly watched?: readonly string[]
  /** Tells two scripts apart that take the place of the same one. */
  readonly variant?: string
  /**
   * The file runs BullMQ's text for several jobs: `bullmqWith(redis, own)` returns a function of
   * `(KEYS, theirs)`, and a table of {@link BULLMQ_FUNCTIONS}. These functions of BullMQ's text
   * call ours of the same name in `own`, with that table before their arguments.
   */
  readonly replaced?: readonly string[]
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

/** Others that most jobs call when they are added or end. A name that is missing costs time. */
const OFTEN_CALLED: ReadonlySet<string> = new Set([
  'addBaseMarkerIfNeeded',
  'addJobInTargetList',
  'deduplicateJob',
  'getOrSetMaxEvents',
  'isQueuePausedOrMaxed',
  'removeDeduplicationKeyIfNeededOnFinalization',
  'removeJobKeys',
  'rcall',
  'removeLock',
  'storeJob',
  'updateJobFields',
])

/**
 * @param file in `lua/`: what it returns is the reply. It may call `bullmq(redis, KEYS, theirs)`.
 */
export function composedScript(
  replaces: string,
  file: string,
  { watched, variant = '', replaced }: Composition = {},
): ComposedScript {
  const { numberOfKeys, lua } = scriptOf(replaces)
  const text = watched === undefined ? lua : passing(lua, watched)
  const own = luaText(`line/lua/${file}`)
  return {
    replaces,
    command: `redlock:${REVISION}:${replaces}${variant}`,
    numberOfKeys,
    lua: [
      'local direct = redis.call',
      ...promoteFor(own),
      replaced === undefined ? asFunction('bullmq', text) : asRepeated(text, replaced),
      'local theirs = {unpack(ARGV, 2)}',
      OUR_ARGUMENTS,
      own,
    ]
      .join('\n')
      .replace(/^ +/gm, ''),
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
  return [asFunction('bullmqPromote', scriptOf('promote').lua)]
}

/** As BullMQ has it, without comments. */
function scriptOf(name: string): BullmqScript {
  const script = bullmqScripts().get(name)
  if (script === undefined) throw new TypeError(`This BullMQ has no script \`${name}\``)
  return { ...script, lua: script.lua.replace(COMMENT, '') }
}

function asFunction(name: string, lua: string): string {
  return `local function ${name}(redis, KEYS, ARGV)\n${lua}\nend`
}

/**
 * The functions of the text are made once, not for every job, and those that are seldom called when
 * one of them is. Where BullMQ unpacks options, ours may give it a table.
 */
function asRepeated(lua: string, replaced: readonly string[]): string {
  const usual: string[] = []
  const rare = new Map<string, string>()
  const body = lua.replace(FUNCTION, (text: string, named: string | undefined) => {
    const name = named ?? 'rcall'
    if (name in BULLMQ_FUNCTIONS || OFTEN_CALLED.has(name)) usual.push(text)
    else rare.set(name, text)
    return ''
  })
  const calls = new RegExp(`(?<![.:\\w]|function )(${[...rare.keys()].join('|')})(?=\\()`, 'g')
  const onDemand = (text: string): string => text.replace(calls, 'rare.$1')
  const named = Object.keys(BULLMQ_FUNCTIONS).filter((name) => hasFunction(lua, name))
  return `local function bullmqWith(redis, own)
local cmsgpack = {pack = cmsgpack.pack, unpack = function(packed)
  return type(packed) == 'table' and packed or cmsgpack.unpack(packed)
end}
local makeRare
local rare = setmetatable({}, {__index = function(made, name)
  for each, make in pairs(makeRare()) do made[each] = make end
  return rawget(made, name)
end})
${usual.map(onDemand).join('\n')}
function makeRare()
${[...rare.values()].join('\n')}
return {${tableOf([...rare.keys()])}}
end
local functions = {${tableOf(named)}}
${replaced.map((name) => `local function ${name}(...) return own.${name}(functions, ...) end`).join('\n')}
return function(KEYS, ARGV)
${onDemand(body)}
end, functions
end`
}

function tableOf(names: readonly string[]): string {
  return names.map((name) => `${name} = ${name}`).join(', ')
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
