/**
 * Many calls in one trip: one script that knows every procedure of a library and runs those that its entries name, each with arguments and a
 * reply of its own. What one entry does or fails to do changes nothing for the others: they run one after the other, as
 * they would have alone.
 */
import { defineScript, type Script } from './script.ts'

/** A Lua function on a server. It sees its parameters, and what the library's prelude defines. */
export interface Procedure {
  readonly name: string
  readonly parameters: readonly string[]
  readonly lua: string
}

export interface Library {
  /** Runs once for each batch. It sees `runId` and `standing`, and defines `nowMs`, the server's time. */
  readonly prelude: string
  readonly procedures: readonly Procedure[]
}

export type Argument = string | number | readonly string[]

export function defineProcedure(
  name: string,
  parameters: readonly string[],
  lua: string,
): Procedure {
  return { name, parameters, lua }
}

/** What one master is asked, or all of them: made once, and encoded once. */
export class Call {
  readonly procedure: string
  readonly args: readonly Argument[]
  #encoded: string | undefined

  constructor({ name }: Procedure, args: readonly Argument[]) {
    this.procedure = name
    this.args = args
  }

  /** An entry of a batch. */
  get encoded(): string {
    return (this.#encoded ??= JSON.stringify([this.procedure, ...this.args]))
  }
}

/** The word that begins the reply of an entry that failed; then the message, as the server would have sent it. */
const FAILED = 'failed:'

/**
 * ARGV  1 the entries as JSON: [name of the procedure, its arguments …], … · 2 run id of the server that the caller enrolled · 3… `standing`
 * Returns  nowMs, [of each entry: its procedure's reply | failed:, error message]
 * Keeps: an entry that fails does not keep the others from running. One argument, because a client spends more on many
 * small ones than on their contents; a lock master is never a cluster, which would want to see the keys.
 */
export function batchScript({ prelude, procedures }: Library): Script {
  const functions = procedures.map(
    ({ name, parameters, lua }) => `${name} = function(${parameters.join(', ')})${lua}end,`,
  )
  return defineScript(
    'batch',
    `
local runId, standing = ARGV[2], {unpack(ARGV, 3)}
${prelude}
local procedures = {
${functions.join('\n')}
}
local replies = {}
for i, entry in ipairs(cjson.decode(ARGV[1])) do
  local ok, reply = pcall(procedures[entry[1]], unpack(entry, 2))
  if not ok then
    local message = type(reply) == 'table' and reply.err or tostring(reply)
    reply = {'${FAILED}', message}
  end
  replies[i] = reply
end
return {nowMs, replies}
`,
  )
}

/** The arguments of a batch. */
export function batchArgs(
  calls: readonly Call[],
  runId: string,
  standing: readonly string[],
): readonly string[] {
  return [`[${calls.map(({ encoded }) => encoded).join(',')}]`, runId, ...standing]
}

/** What a server said instead of a reply; ioredis gives such errors this name too. */
export class EntryError extends Error {
  override readonly name = 'ReplyError'
}

/** What a call came to. */
export interface Entry {
  /** What the procedure returned, or what went wrong with it. */
  readonly reply: unknown
  /** The server's clock at the beginning of the batch. */
  readonly serverMs: number
}

/** Of every call of a batch, in their order. */
export function readBatch(answer: unknown, size: number): readonly Entry[] {
  const [serverMs, replies] = (Array.isArray(answer) ? answer : []) as unknown[]
  return Array.from({ length: size }, (_, index) => ({
    serverMs: typeof serverMs === 'number' ? serverMs : Number.NaN,
    reply: entryReply(Array.isArray(replies) ? replies[index] : undefined),
  }))
}

function entryReply(reply: unknown): unknown {
  if (reply === undefined) return new EntryError('the batch was not answered in full')
  if (!Array.isArray(reply) || reply[0] !== FAILED) return reply
  // Before Redis 7 the message of an error inside a script begins with where it happened.
  return new EntryError(String(reply[1]).replace(/^@?user_script:\s*\d+:\s*/, ''))
}
