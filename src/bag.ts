/**
 * Many that come and go, in the order in which they came. A `Set` keeps what has left it in its old
 * tables, where it survives collections.
 */

/** What can be in one bag of each kind. */
export type Bagged<Kind extends string> = {
  /** Its place in the bag; -1 where it is in none. */
  [Name in Kind]: number
}

const SPARSE = 32

export class Bag<Kind extends string, Item extends Bagged<Kind>> {
  /** How many are in it. */
  size = 0
  readonly #kind: Kind
  readonly #items: (Item | undefined)[] = []

  /** @param kind names the field of an item that has its place. */
  constructor(kind: Kind) {
    this.#kind = kind
  }

  add(item: Item): void {
    const bagged: Bagged<Kind> = item
    bagged[this.#kind] = this.#items.push(item) - 1
    this.size++
  }

  /** Does nothing for what has left. */
  delete(item: Item): void {
    const place = item[this.#kind]
    if (this.#items[place] !== item) return
    this.#place(item, -1)
    this.#items[place] = undefined
    this.size--
    if (this.size === 0) this.#items.length = 0
    else if (this.#items.length > SPARSE + 2 * this.size) this.#close()
  }

  /** Those that are in it now. */
  values(): readonly Item[] {
    return this.#items.filter((item) => item !== undefined)
  }

  /** Closes the gaps. */
  #close(): void {
    let place = 0
    for (const item of this.#items) {
      if (item === undefined) continue
      this.#items[place] = item
      this.#place(item, place++)
    }
    this.#items.length = place
  }

  #place(item: Bagged<Kind>, place: number): void {
    item[this.#kind] = place
  }
}
