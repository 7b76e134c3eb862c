/**
 * Sends together what happens in one turn of the event loop, a few items at a time, and gives each
 * its own reply: see `lua/together.lua`.
 */
export interface TurnGroupOptions<Item> {
  /** `bytes`: about how long the items of one call are. */
  readonly most: { readonly items: number; readonly bytes: number }
  readonly send: (items: readonly Item[]) => Promise<unknown>
  /** What the server said about one of them. */
  readonly settle: (item: Item, reply: unknown) => void
}

export class TurnGroup<Item> {
  readonly #options: TurnGroupOptions<Item>
  #items: Item[] = []
  #bytes = 0
  /** Calls that were sent, and are not settled. */
  #underWay = 0

  constructor(options: TurnGroupOptions<Item>) {
    this.#options = options
  }

  add(item: Item, bytes: number): void {
    if (this.#items.length === 0) process.nextTick(this.flush)
    this.#items.push(item)
    this.#bytes += bytes
    const { most } = this.#options
    if (this.#items.length >= most.items || this.#bytes >= most.bytes) this.flush()
  }

  readonly flush = (): void => {
    const items = this.#items
    this.#items = []
    this.#bytes = 0
    if (items.length > 0) void this.#send(items)
  }

  async #send(items: readonly Item[]): Promise<void> {
    const { send, settle } = this.#options
    this.#underWay++
    try {
      const reply = await send(items)
      // Replies that came together are settled in a turn each. So what the jobs of one call send
      // leaves, and the server works, before those of the next call are settled.
      if (this.#underWay > 1) await new Promise((resolve) => setImmediate(resolve))
      const replies = (typeof reply === 'string' ? JSON.parse(reply) : reply) as readonly unknown[]
      items.forEach((item, index) => {
        const own = replies[index]
        const message: unknown = Array.isArray(own) ? own[0] : undefined
        const isError = typeof message === 'string'
        settle(item, isError ? Object.assign(new Error(message), { name: 'ReplyError' }) : own)
      })
    } catch (error) {
      for (const item of items) settle(item, error)
    } finally {
      this.#underWay--
    }
  }
}
