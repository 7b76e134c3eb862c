/**
 * How calls leave for one master: at the end of the turn while nothing is under way, otherwise when the answer to what is
 * under way is there; what has gathered by then is sent together. A call waits for others at most a millisecond, so that a master which does not
 * answer holds nobody up. Whoever waits for a call has a deadline of its own; one that passes before the call has
 * left takes the call back.
 */
import { atEndOfTurn, type Clock, type Timer } from '../clock.ts'
import { EntryError, readBatch, type Call, type Entry } from './batch.ts'

export interface QueuedCall {
  readonly call: Call
  /** Nobody waits for it any more: when it has not left yet, it never will. */
  readonly settled: boolean
  left: boolean
  onReply(entry: Entry): void
  /** An `EntryError`, or what became of the connection. */
  onError(error: unknown): void
}

export interface CallQueueOptions {
  readonly clock: Clock
  /** Sends a batch of them and resolves to what the server answers. */
  readonly send: (calls: readonly Call[]) => Promise<unknown>
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
    const { send, onError } = this.#options
    for (const call of calls) call.left = true
    this.#underWay++
    send(calls.map(({ call }) => call)).then(
      (answer) => {
        this.#arrived()
        const entries = readBatch(answer, calls.length)
        for (const [index, entry] of entries.entries()) {
          const { reply } = entry
          if (reply instanceof EntryError) {
            onError(reply)
            calls[index]?.onError(reply)
          } else calls[index]?.onReply(entry)
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
