/** Randomness that a seed repeats: Marsaglia's xorshift128, seeded through splitmix32. */
export class SeededRandom {
  readonly #state: Uint32Array

  constructor(seed: number) {
    let mixed = seed >>> 0
    this.#state = Uint32Array.from({ length: 4 }, () => {
      mixed = (mixed + 0x9e3779b9) >>> 0
      let word = mixed
      word = Math.imul(word ^ (word >>> 16), 0x85ebca6b)
      word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35)
      return (word ^ (word >>> 16)) >>> 0
    })
    this.#state.set([1], 3) // Never all zero: it would stay so.
  }

  /** In [0, 1). */
  next(): number {
    const [first = 0, second = 0, third = 0, last = 0] = this.#state
    const mixed = first ^ (first << 11)
    const next = (last ^ (last >>> 19) ^ mixed ^ (mixed >>> 8)) >>> 0
    this.#state.set([second, third, last, next])
    return next / 2 ** 32
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  between(min: number, max: number): number {
    return min + this.next() * (max - min)
  }

  /** An integer from `min` to `max`, both included. */
  integer(min: number, max: number): number {
    return Math.floor(this.between(min, max + 1))
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[Math.floor(this.next() * items.length)]
    if (item === undefined) throw new Error('Expected at least one item to pick from')
    return item
  }

  shuffle<Item>(items: readonly Item[]): Item[] {
    return items
      .map((item) => ({ item, order: this.next() }))
      .sort((a, b) => a.order - b.order)
      .map(({ item }) => item)
  }

  /** A further source, so that what one part draws does not shift what another part gets. */
  fork(): SeededRandom {
    return new SeededRandom(Math.floor(this.next() * 2 ** 32))
  }
}
