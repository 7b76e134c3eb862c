import { atEndOfTurn } from '../clock.ts'

/**
 * Sends together what happens in one turn of the event loop, a few items at a time, and gives each
 * its own reply: see `lua/together.lua`.
 */
export abstract class TurnGroup<Item> {
  readonly #most: { readonly items: number; readonly bytes: number }
  #waiting: InGroup<Item>[] = []
  #bytes = 0
  /** Calls that were sent, and are not settled. */
  #underWay = 0

  constructor(most: { items: number; bytes: number }) {
    this.#most = most
  }

  protected abstract send(items: readonly Item[]): Promise<unknown>

  /**
   * @param bytes about how long it is.
   * @returns what the server says about it.
   */
  add(item: Item, bytes: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) atEndOfTurn(() => void this.flush())
      this.#waiting.push({ item, resolve, reject })
      this.#bytes += bytes
      const { items: mostItems, bytes: mostBytes } = this.#most
      if (this.#waiting.length >= mostItems || this.#bytes >= mostBytes) void this.flush()
    })
  }

  readonly flush = async (): Promise<void> => {
    const waiting = this.#waiting
    if (waiting.length === 0) return
    this.#waiting = []
    this.#bytes = 0
    this.#underWay++
    try {
      const reply = await this.send(waiting.map(({ item }) => item))
      // Replies that came together are settled in a turn each. So what the jobs of one call send
      // leaves, and the server works, before those of the next call are settled.
      if (this.#underWay > 1) await new Promise((resolve) => setImmediate(resolve))
      const replies = (typeof reply === 'string' ? JSON.parse(reply) : reply) as readonly unknown[]
      for (const [index, { resolve, reject }] of waiting.entries()) {
        const own = replies[index]
        const message: unknown = Array.isArray(own) ? own[0] : undefined
        if (typeof message !== 'string') resolve(own)
        else reject(Object.assign(new Error(message), { name: 'ReplyError' }))
      }
    } catch (error) {
      for (const { reject } of waiting) reject(error)
    } finally {
      this.#underWay--
    }
  }
}

interface InGroup<Item> {
  readonly item: Item
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
}
