/**
 * Batches calls to one master. If no batch is in flight, calls made in the current turn of the
 * event loop leave together. Otherwise they wait for the reply in flight, at most a millisecond, so
 * a slow master cannot stall callers. Each caller has a deadline; one that passes before the call
 * has left takes the call back.
 */
import { atEndOfTurn, instant, type Clock, type Instant, type Timer } from '../../clock.ts'
import { EntryError, readBatch } from './batch.ts'
import type { BatchSender } from './batch-sender.ts'
import {
  unanswered,
  type CallResult,
  type Master,
  type MasterConnectionOptions,
  type Request,
} from './master.ts'

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

export class CallQueue {
  readonly #options: CallQueueOptions
  /** The answer to every call while the master may not vote. */
  #closed: CallResult | undefined
  #waiting: Request[] = []
  #inFlight = 0
  #timer: Timer | undefined
  #isScheduled = false
  #wasHeard = false
  #silence: Timer | undefined

  constructor(options: CallQueueOptions) {
    this.#options = options
  }

  /** Answers as late as the connection breaks; at once while it is closed. */
  readonly ask = (request: Request): void => {
    if (this.#closed !== undefined) {
      request.asker.hear(request, this.#closed)
      return
    }
    this.#waiting.push(request)
    if (this.#waiting.length >= MAX_ENTRIES) this.#flush()
    else if (this.#inFlight === 0) this.#flushSoon()
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
    for (const request of this.#waiting.splice(0)) request.asker.hear(request, result)
  }

  /** Callers that waited for one reply go on in the same turn, and ask the next thing together. */
  #flushSoon(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    atEndOfTurn(this.#flush)
  }

  readonly #flush = (): void => {
    const { clock, sender } = this.#options
    this.#isScheduled = false
    this.#timer?.cancel()
    this.#timer = undefined
    let entries = ''
    let bytes = 0
    const requests = this.#waiting
    let count = 0
    for (const request of requests) {
      if (request.isSettled) continue
      request.isSent = true
      entries += request.call.entry
      bytes += request.call.bytes
      requests[count++] = request
    }
    requests.length = count
    if (count === 0) return
    this.#waiting = []
    const sentAt = instant(clock)
    this.#inFlight++
    sender.send(entries, bytes, (answer, error) => {
      this.#inFlight--
      this.#wasHeard = true
      if (this.#inFlight === 0 && this.#waiting.length > 0) this.#flushSoon()
      if (error === undefined) this.#answer(requests, answer, sentAt)
      else this.#fail(requests, error)
    })
    if (this.#silence === undefined) this.#watchSilence()
  }

  #answer(requests: readonly Request[], answer: unknown, sentAt: Instant): void {
    const { master, onTime } = this.#options
    const entries = readBatch(answer, requests.length)
    const { serverMs = Number.NaN } = entries[0] ?? {}
    if (Number.isFinite(serverMs)) onTime(master, serverMs, sentAt)
    for (let index = 0; index < requests.length; index++) {
      const [request, entry] = [requests[index], entries[index]]
      if (request === undefined || entry === undefined) continue
      if (entry.reply instanceof EntryError) this.#fail([request], entry.reply)
      else request.asker.hear(request, entry)
    }
  }

  #fail(requests: readonly Request[], error: unknown): void {
    this.#options.onError(error)
    for (const request of requests) request.asker.hear(request, unanswered(error, true))
  }

  /** One timer for many batches, so silence may be noticed up to one limit late. */
  #watchSilence(): void {
    const { clock, sender, silenceMs } = this.#options
    this.#wasHeard = false
    this.#silence = clock.after(silenceMs, () => {
      this.#silence = undefined
      if (this.#inFlight === 0) return
      if (this.#wasHeard) this.#watchSilence()
      else sender.disconnect(`no data from the server for ${silenceMs} ms`)
    })
  }
}
