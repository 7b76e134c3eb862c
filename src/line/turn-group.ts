/** Sends together what happens in one turn of the event loop, a few items at a time. */
export class TurnGroup<Item> {
  readonly #most: { readonly items: number; readonly bytes: number }
  readonly #send: (items: readonly Item[]) => void
  #items: Item[] = []
  #bytes = 0

  constructor(most: { items: number; bytes: number }, send: (items: readonly Item[]) => void) {
    this.#most = most
    this.#send = send
  }

  /** @param bytes about how long it is. */
  add(item: Item, bytes: number): void {
    if (this.#items.length === 0) process.nextTick(this.#flush)
    this.#items.push(item)
    this.#bytes += bytes
    const { items: mostItems, bytes: mostBytes } = this.#most
    if (this.#items.length >= mostItems || this.#bytes >= mostBytes) this.#flush()
  }

  readonly #flush = (): void => {
    const items = this.#items
    this.#items = []
    this.#bytes = 0
    if (items.length > 0) this.#send(items)
  }
}
