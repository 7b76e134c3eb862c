/**
 * A memory whose last writes a crash may lose, as an AOF that is synced once a second does.
 */
import { SimulatedMemory, type MemoryEntry } from './simulated-memory.ts'

interface Undo {
  /** True time of the write. */
  readonly at: number
  readonly key: string
  readonly before: MemoryEntry | undefined
}

/** How much of the journal is kept. */
const JOURNAL_MS = 1_500

export class JournaledMemory extends SimulatedMemory {
  readonly #trueNow: () => number
  #journal: Undo[] = []

  constructor(wallNow: () => number, trueNow: () => number) {
    super(wallNow)
    this.#trueNow = trueNow
  }

  override forgetAll(): void {
    super.forgetAll()
    this.#journal = []
  }

  /** Undoes every write of the last `ms` true milliseconds. */
  forgetLast(ms: number): void {
    const from = this.#trueNow() - ms
    for (let undo = this.#journal.pop(); undo !== undefined; undo = this.#journal.pop()) {
      if (undo.at < from) break
      super.write(undo.key, undo.before)
    }
    this.#journal = []
  }

  protected override write(key: string, entry: MemoryEntry | undefined): void {
    const at = this.#trueNow()
    if (this.#journal.length > 1_000) {
      this.#journal = this.#journal.filter((undo) => undo.at >= at - JOURNAL_MS)
    }
    this.#journal.push({ at, key, before: this.stored(key) })
    super.write(key, entry)
  }
}
