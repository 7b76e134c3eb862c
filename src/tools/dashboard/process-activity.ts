/** What the Redlocks and workers of this process did in the last minute, in exact numbers. */
import { listen, type Listener } from '../../channel.ts'
import { systemClock } from '../../clock.ts'
import { TOKENS_PER_GRANT } from '../../redlock/verbs/acquire.ts'

export interface Loss {
  readonly resources: readonly string[]
  readonly fencingToken: number
  readonly reason: string
  /** On the wall clock. */
  readonly at: number
}

const COUNTED = ['granted', 'refused', 'extended', 'released', 'lost', 'requeued'] as const
type Counted = (typeof COUNTED)[number]

export interface ProcessReport {
  /** How much time the counts are about. */
  readonly overMs: number
  /** `refused` counts attempts that were not granted: taken, split, or without a quorum. */
  readonly counts: Readonly<Record<Counted, number>>
  /** Newest first; as far as they are kept, however old. */
  readonly losses: readonly Loss[]
}

interface Second {
  readonly second: number
  readonly counts: Record<Counted, number>
}

const WINDOW_SECONDS = 60
const MAX_LOSSES = 20
/** The most leases whose steps are kept: those of one process. */
const MAX_STEPS = 10_000

export class ProcessActivity {
  readonly #namespace: string
  readonly #stop: () => void
  readonly #steps = new Map<number, string>()
  #seconds: Second[] = []
  #losses: readonly Loss[] = []
  /** Of the first activity; undefined while there was none. */
  #since: number | undefined

  constructor(namespace: string) {
    this.#namespace = namespace
    this.#stop = listen(this.#listener())
  }

  /**
   * The step that a lease is at, or ran last; undefined for leases of other processes. The masters
   * know the fencing token of its grant; the job that runs may have one of the next.
   */
  stepOf(granted: number | undefined): string | undefined {
    if (granted === undefined) return undefined
    for (let passes = 0; passes < TOKENS_PER_GRANT; passes++) {
      const step = this.#steps.get(granted + passes)
      if (step !== undefined) return step
    }
    return undefined
  }

  /** Undefined when nothing has happened in this process. */
  report(): ProcessReport | undefined {
    if (this.#since === undefined) return undefined
    const oldest = this.#second() - WINDOW_SECONDS
    this.#seconds = this.#seconds.filter(({ second }) => second > oldest)
    const counts = noCounts()
    for (const { counts: each } of this.#seconds) {
      for (const name of COUNTED) counts[name] += each[name]
    }
    const overMs = Math.min(systemClock.now() - this.#since, WINDOW_SECONDS * 1_000)
    return { overMs, counts, losses: this.#losses }
  }

  close(): void {
    this.#stop()
  }

  #listener(): Listener {
    const counting =
      <Fact>(note: (fact: Fact) => void) =>
      (fact: Fact, namespace: string | undefined): void => {
        // A processor in a worker that was made elsewhere has no namespace.
        if ((namespace ?? this.#namespace) !== this.#namespace) return
        this.#since ??= systemClock.now()
        note(fact)
      }
    return {
      on: {
        'lease:attempted': counting(({ status }) => {
          this.#count(status === 'granted' ? 'granted' : 'refused')
        }),
        'lease:extended': counting(({ outcome }) => {
          if (outcome === 'extended') this.#count('extended')
        }),
        'lease:ended': counting(({ lease: { resources, fencingToken }, how, reason }) => {
          this.#steps.delete(fencingToken)
          this.#count(how === 'lost' ? 'lost' : 'released')
          if (reason === undefined) return
          const loss = { resources, fencingToken, reason, at: systemClock.wallNow() }
          this.#losses = [loss, ...this.#losses].slice(0, MAX_LOSSES)
        }),
        'step:started': counting(({ lease: { fencingToken }, step }) => {
          if (this.#steps.size >= MAX_STEPS) this.#steps.clear()
          this.#steps.set(fencingToken, step)
        }),
        'job:requeued': counting(() => {
          this.#count('requeued')
        }),
      },
    }
  }

  #count(name: Counted): void {
    const second = this.#second()
    let last = this.#seconds.at(-1)
    if (last?.second !== second) {
      last = { second, counts: noCounts() }
      this.#seconds = [...this.#seconds.slice(1 - WINDOW_SECONDS), last]
    }
    last.counts[name]++
  }

  #second(): number {
    return Math.floor(systemClock.now() / 1_000)
  }
}

function noCounts(): Record<Counted, number> {
  return { granted: 0, refused: 0, extended: 0, released: 0, lost: 0, requeued: 0 }
}
