/**
 * One script that carries many calls of other scripts, each with keys, arguments and a reply of its own. What one entry
 * does or fails to do changes nothing for the others: they run one after the other, as they would have alone.
 */
import { defineScript, type Script } from './script.ts'

export interface Call {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
}

/** The word that begins the reply of an entry that failed; then the message, as the server would have sent it. */
const FAILED = 'failed:'

/**
 * ARGV  1 the entries as JSON: [name of the script, keys, arguments as strings], …
 * Returns  of each entry: its script's reply | failed:, error message
 * Keeps: an entry that fails does not keep the others from running. One argument, because a client spends more on many
 * small ones than on their contents; a lock master is never a cluster, which would want to see the keys.
 */
export function batchOf(scripts: readonly Script[]): Script {
  const bodies = scripts.map(({ name, lua }) => `['${name}'] = function(KEYS, ARGV)${lua}end,`)
  return defineScript(
    'batch',
    `
local scripts = {
${bodies.join('\n')}
}
local replies = {}
for i, entry in ipairs(cjson.decode(ARGV[1])) do
  local ok, reply = pcall(scripts[entry[1]], entry[2], entry[3])
  if not ok then
    local message = type(reply) == 'table' and reply.err or tostring(reply)
    reply = {'${FAILED}', message}
  end
  replies[i] = reply
end
return replies
`,
  )
}

export function encodeBatch(calls: readonly Call[]): string {
  return JSON.stringify(
    calls.map(({ script, keys, args }) => [script.name, keys, args.map(String)]),
  )
}

/** What a server said instead of a reply; ioredis gives such errors this name too. */
export class EntryError extends Error {
  override readonly name = 'ReplyError'
}

/** The reply to the entry at `index` of a batch, or what went wrong with it. */
export function entryReply(replies: unknown, index: number): unknown {
  const reply: unknown = Array.isArray(replies) ? replies[index] : undefined
  if (reply === undefined) return new EntryError('the batch was not answered in full')
  if (!Array.isArray(reply) || reply[0] !== FAILED) return reply
  // Before Redis 7 the message of an error inside a script begins with where it happened.
  return new EntryError(String(reply[1]).replace(/^@?user_script:\s*\d+:\s*/, ''))
}
