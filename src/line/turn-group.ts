/**
 * Sends together what happens in one turn of the event loop, a few items at a time, and gives each
 * its own reply: see `lua/together.lua`.
 */
export class TurnGroup<Item> {
  readonly #most: { readonly items: number; readonly bytes: number }
  readonly #send: (items: readonly Item[]) => Promise<unknown>
  readonly #settle: (item: Item, reply: unknown) => void
  #items: Item[] = []
  #bytes = 0
  /** Calls that were sent, and are not settled. */
  #underWay = 0

  /** @param settle is told what the server said about an item: an Error, or its reply. */
  constructor(
    most: { items: number; bytes: number },
    send: (items: readonly Item[]) => Promise<unknown>,
    settle: (item: Item, reply: unknown) => void,
  ) {
    this.#most = most
    this.#send = send
    this.#settle = settle
  }

  /** @param bytes about how long it is. */
  add(item: Item, bytes: number): void {
    if (this.#items.length === 0) process.nextTick(this.flush)
    this.#items.push(item)
    this.#bytes += bytes
    const { items: mostItems, bytes: mostBytes } = this.#most
    if (this.#items.length >= mostItems || this.#bytes >= mostBytes) void this.flush()
  }

  readonly flush = async (): Promise<void> => {
    const items = this.#items
    if (items.length === 0) return
    this.#items = []
    this.#bytes = 0
    this.#underWay++
    try {
      const reply = await this.#send(items)
      // Replies that came together are settled in a turn each. So what the jobs of one call send
      // leaves, and the server works, before those of the next call are settled.
      if (this.#underWay > 1) await new Promise((resolve) => setImmediate(resolve))
      const replies = (typeof reply === 'string' ? JSON.parse(reply) : reply) as readonly unknown[]
      for (const [index, item] of items.entries()) {
        const own = replies[index]
        const message: unknown = Array.isArray(own) ? own[0] : undefined
        const isError = typeof message === 'string'
        this.#settle(
          item,
          isError ? Object.assign(new Error(message), { name: 'ReplyError' }) : own,
        )
      }
    } catch (error) {
      for (const item of items) this.#settle(item, error)
    } finally {
      this.#underWay--
    }
  }
}
