/**
 * Batches calls to one master. If no batch is in flight, calls made in the current turn of the
 * event loop leave together. Otherwise they wait for the reply in flight, at most a millisecond, so
 * a slow master cannot stall callers. Each caller has a deadline; one that passes before the call
 * has left takes the call back.
 */
import { atEndOfTurn, type Clock, type Timer } from '../clock.ts'
import { BatchAnswer, EntryError } from './batch.ts'
import type { BatchSender } from './batch-sender.ts'
import { unanswered, type PendingCall, type SentAt } from './master.ts'

export interface CallQueueOptions {
  readonly clock: Clock
  readonly runId: () => string
  readonly sender: Pick<BatchSender, 'send'>
  /** Hears the server's time with an answer, before the callers hear theirs. */
  readonly onTime: (serverMs: number, sentAt: SentAt) => void
  /** Hears of every error before its callers do. */
  readonly onError: (error: unknown) => void
}

/** A reply with more entries keeps a master's other clients waiting. */
const MAX_ENTRIES = 64
const MAX_GATHER_MS = 1

export class CallQueue {
  readonly #options: CallQueueOptions
  #waiting: PendingCall[] = []
  #inFlight = 0
  #timer: Timer | undefined
  #isScheduled = false

  constructor(options: CallQueueOptions) {
    this.#options = options
  }

  add(request: PendingCall): void {
    this.#waiting.push(request)
    if (this.#waiting.length >= MAX_ENTRIES) this.#flush()
    else if (this.#inFlight === 0) this.#flushSoon()
    else this.#timer ??= this.#options.clock.after(MAX_GATHER_MS, this.#flush)
  }

  /** Takes back what has not left. */
  clear(): readonly PendingCall[] {
    this.#timer?.cancel()
    this.#timer = undefined
    const waiting = this.#waiting
    this.#waiting = []
    return waiting
  }

  /** Callers that waited for one reply go on in the same turn, and ask the next thing together. */
  #flushSoon(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    atEndOfTurn(this.#flush)
  }

  readonly #flush = (): void => {
    this.#isScheduled = false
    let entries = ''
    let bytes = 0
    let leaving: PendingCall[] = []
    for (const request of this.clear()) {
      if (request.settled) continue
      request.left = true
      entries += request.call.entry
      bytes += request.call.bytes
      leaving.push(request)
      if (leaving.length < MAX_ENTRIES) continue
      this.#send(leaving, entries, bytes)
      entries = ''
      bytes = 0
      leaving = []
    }
    if (leaving.length > 0) this.#send(leaving, entries, bytes)
  }

  #send(requests: readonly PendingCall[], entries: string, bytes: number): void {
    const { clock, runId, sender, onError } = this.#options
    const sentAt = { now: clock.now(), wallNow: clock.wallNow() }
    this.#inFlight++
    sender.send({
      ...{ entries, bytes, runId: runId() },
      answered: (answer) => {
        this.#arrived()
        this.#tell(requests, new BatchAnswer(answer), sentAt)
      },
      failed: (error) => {
        this.#arrived()
        onError(error)
        for (const request of requests) request.hear(unanswered(error, true))
      },
    })
  }

  #tell(requests: readonly PendingCall[], answer: BatchAnswer, sentAt: SentAt): void {
    const { onError, onTime } = this.#options
    if (Number.isFinite(answer.serverMs)) onTime(answer.serverMs, sentAt)
    for (const request of requests) {
      const entry = answer.next()
      if (entry.reply instanceof EntryError) {
        onError(entry.reply)
        request.hear(unanswered(entry.reply, true))
      } else request.hear(entry)
    }
  }

  #arrived(): void {
    this.#inFlight--
    if (this.#inFlight === 0 && this.#waiting.length > 0) this.#flushSoon()
  }
}
