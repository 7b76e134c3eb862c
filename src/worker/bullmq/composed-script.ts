/**
 * Runs BullMQ's own script text and ours as one Lua script. BullMQ's text becomes a function whose
 * `redis` we may replace, so that its reads and writes can be answered by our rules.
 *
 * Our arguments come first in ARGV and BullMQ's follow them, so an argument that a later BullMQ
 * appends is never read as ours. KEYS are BullMQ's.
 */
import { bullmqScripts } from './bullmq-scripts.ts'

export interface ComposedScript {
  /** BullMQ's script whose place it takes. */
  readonly replaces: string
  /** The name under which it is registered with a client. */
  readonly command: string
  readonly numberOfKeys: number
  readonly lua: string
}

/** Changes with the text of our scripts: clients of two releases may share a connection. */
const REVISION = 1

/**
 * @param ours how many of ARGV are ours.
 * @param body Lua that may call `bullmq(redis, KEYS, theirs)`; what it returns is the reply.
 */
export function composedScript(
  replaces: string,
  {
    ours,
    library,
    body,
    variant = '',
  }: {
    readonly ours: number
    readonly library: string
    readonly body: string
    /** Tells two scripts apart that take the place of the same one. */
    readonly variant?: string
  },
): ComposedScript {
  const theirs = scriptOf(replaces)
  return {
    replaces,
    command: `redlock:${REVISION}:${replaces}${variant}`,
    numberOfKeys: theirs.numberOfKeys,
    lua: [
      asFunction('bullmqPromote', scriptOf('promote').lua),
      asFunction('bullmq', theirs.lua),
      library,
      `local theirs = {unpack(ARGV, ${ours + 1})}`,
      body,
    ].join('\n'),
  }
}

/** A script of ours alone, with BullMQ's `promote` at hand. */
export function ownScript(name: string, library: string, body: string): ComposedScript {
  return {
    replaces: '',
    command: `redlock:${REVISION}:${name}`,
    numberOfKeys: 1,
    lua: [asFunction('bullmqPromote', scriptOf('promote').lua), library, body].join('\n'),
  }
}

/** A script of ours that touches no job. Its ARGV begin with the space of our keys and the slots. */
export function keyScript(name: string, lua: string): ComposedScript {
  return { replaces: '', command: `redlock:${REVISION}:${name}`, numberOfKeys: 1, lua }
}

function scriptOf(name: string): { readonly numberOfKeys: number; readonly lua: string } {
  const script = bullmqScripts().get(name)
  if (script === undefined) throw new TypeError(`This BullMQ has no script \`${name}\``)
  return script
}

function asFunction(name: string, lua: string): string {
  return `local function ${name}(redis, KEYS, ARGV)\n${lua}\nend`
}
