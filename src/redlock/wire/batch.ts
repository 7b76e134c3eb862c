/**
 * Many calls in one trip: one script that knows every verb and runs those that its entries name.
 * Each entry has its own arguments and reply, and fails alone. What all calls of one client have in
 * common is part of the script's text, not of every batch.
 */
import { luaConstant, luaText } from '../../lua.ts'
import { keyspace } from '../keyspace.ts'
import { defineScript, type Script } from './script.ts'

/** What a verb of `lua/batch.lua` is asked; its file says what each field means there. */
export interface Asked {
  readonly verb: string
  readonly resources?: readonly string[]
  readonly token?: string
  readonly fence?: number
  readonly leaseMs?: number
  readonly waitMs?: number
  readonly waiter?: string
}

/** What one master is asked, or all of them: made once, and encoded once. */
export interface Call {
  readonly asked: Asked
  /** An entry of a batch. */
  readonly entry: string
  /** The length of `entry` as UTF-8. */
  readonly bytes: number
}

export function callOf(asked: Asked): Call {
  const { verb, resources = [''], token = '', fence = '', leaseMs = 0, waitMs = 0 } = asked
  let entry = `${verb}\0${plain(token)}\0${fence}\0${leaseMs}\0${waitMs}\0${asked.waiter ?? ''}\0${resources.length}\0`
  for (const resource of resources) entry += `${plain(resource)}\0`
  return { asked, entry, bytes: Buffer.byteLength(entry) }
}

/** A text without NUL, which ends a text in an entry. */
function plain(text: string): string {
  if (!text.includes('\0') && !text.includes('\u0001')) return text
  return text.replaceAll('\u0001', '\u0001\u0001').replaceAll('\0', '\u0001\u0002')
}

/** What all calls of one client have in common, each as text; a script that lacks one has nil. */
export interface Constants {
  readonly namespace: string
  readonly maxLeaseMs?: string
  readonly fenceTtlMs?: string
  readonly maxClockSkewMs?: string
  readonly fleetSize?: string
}

/** `lua/batch.lua`, for one client. A lock master is never a cluster, so no keys are named. */
export function batchScript(constants: Constants): Script {
  const { namespace, maxLeaseMs, fenceTtlMs, maxClockSkewMs, fleetSize } = constants
  const keys = keyspace(namespace)
  const own = Object.entries({
    ...{ maxLeaseMs, fenceTtlMs, maxClockSkewMs, fleetSize },
    leasePrefix: keys.lease(''),
    fencePrefix: keys.fence(''),
    waitersPrefix: keys.waiters(''),
    nextPrefix: keys.next(''),
    tombstonePrefix: keys.tombstone(''),
    flagKey: keys.flag,
    masterKey: keys.master,
    releasesChannel: keys.releases,
  }).map(([name, text]) => `local ${name} = ${quoted(text)}`)
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

/** The reply of a verb whose outcome is the usual one. */
export const USUAL = true

/** What a call came to. */
export interface Entry {
  readonly ok: true
  /** `USUAL`, what the verb returned instead, or an `EntryError`. */
  readonly reply: unknown
  /** The server's clock at the beginning of the batch; NaN where it did not say. */
  readonly serverMs: number
}

/** The word that begins the reply of an entry that failed; the server's message follows. */
const FAILED = luaConstant('redlock/lua/batch', 'FAILED')
const USUAL_MARK = '+'.charCodeAt(0)
/** The server's time, and a mark for each call. */
const HEAD = /^\d+ [+*]*$/

/** A server's answer to a batch of `count` calls, in their order. */
export function readBatch(answer: unknown, count: number): readonly Entry[] {
  const replies: readonly unknown[] = Array.isArray(answer) ? answer : [answer]
  const text = typeof replies[0] === 'string' ? replies[0] : ''
  const head = HEAD.test(text) ? text : 'NaN ' // Anything else answers none of the calls.
  let at = head.indexOf(' ')
  const serverMs = Number(head.slice(0, at))
  const usual: Entry = { ok: true, reply: USUAL, serverMs }
  const entries: Entry[] = []
  let replied = 1
  while (entries.length < count) {
    if (head.charCodeAt(++at) === USUAL_MARK) entries.push(usual)
    else {
      const reply = at < head.length ? replies[replied++] : undefined
      entries.push({ ok: true, reply: entryReply(reply), serverMs })
    }
  }
  return entries
}

function entryReply(reply: unknown): unknown {
  if (reply === undefined) return new EntryError('the batch was not answered in full')
  if (!Array.isArray(reply) || reply[0] !== FAILED) return reply
  // Before Redis 7 the message of an error inside a script begins with where it happened.
  return new EntryError(String(reply[1]).replace(/^@?user_script:\s*\d+:\s*/, ''))
}
