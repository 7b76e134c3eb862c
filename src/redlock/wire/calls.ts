/**
 * Calls to one master, many in one trip. If few calls are in flight, those of the current turn of
 * the event loop leave together. Otherwise they wait for a reply, at most a millisecond, so a slow
 * master cannot stall callers. Each call has its own arguments and reply. Each caller has a
 * deadline; one that passes before the call has left takes the call back.
 */
import { atEndOfTurn, deadline, instant, type Clock, type Timer } from '../../clock.ts'
import { luaConstant } from '../../lua.ts'
import type { BatchSender } from './batch-sender.ts'
import { unanswered } from './master.ts'
import type { Asker, CallResult, Master, MasterConnectionOptions } from './master.ts'

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
  /** An entry of a batch: texts that end with NUL. */
  readonly entry: string
  /** The length of `entry` as UTF-8. */
  readonly bytes: number
}

/** A control character: NUL ends a text. */
const CONTROL = /[^ -\uFFFF]/

export function callOf(asked: Asked): Call {
  const { verb, resources = [''], token = '', fence = '', leaseMs = 0, waitMs = 0 } = asked
  let entry = `${verb}\0${plain(token)}\0${fence}\0${leaseMs}\0${waitMs}\0${asked.waiter ?? ''}\0`
  for (const resource of resources) entry += `${plain(resource)}\0`
  entry += '\0'
  return { asked, entry, bytes: Buffer.byteLength(entry) }
}

/** A text without NUL. */
function plain(text: string): string {
  if (!CONTROL.test(text)) return text
  return text.replaceAll('\u0001', '\u0001\u0001').replaceAll('\0', '\u0001\u0002')
}

/** What a server said instead of a reply; ioredis gives such errors this name too. */
export class EntryError extends Error {
  override readonly name = 'ReplyError'
}

/** The reply of a verb whose outcome is the usual one. */
export const USUAL = true

/** The word that begins the reply of an entry that failed; the server's message follows. */
const FAILED = luaConstant('redlock/lua/batch', 'FAILED')
const USUAL_MARK = '+'.charCodeAt(0)
/** A mark for each call, and the server's time if one of them read it. */
const HEAD = /^[+*]+(?: \d+ \d+)?$/

export interface BatchReply {
  /** The server's clock at the beginning of the batch; NaN where it did not say. */
  readonly serverMs: number
  /** Of each call: `USUAL`, what its verb returned instead, or an `EntryError`. */
  readonly replies: readonly unknown[]
}

/** A server's answer to a batch of `count` calls, in their order. */
export function readBatch(answer: unknown, count: number): BatchReply {
  const parts: readonly unknown[] = Array.isArray(answer) ? answer : [answer]
  const [head] = parts
  // Anything else answers none of the calls.
  const text = typeof head === 'string' && HEAD.test(head) ? head : ''
  const [seconds, us] = text[count] === ' ' ? text.slice(count + 1).split(' ') : []
  const serverMs = Number(seconds) * 1_000 + Math.floor(Number(us) / 1_000)
  const replies = new Array<unknown>(count)
  let read = 1
  for (let place = 0; place < count; place++) {
    const isUsual = text.charCodeAt(place) === USUAL_MARK
    replies[place] = isUsual || entryReply(text === '' ? undefined : parts[read++])
  }
  return { serverMs, replies }
}

function entryReply(reply: unknown): unknown {
  if (reply === undefined) return new EntryError('the batch was not answered in full')
  if (!Array.isArray(reply) || reply[0] !== FAILED) return reply
  // Before Redis 7 the message of an error inside a script begins with where it happened.
  return new EntryError(String(reply[1]).replace(/^@?user_script:\s*\d+:\s*/, ''))
}

/** The reply to a batch of one call. @throws EntryError, where it failed. */
export function onlyReply(answer: unknown): unknown {
  const [reply] = readBatch(answer, 1).replies
  if (reply instanceof EntryError) throw reply
  return reply
}

export interface CallQueueOptions extends Pick<MasterConnectionOptions, 'onTime'> {
  readonly master: Master
  readonly clock: Clock
  readonly sender: BatchSender
  /** A master that leaves batches unanswered this long is connected to anew. */
  readonly silenceMs: number
  /** Hears of every error before its callers do. */
  readonly onError: (error: unknown) => void
}

/** A reply with more entries keeps a master's other clients waiting. */
const MAX_ENTRIES = 64
const MAX_GATHER_MS = 1
/** With fewer in flight, calls do not wait: a hand-off would take one more round trip. */
const FEW = 4
const USUAL_RESULT: CallResult = { kind: 'replied', reply: USUAL }

export class CallQueue {
  readonly #options: CallQueueOptions
  /** The answer to every call while the master may not vote. */
  #closed: CallResult | undefined
  #waiting: Asker[] = []
  /** Calls that have left and are not answered. */
  #inFlight = 0
  #timer: Timer | undefined
  /** At the end of this turn: who waited for one reply asks the next thing together. */
  #isFlushing = false
  #wasHeard = false
  #silence: Timer | undefined

  constructor(options: CallQueueOptions) {
    this.#options = options
  }

  /** Answers as late as the connection breaks; at once while it is closed. */
  readonly ask = (asker: Asker): void => {
    if (this.#closed !== undefined) {
      asker.hear(this.#options.master, this.#closed)
      return
    }
    this.#waiting.push(asker)
    if (this.#waiting.length >= MAX_ENTRIES) this.#flush()
    else if (this.#inFlight < FEW) this.#isFlushing = this.#isFlushing || atEndOfTurn(this.#flush)
    else this.#timer ??= this.#options.clock.after(MAX_GATHER_MS, this.#flush)
  }

  open(): void {
    this.#closed = undefined
  }

  /** From now on `result` is the answer, also to what has not left yet. */
  close(result: CallResult): void {
    this.#closed = result
    this.#silence?.cancel()
    this.#silence = undefined
    for (const asker of this.#waiting.splice(0)) asker.hear(this.#options.master, result)
  }

  readonly #flush = (): void => {
    const { clock, sender, master, onTime } = this.#options
    this.#isFlushing = false
    this.#timer?.cancel()
    this.#timer = undefined
    const askers = this.#waiting
    let entries = ''
    let bytes = 0
    let count = 0
    for (const asker of askers) {
      const call = asker.leaving(master)
      if (call === undefined) continue
      entries += call.entry
      bytes += call.bytes
      askers[count++] = asker
    }
    askers.length = count
    if (count === 0) return
    this.#waiting = []
    const sentAt = instant(clock)
    this.#inFlight += count
    sender.send(entries, bytes, (answer, error) => {
      this.#inFlight -= count
      this.#wasHeard = true
      if (this.#inFlight < FEW && this.#waiting.length > 0) {
        this.#isFlushing = this.#isFlushing || atEndOfTurn(this.#flush)
      }
      if (error !== undefined) {
        this.#fail(askers, error)
        return
      }
      const { serverMs, replies } = readBatch(answer, askers.length)
      if (Number.isFinite(serverMs)) onTime(master, serverMs, sentAt)
      for (let place = 0; place < askers.length; place++) {
        const asker = askers[place]
        const reply = replies[place]
        if (asker === undefined) continue
        if (reply === USUAL) asker.hear(master, USUAL_RESULT)
        else if (reply instanceof EntryError) this.#fail([asker], reply)
        else asker.hear(master, { kind: 'replied', reply })
      }
    })
    if (this.#silence === undefined) this.#watchSilence()
  }

  #fail(askers: readonly Asker[], error: unknown): void {
    const { master, onError } = this.#options
    onError(error)
    for (const asker of askers) asker.hear(master, unanswered(error))
  }

  /** One timer for many batches, so silence may be noticed up to one limit late. */
  #watchSilence(): void {
    const { clock, sender, silenceMs } = this.#options
    this.#wasHeard = false
    this.#silence = deadline(clock, silenceMs, () => {
      this.#silence = undefined
      if (this.#inFlight === 0) return
      if (this.#wasHeard) this.#watchSilence()
      else sender.disconnect(`no data from the server for ${silenceMs} ms`)
    })
  }
}
