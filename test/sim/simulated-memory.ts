/** What a simulated master remembers: strings with an expiry, hashes and sorted sets. */
export type Value = string | ReadonlyMap<string, string>

export interface MemoryEntry {
  readonly value: Value
  /** Server milliseconds; undefined for a key that stays. */
  readonly expiresAt: number | undefined
}

const NO_FIELDS: ReadonlyMap<string, string> = new Map()

export class SimulatedMemory {
  readonly #entries = new Map<string, MemoryEntry>()
  readonly #wallNow: () => number

  constructor(wallNow: () => number) {
    this.#wallNow = wallNow
  }

  get(key: string): string | undefined {
    const value = this.#live(key)?.value
    return typeof value === 'string' ? value : undefined
  }

  exists(key: string): boolean {
    return this.#live(key) !== undefined
  }

  set(key: string, value: string, ttlMs: number): void {
    this.write(key, { value, expiresAt: this.#now() + ttlMs })
  }

  /** -1 for a key that stays, -2 for none. */
  pttl(key: string): number {
    const entry = this.#live(key)
    if (entry === undefined) return -2
    return entry.expiresAt === undefined ? -1 : entry.expiresAt - this.#now()
  }

  /** PEXPIRE … GT: never shorter. */
  lengthen(key: string, ttlMs: number): void {
    const entry = this.#live(key)
    const expiresAt = this.#now() + ttlMs
    if (entry?.expiresAt === undefined || expiresAt <= entry.expiresAt) return
    this.write(key, { value: entry.value, expiresAt })
  }

  /** PEXPIRE of a key that expires. */
  shorten(key: string, ttlMs: number): void {
    const entry = this.#live(key)
    if (entry === undefined) return
    this.write(key, { value: entry.value, expiresAt: this.#now() + ttlMs })
  }

  delete(key: string): void {
    if (this.#live(key) !== undefined) this.write(key, undefined)
  }

  hash(key: string): ReadonlyMap<string, string> {
    const value = this.#live(key)?.value
    return value instanceof Map ? value : NO_FIELDS
  }

  hashSet(key: string, fields: Readonly<Record<string, string>>): void {
    this.write(key, {
      value: new Map([...this.hash(key), ...Object.entries(fields)]),
      expiresAt: undefined,
    })
  }

  /** ZADD … NX, and an expiry that is never made shorter. */
  rankedAdd(key: string, member: string, score: number, ttlMs: number): void {
    const ranks = this.hash(key)
    const expiresAt = this.#now() + Math.max(ttlMs, this.pttl(key))
    const value = ranks.has(member) ? ranks : new Map([...ranks, [member, String(score)]])
    this.write(key, { value, expiresAt })
  }

  /** ZADD … XX GT. */
  rankedLater(key: string, member: string, score: number): void {
    const ranks = this.hash(key)
    if (Number(ranks.get(member)) >= score) return
    const expiresAt = this.#now() + this.pttl(key)
    this.write(key, { value: new Map([...ranks, [member, String(score)]]), expiresAt })
  }

  /** ZREM. */
  rankedRemove(key: string, member: string): void {
    this.#rankedKeep(key, (each) => each !== member)
  }

  /** ZREMRANGEBYSCORE -inf `score`. */
  rankedTrim(key: string, score: number): void {
    this.#rankedKeep(key, (_, own) => own > score)
  }

  /** ZRANGEBYSCORE `score` +inf. */
  rankedFrom(key: string, score: number): readonly string[] {
    return [...this.hash(key)]
      .map(([member, own]) => ({ member, own: Number(own) }))
      .filter(({ own }) => own >= score)
      .sort((a, b) => a.own - b.own || (a.member < b.member ? -1 : 1))
      .map(({ member }) => member)
  }

  keys(): string[] {
    return [...this.#entries.keys()].filter((key) => this.#live(key) !== undefined)
  }

  forgetAll(): void {
    this.#entries.clear()
  }

  protected stored(key: string): MemoryEntry | undefined {
    return this.#entries.get(key)
  }

  /** Undefined deletes the key. */
  protected write(key: string, entry: MemoryEntry | undefined): void {
    if (entry === undefined) this.#entries.delete(key)
    else this.#entries.set(key, entry)
  }

  #rankedKeep(key: string, keeps: (member: string, score: number) => boolean): void {
    const ranks = this.hash(key)
    const remaining = [...ranks].filter(([member, score]) => keeps(member, Number(score)))
    if (remaining.length === ranks.size) return
    const expiresAt = this.#live(key)?.expiresAt
    this.write(key, remaining.length === 0 ? undefined : { value: new Map(remaining), expiresAt })
  }

  /** Redis compares whole milliseconds. */
  #now(): number {
    return Math.floor(this.#wallNow())
  }

  #live(key: string): MemoryEntry | undefined {
    const entry = this.#entries.get(key)
    if (entry?.expiresAt === undefined || this.#now() <= entry.expiresAt) return entry
    this.#entries.delete(key)
    return undefined
  }
}
