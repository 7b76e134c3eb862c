/**
 * How calls leave for one master: alone while nothing is under way, otherwise gathered until the answer to what is
 * under way is there, and sent together. A call waits for others at most a millisecond, so that a master which does not
 * answer holds nobody up. Whoever waits for a call has a deadline of its own; one that passes before the call has
 * left takes the call back.
 */
import type { Clock, Timer } from '../clock.ts'
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
}

/** A reply with more entries keeps a master's other clients waiting. */
const MAX_ENTRIES = 64
const MAX_GATHER_MS = 1

export class CallQueue {
  readonly #options: CallQueueOptions
  #waiting: QueuedCall[] = []
  #underWay = 0
  #timer: Timer | undefined

  constructor(options: CallQueueOptions) {
    this.#options = options
  }

  add(call: QueuedCall): void {
    this.#waiting.push(call)
    if (this.#underWay === 0 || this.#waiting.length >= MAX_ENTRIES) this.#flush()
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

  #flush(): void {
    const calls = this.clear()
    for (let from = 0; from < calls.length; from += MAX_ENTRIES) {
      this.#send(calls.slice(from, from + MAX_ENTRIES))
    }
  }

  #send(calls: readonly QueuedCall[]): void {
    const [first] = calls
    if (first === undefined) return
    const { batch, send } = this.#options
    const alone = calls.length === 1
    for (const call of calls) call.left = true
    this.#underWay++
    send(alone ? first : { script: batch, ...encodeBatch(calls) }).then(
      (replies) => {
        this.#arrived()
        for (const [index, call] of calls.entries()) {
          const reply = alone ? replies : entryReply(replies, index)
          if (reply instanceof EntryError) call.onError(reply)
          else call.onReply(reply)
        }
      },
      (error: unknown) => {
        this.#arrived()
        for (const call of calls) call.onError(error)
      },
    )
  }

  #arrived(): void {
    this.#underWay--
    if (this.#underWay === 0) this.#flush()
  }
}
