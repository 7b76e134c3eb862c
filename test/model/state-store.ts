/**
 * All states of a search, in the order in which they were found, each with its parent. States are
 * short rows of 32-bit words; membership is decided by a 64-bit hash of the row, so that a table
 * entry takes eight bytes. With 50 million states the chance that any two share a hash is below one
 * in ten thousand.
 */
const ROWS_PER_CHUNK = 1 << 18

export class StateStore {
  readonly words: number
  readonly #rows: Uint32Array[] = []
  readonly #parents: Uint32Array[] = []
  #size = 0
  #high = new Uint32Array(1 << 16)
  #low = new Uint32Array(1 << 16)

  constructor(words: number) {
    this.words = words
  }

  get size(): number {
    return this.#size
  }

  /** Adds the row unless it is known; tells whether it was new. */
  add(row: Uint32Array, parent: number): boolean {
    if (this.#size * 2 >= this.#high.length) this.#grow()
    let high = 0x9e3779b9
    let low = 0x85ebca6b
    for (let index = 0; index < this.words; index++) {
      const word = row[index] ?? 0
      high = Math.imul(high ^ word, 0xcc9e2d51)
      high = ((high << 15) | (high >>> 17)) ^ Math.imul(low, 0x1b873593)
      low = Math.imul(low ^ (word + index), 0xc2b2ae35)
      low = ((low << 13) | (low >>> 19)) + high
    }
    high = Math.imul(high ^ (high >>> 16), 0x7feb352d) ^ low
    low = Math.imul(low ^ (low >>> 15), 0x846ca68b) ^ (high >>> 7)
    if (!this.#insert(high >>> 0, (low | 1) >>> 0)) return false
    const chunk = Math.floor(this.#size / ROWS_PER_CHUNK)
    const at = this.#size % ROWS_PER_CHUNK
    if (at === 0) {
      this.#rows.push(new Uint32Array(ROWS_PER_CHUNK * this.words))
      this.#parents.push(new Uint32Array(ROWS_PER_CHUNK))
    }
    this.#rows[chunk]?.set(row.subarray(0, this.words), at * this.words)
    const parents = this.#parents[chunk]
    if (parents !== undefined) parents[at] = parent
    this.#size++
    return true
  }

  read(index: number, into: Uint32Array): void {
    const rows = this.#rows[Math.floor(index / ROWS_PER_CHUNK)]
    const at = (index % ROWS_PER_CHUNK) * this.words
    for (let word = 0; word < this.words; word++) into[word] = rows?.[at + word] ?? 0
  }

  parentOf(index: number): number {
    return this.#parents[Math.floor(index / ROWS_PER_CHUNK)]?.[index % ROWS_PER_CHUNK] ?? 0
  }

  /** `low` is never 0, which marks a free place. */
  #insert(high: number, low: number): boolean {
    const mask = this.#high.length - 1
    let place = high & mask
    for (;;) {
      const known = this.#low[place]
      if (known === 0) break
      if (known === low && this.#high[place] === high) return false
      place = (place + 1) & mask
    }
    this.#high[place] = high
    this.#low[place] = low
    return true
  }

  #grow(): void {
    const [high, low] = [this.#high, this.#low]
    this.#high = new Uint32Array(high.length * 2)
    this.#low = new Uint32Array(low.length * 2)
    for (let place = 0; place < high.length; place++) {
      const known = low[place] ?? 0
      if (known !== 0) this.#insert(high[place] ?? 0, known)
    }
  }
}
