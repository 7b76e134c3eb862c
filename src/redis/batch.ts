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
 * KEYS  the keys of all entries, one after the other
 * ARGV  of each entry: name of its script · number of its keys · number of its arguments · its arguments
 * Returns  of each entry: its script's reply | failed:, error message
 * Keeps: an entry that fails does not keep the others from running.
 */
export function batchOf(scripts: readonly Script[]): Script {
  const bodies = scripts.map(({ name, lua }) => `['${name}'] = function(KEYS, ARGV)${lua}end,`)
  return defineScript(
    'batch',
    `
local scripts = {
${bodies.join('\n')}
}
local replies, key, arg = {}, 0, 1
while arg <= #ARGV do
  local keyCount, argCount = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local keys, args = {}, {}
  for i = 1, keyCount do keys[i] = KEYS[key + i] end
  for i = 1, argCount do args[i] = ARGV[arg + 2 + i] end
  local ok, reply = pcall(scripts[ARGV[arg]], keys, args)
  if not ok then
    local message = type(reply) == 'table' and reply.err or tostring(reply)
    reply = {'${FAILED}', message}
  end
  replies[#replies + 1] = reply
  key, arg = key + keyCount, arg + 3 + argCount
end
return replies
`,
  )
}

export function encodeBatch(calls: readonly Call[]): {
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
} {
  const keys: string[] = []
  const args: (string | number)[] = []
  for (const call of calls) {
    for (const key of call.keys) keys.push(key)
    args.push(call.script.name, call.keys.length, call.args.length)
    for (const arg of call.args) args.push(arg)
  }
  return { keys, args }
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
