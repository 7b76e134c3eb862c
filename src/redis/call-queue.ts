/**
 * How calls leave for one master: at the end of the turn while nothing is under way, otherwise when the answer to what is
 * under way is there; what has gathered by then is sent together. A call waits for others at most a millisecond, so that a master which does not
 * answer holds nobody up. Whoever waits for a call has a deadline of its own; one that passes before the call has
 * left takes the call back.
 */
import { atEndOfTurn, type Clock, type Timer } from '../clock.ts'
import { encodeBatch, EntryError, entryReply, type Call } from './batch.ts'
import type { Script } from './script.ts'

export interface QueuedCall extends Call {
  /** Nobody waits for it any more: when it has not left yet, it never will. */
  readonly settled: boolean
  left: boolean
  onReply(reply: unknown): void
  /** An `EntryError`, or what became of the connection. */
  onError(error: unknown): void
}

export interface CallQueueOptions {
  readonly clock: Clock
  /** All scripts in one; see `batchOf`. */
  readonly batch: Script
  readonly send: (call: Call) => Promise<unknown>
  /** Hears of every error before the call that met it does. */
  readonly onError: (error: unknown) => void
}

/** A reply with more entries keeps a master's other clients waiting. */
const MAX_ENTRIES = 64
const MAX_GATHER_MS = 1

export class CallQueue {
  readonly #options: CallQueueOptions
  #waiting: QueuedCall[] = []
  #underWay = 0
  #timer: Timer | undefined
  #scheduled = false

  constructor(options: CallQueueOptions) {
    this.#options = options
  }

  add(call: QueuedCall): void {
    this.#waiting.push(call)
    if (this.#waiting.length >= MAX_ENTRIES) this.#flush()
    else if (this.#underWay === 0) this.#flushSoon()
    else {
      this.#timer ??= this.#options.clock.after(MAX_GATHER_MS, () => {
        this.#flush()
      })
    }
  }

  /** Takes back what has not left. */
  clear(): readonly QueuedCall[] {
    this.#timer?.cancel()
    this.#timer = undefined
    return this.#waiting.splice(0).filter(({ settled }) => !settled)
  }

  /** Callers that were all waiting for the same reply go on in the same turn, and ask the next thing together. */
  #flushSoon(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    atEndOfTurn(() => {
      this.#scheduled = false
      this.#flush()
    })
  }

  #flush(): void {
    const calls = this.clear()
    for (let from = 0; from < calls.length; from += MAX_ENTRIES) {
      this.#send(calls.slice(from, from + MAX_ENTRIES))
    }
  }

  #send(calls: readonly QueuedCall[]): void {
    const [first] = calls
    if (first === undefined) return
    const { batch, send, onError } = this.#options
    const alone = calls.length === 1
    for (const call of calls) call.left = true
    this.#underWay++
    send(alone ? first : { script: batch, keys: [], args: [encodeBatch(calls)] }).then(
      (replies) => {
        this.#arrived()
        for (const [index, call] of calls.entries()) {
          const reply = alone ? replies : entryReply(replies, index)
          if (!(reply instanceof EntryError)) {
            call.onReply(reply)
            continue
          }
          onError(reply)
          call.onError(reply)
        }
      },
      (error: unknown) => {
        this.#arrived()
        onError(error)
        for (const call of calls) call.onError(error)
      },
    )
  }

  #arrived(): void {
    this.#underWay--
    if (this.#underWay === 0) this.#flushSoon()
  }
}
