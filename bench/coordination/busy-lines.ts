/** Lines that always have jobs: each job that has run is replaced. */
import { setTimeout as delay } from 'node:timers/promises'
import { sum } from '../statistics.ts'
import type { Producer } from './harness.ts'
import type { KeyedJob } from './job.ts'

interface Size {
  readonly lines: number
  /** How many jobs of each line are there at any time. */
  readonly depth: number
  readonly workMs: number
  /** How often jobs are added. */
  readonly everyMs: number
}

export class BusyLines {
  readonly #size: Size
  /** `ran` counts a job that runs again once. */
  readonly #lines: readonly { readonly key: string; added: number; ran: number }[]

  constructor(prefix: string, size: Size) {
    this.#size = size
    this.#lines = Array.from({ length: size.lines }, (_, index) => ({
      ...{ key: `${prefix}-line-${index}`, added: 0, ran: 0 },
    }))
  }

  get added(): number {
    return sum(this.#lines.map(({ added }) => added))
  }

  left(key: string, nr: number): void {
    const line = this.#lines.find((one) => one.key === key)
    if (line !== undefined) line.ran = Math.max(line.ran, nr + 1)
  }

  /** Fills the lines and keeps them full until the returned function is called. */
  async keepFull(producer: Producer): Promise<() => Promise<void>> {
    const over = new AbortController()
    await producer.add(this.#missing())
    const toppingUp = (async () => {
      while (!over.signal.aborted) {
        await delay(this.#size.everyMs)
        await producer.add(this.#missing())
      }
    })()
    return () => {
      over.abort()
      return toppingUp
    }
  }

  /** One of each line in turns. */
  #missing(): readonly KeyedJob[] {
    const { depth, workMs } = this.#size
    const jobs: KeyedJob[] = []
    for (let turn = 0; turn < depth; turn++) {
      for (const line of this.#lines) {
        if (line.added - line.ran < depth) jobs.push({ key: line.key, nr: line.added++, workMs })
      }
    }
    return jobs
  }
}
