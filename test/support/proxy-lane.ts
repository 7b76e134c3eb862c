/**
 * One direction of one proxied connection: what it takes in it loses, holds, delays or forwards.
 */

import type { Socket } from 'node:net'

/** What happens to the bytes of one direction, in every connection of a proxy. */
export interface LaneRule {
  lose: boolean
  hold: boolean
  delayMs: () => number
  /** Each byte in a packet of its own. */
  bytewise: boolean
  /** Told of the first bytes that a hold stops. */
  onHeld: () => void
  readonly counters: LaneCounters
}

/** Numbers of one direction over all connections. Everything but `bytes` counts chunks. */
export interface LaneCounters {
  /** Forwarded, so neither lost nor still waiting. */
  bytes: number
  lost: number
  held: number
  delayed: number
}

export function forwardingRule(): LaneRule {
  return {
    lose: false,
    hold: false,
    delayMs: () => 0,
    bytewise: false,
    onHeld: () => undefined,
    counters: { bytes: 0, lost: 0, held: 0, delayed: 0 },
  }
}

/** How a stream ends is part of it, and waits in line behind its bytes. */
type Item = Buffer | 'end' | 'reset'

interface Waiting {
  readonly item: Item
  readonly dueAt: number
}

export class Lane {
  readonly #to: Socket
  readonly #rule: LaneRule
  /** Only its head may leave, so the order stays whatever the jitter says. */
  readonly #queue: Waiting[] = []
  #timer: NodeJS.Timeout | undefined
  #nextTurn: NodeJS.Immediate | undefined
  #broken = false

  constructor(from: Socket, to: Socket, rule: LaneRule) {
    this.#to = to
    this.#rule = rule
    from.on('data', (bytes: Buffer) => {
      this.#take(bytes)
    })
    from.on('end', () => {
      this.#take('end')
    })
    // Nothing is done on 'error': 'close' follows and says that there was one.
    from.on('error', () => undefined)
    from.on('close', (hadError) => {
      if (hadError) this.#take('reset')
    })
  }

  /** Whether something was lost. TCP loses nothing, so the connection must not go on. */
  get broken(): boolean {
    return this.#broken
  }

  /** Forwards what is due; called again when the rule changes. */
  flush(): void {
    clearTimeout(this.#timer)
    clearImmediate(this.#nextTurn)
    if (this.#rule.lose) {
      for (const { item } of this.#queue.splice(0)) this.#lose(item)
      return
    }
    if (this.#rule.hold) return
    const now = performance.now()
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      if (next.dueAt > now) {
        this.#timer = setTimeout(() => {
          this.flush()
        }, next.dueAt - now)
        return
      }
      this.#queue.shift()
      this.#forward(next.item)
      if (!this.#rule.bytewise) continue
      this.#nextTurn = setImmediate(() => {
        this.flush()
      })
      return
    }
  }

  /** Loses what waits. */
  discard(): void {
    clearTimeout(this.#timer)
    for (const { item } of this.#queue.splice(0)) this.#lose(item)
  }

  #take(item: Item): void {
    const delayMs = this.#rule.delayMs()
    const dueAt = performance.now() + delayMs
    const isSplit = this.#rule.bytewise && typeof item !== 'string'
    for (const part of isSplit ? Array.from(item, (byte) => Buffer.of(byte)) : [item]) {
      this.#queue.push({ item: part, dueAt })
    }
    if (delayMs > 0 && typeof item !== 'string') this.#rule.counters.delayed += 1
    if (this.#rule.hold && !this.#rule.lose && typeof item !== 'string') {
      this.#rule.counters.held += 1
      this.#rule.onHeld()
    }
    this.flush()
  }

  #lose(item: Item): void {
    this.#broken = true
    if (typeof item !== 'string') this.#rule.counters.lost += 1
  }

  #forward(item: Item): void {
    if (this.#to.destroyed) return
    if (item === 'end') this.#to.end()
    else if (item === 'reset') this.#to.resetAndDestroy()
    else if (this.#to.writable) {
      this.#rule.counters.bytes += item.length
      this.#to.write(item)
    }
  }
}
