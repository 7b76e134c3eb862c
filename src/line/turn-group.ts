/**
 * Sends together what happens in one turn of the event loop: a few items at a time, so that the
 * server works on the first while the others are prepared.
 */
export class TurnGroup<Item> {
  readonly #send: (items: readonly Item[]) => void
  readonly #mostItems: number
  readonly #mostBytes: number
  #items: Item[] = []
  #bytes = 0

  constructor(
    limits: { readonly items: number; readonly bytes: number },
    send: (items: readonly Item[]) => void,
  ) {
    this.#mostItems = limits.items
    this.#mostBytes = limits.bytes
    this.#send = send
  }

  /** @param bytes about how long it is. */
  add(item: Item, bytes: number): void {
    if (this.#items.length === 0) process.nextTick(this.#flush)
    this.#items.push(item)
    this.#bytes += bytes
    if (this.#items.length >= this.#mostItems || this.#bytes >= this.#mostBytes) this.#flush()
  }

  readonly #flush = (): void => {
    const items = this.#items
    if (items.length === 0) return
    this.#items = []
    this.#bytes = 0
    this.#send(items)
  }
}
