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
  type Asker,
  type CallResult,
  type Master,
  type MasterConnectionOptions,
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
  #waiting: Asker[] = []
  #inFlight = 0
  #timer: Timer | undefined
  #isScheduled = false
  #wasHeard = false
  #silence: Timer | undefined

  constructor(options: CallQueueOptions) {
    this.#options = options
  }

  /** Answers as late as the connection breaks; at once while it is closed. */
  readonly ask = (asker: Asker): void => {
    if (this.#closed !== undefined) {
      asker.hear(this.#options.master.index, this.#closed)
      return
    }
    this.#waiting.push(asker)
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
    const { index } = this.#options.master
    for (const asker of this.#waiting.splice(0)) asker.hear(index, result)
  }

  /** Callers that waited for one reply go on in the same turn, and ask the next thing together. */
  #flushSoon(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    atEndOfTurn(this.#flush)
  }

  readonly #flush = (): void => {
    const { clock, sender, master } = this.#options
    this.#isScheduled = false
    this.#timer?.cancel()
    this.#timer = undefined
    const askers = this.#waiting
    let [entries, bytes, count] = ['', 0, 0]
    for (const asker of askers) {
      const call = asker.leaving(master.index)
      if (call === undefined) continue
      entries += call.entry
      bytes += call.bytes
      askers[count++] = asker
    }
    askers.length = count
    if (count === 0) return
    this.#waiting = []
    const sentAt = instant(clock)
    this.#inFlight++
    sender.send(entries, bytes, (answer, error) => {
      this.#inFlight--
      this.#wasHeard = true
      if (this.#inFlight === 0 && this.#waiting.length > 0) this.#flushSoon()
      if (error === undefined) this.#answer(askers, answer, sentAt)
      else this.#fail(askers, error)
    })
    if (this.#silence === undefined) this.#watchSilence()
  }

  #answer(askers: readonly Asker[], answer: unknown, sentAt: Instant): void {
    const { master, onTime } = this.#options
    const entries = readBatch(answer, askers.length)
    const { serverMs = Number.NaN } = entries[0] ?? {}
    if (Number.isFinite(serverMs)) onTime(master, serverMs, sentAt)
    for (let place = 0; place < askers.length; place++) {
      const [asker, entry] = [askers[place], entries[place]]
      if (asker === undefined || entry === undefined) continue
      if (entry.reply instanceof EntryError) this.#fail([asker], entry.reply)
      else asker.hear(master.index, entry)
    }
  }

  #fail(askers: readonly Asker[], error: unknown): void {
    const { master, onError } = this.#options
    onError(error)
    for (const asker of askers) asker.hear(master.index, unanswered(error, true))
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
