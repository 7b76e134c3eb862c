/**
 * Many calls in one trip: one script that knows every verb and runs those that its entries name.
 * Each entry has its own arguments and reply, and fails alone.
 *
 * A usual call has a short form: its arguments end with NUL and are decoded by one
 * `struct.unpack`, and its usual reply is one character. Other calls travel as JSON and are
 * answered in full. The functions of the long form are made only when an entry needs one, because
 * making them costs more than running a short form. What all calls of one client have in common is
 * part of the script's text, not of every batch.
 */
import { luaConstant, luaText } from '../../lua.ts'
import { defineScript, type Script } from './script.ts'

/** A verb of `lua/batch.lua`. */
export interface Procedure {
  readonly name: string
  readonly short?: ShortForm
}

/** How a call for one resource travels when nothing about it is unusual. */
export interface ShortForm {
  /** Its own, and not `J`. */
  readonly letter: string
  /** How many arguments it has, all text; the first is the resource. */
  readonly parameters: number
  /** What the long form replies in the usual outcome. */
  readonly usualReply: (args: readonly Argument[]) => unknown
}

export type Constants = Readonly<Record<string, string>>
export type Argument = string | number | readonly string[]

/** The reply to a short form whose outcome is the usual one. */
export const USUAL = true

/** What one master is asked, or all of them: made once, and encoded once. */
export interface Call {
  readonly procedure: Procedure
  readonly args: readonly Argument[]
  /** An entry of a batch. */
  readonly entry: string
  /** The length of `entry` as UTF-8. */
  readonly bytes: number
}

export function callOf(procedure: Procedure, args: readonly Argument[]): Call {
  const { name, short } = procedure
  const entry =
    (short === undefined ? undefined : shortEntry(short, args)) ??
    `J${JSON.stringify([name, ...args])}\0`
  return { procedure, args, entry, bytes: Buffer.byteLength(entry) }
}

/** Undefined for a call that only the long form can carry. */
function shortEntry(
  { letter, parameters }: ShortForm,
  args: readonly Argument[],
): string | undefined {
  const [resources] = args
  if (args.length !== parameters) return undefined
  if (typeof resources !== 'object' || resources.length !== 1) return undefined
  let entry = letter
  for (const arg of args) {
    const text = typeof arg === 'object' ? (arg[0] ?? '') : String(arg)
    if (text.includes('\0')) return undefined // The server would read it as the end.
    entry += `${text}\0`
  }
  return entry
}

/** The word that begins the reply of an entry that failed; the server's message follows. */
const FAILED = luaConstant('redlock/lua/batch', 'FAILED')
/** What all calls of one client have in common, each as text or nil. */
const CONSTANTS = ['namespace', 'maxLeaseMs', 'fenceTtlMs', 'maxClockSkewMs', 'fleetSize'] as const

/** `lua/batch.lua`, for one client. A lock master is never a cluster, so no keys are named. */
export function batchScript(constants: Constants): Script {
  const own = CONSTANTS.map((name) => `local ${name} = ${quoted(constants[name])}`)
  return defineScript('batch', [...own, luaText('redlock/lua/batch')].join('\n'))
}

/** Any text as a Lua string: bytes that could end or change it are written as numbers. */
function quoted(text: string | undefined): string {
  if (text === undefined) return 'nil'
  const bytes = [...Buffer.from(text)].map((byte) =>
    byte > 0x7e || byte < 0x20 || byte === 0x22 || byte === 0x5c
      ? `\\${String(byte).padStart(3, '0')}`
      : String.fromCharCode(byte),
  )
  return `"${bytes.join('')}"`
}

/** The arguments of a batch. */
export function batchArgs(calls: readonly Call[], runId: string): readonly string[] {
  return [calls.map(({ entry }) => entry).join(''), runId]
}

/** What a server said instead of a reply; ioredis gives such errors this name too. */
export class EntryError extends Error {
  override readonly name = 'ReplyError'
}

/** What a call came to. */
export interface Entry {
  readonly ok: true
  /** What the procedure returned, `USUAL`, or an `EntryError`. */
  readonly reply: unknown
  /** The server's clock at the beginning of the batch; NaN where no entry read it. */
  readonly serverMs: number
}

const USUAL_MARK = '+'.charCodeAt(0)
/** The server's time, and a mark for each call. */
const HEAD = /^\d* [+*]*$/

export interface BatchAnswer {
  /** NaN where no entry read the clock. */
  readonly serverMs: number
  /** Of every call, in their order. */
  readonly results: readonly Entry[]
}

/** A server's answer to a batch of `count` calls. */
export function readAnswer(answer: unknown, count: number): BatchAnswer {
  const replies: readonly unknown[] = Array.isArray(answer) ? answer : [answer]
  const text = typeof replies[0] === 'string' ? replies[0] : ''
  const head = HEAD.test(text) ? text : ' ' // Anything else answers none of the calls.
  let at = head.indexOf(' ')
  const serverMs = at > 0 ? Number(head.slice(0, at)) : Number.NaN
  const usual: Entry = { ok: true, reply: USUAL, serverMs }
  const results: Entry[] = []
  let replied = 1
  while (results.length < count) {
    if (head.charCodeAt(++at) === USUAL_MARK) results.push(usual)
    else {
      const reply = at < head.length ? replies[replied++] : undefined
      results.push({ ok: true, reply: entryReply(reply), serverMs })
    }
  }
  return { serverMs, results }
}

/** As the long forms reply. */
export function readBatch(answer: unknown, calls: readonly Call[]): readonly Entry[] {
  return readAnswer(answer, calls.length).results.map((entry, index) => {
    const { procedure, args = [] } = calls[index] ?? {}
    return entry.reply === USUAL ? { ...entry, reply: procedure?.short?.usualReply(args) } : entry
  })
}

function entryReply(reply: unknown): unknown {
  if (reply === undefined) return new EntryError('the batch was not answered in full')
  if (!Array.isArray(reply) || reply[0] !== FAILED) return reply
  // Before Redis 7 the message of an error inside a script begins with where it happened.
  return new EntryError(String(reply[1]).replace(/^@?user_script:\s*\d+:\s*/, ''))
}
