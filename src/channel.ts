/**
 * The one channel. Locks and workers tell here what happens, once each. Logs, metrics, spans and
 * the events of a worker listen.
 *
 * A fact is told after it happened, at once, in the asynchronous context of its user. A listener
 * can neither delay nor change it, and one that throws harms nobody. Nothing is prepared that
 * nobody hears: who would have to prepare something asks `hears` first.
 */
import { systemClock } from './clock.ts'
import type { FactName, Facts, ToldJob } from './facts.ts'
import { objectOption } from './options.ts'

/** Who is told. */
export interface Listener {
  /** What it does with each fact. `namespace` is that of the lock or worker, where it has one. */
  readonly on: {
    readonly [Name in FactName]?: (fact: Facts[Name], namespace: string | undefined) => void
  }
  /**
   * False while nothing would come of a fact. The answer counts for up to a second.
   * @defaultValue true
   */
  hears?(event: FactName): boolean
  /**
   * Runs what belongs to a job or to a step, in a trace for example. It calls `run` once, at once,
   * and returns what that returns. Whether it is there is asked once a second.
   */
  readonly within?:
    (<Result>(what: Within, run: () => Promise<Result>) => Promise<Result>) | undefined
}

/** A job, or a step of one. */
export type Within =
  | { readonly kind: 'job'; readonly job: ToldJob }
  | ({ readonly kind: 'step' } & Facts['step:started'])

/** By their names. Several copies of this package in one process share them. */
const LISTENERS = Symbol.for('bullmq-redlock:listeners')
type Listeners = Map<string | symbol, Listener> & { changes: number }

function everywhere(): Listeners {
  const shared = globalThis as { [LISTENERS]?: Listeners }
  const known = shared[LISTENERS]
  if (known !== undefined) return known
  const made: Listeners = Object.assign(new Map<string | symbol, Listener>(), { changes: 0 })
  shared[LISTENERS] = made
  return made
}

/**
 * Tells a listener everything that the locks and workers of this process do.
 * @param name takes the place of the listener of the same name.
 * @returns how to end it.
 * @throws TypeError for a listener without `on`.
 * @example
 * ```ts
 * const stop = listen({ on: { 'job:lease-lost': ({ job }) => console.error(job.id) } })
 * ```
 */
export function listen(listener: Listener, name: string | symbol = Symbol('listener')): () => void {
  objectOption(listener, 'an object with `on`', 'listener')
  objectOption(listener.on, 'an object with a function for each fact', 'listener.on')
  const all = everywhere()
  all.set(name, listener)
  all.changes++
  return () => {
    if (all.get(name) === listener) all.delete(name)
    all.changes++
  }
}

/** A level of a logger that changes, and an SDK that is registered, are seen within this time. */
const ASK_AGAIN_MS = 1_000

/** What one lock, or one worker, tells. */
export class Channel {
  readonly #namespace: string | undefined
  readonly #own: readonly Listener[]
  readonly #threw: (error: unknown) => void
  readonly #everywhere = everywhere()
  /** Who hears what was asked a moment ago. */
  readonly #heard = new Map<FactName | 'within', boolean>()
  #askedAt = -Infinity
  /** How often a listener had come or gone. */
  #askedAfter = 0
  readonly #broken = new WeakSet<Listener>()

  /**
   * @param own who listens to this lock or worker alone.
   * @param threw is told the first error of each listener.
   */
  constructor(
    namespace: string | undefined,
    own: readonly Listener[],
    threw: (error: unknown) => void,
  ) {
    this.#namespace = namespace
    this.#own = own
    this.#threw = threw
  }

  /** False where a fact would go nowhere. Of `within`: false where no listener has it. */
  hears(event: FactName | 'within'): boolean {
    const now = systemClock.now()
    const { changes } = this.#everywhere
    if (now - this.#askedAt > ASK_AGAIN_MS || changes !== this.#askedAfter) {
      this.#heard.clear()
      this.#askedAt = now
      this.#askedAfter = changes
    }
    let heard = this.#heard.get(event)
    if (heard === undefined) {
      const all = [...this.#own, ...this.#everywhere.values()]
      heard = all.some((listener) => this.#isHeard(listener, event))
      this.#heard.set(event, heard)
    }
    return heard
  }

  tell<Name extends FactName>(event: Name, fact: Facts[Name]): void {
    if (!this.hears(event)) return
    for (const listener of this.#own) this.#tell(listener, event, fact)
    for (const listener of this.#everywhere.values()) this.#tell(listener, event, fact)
  }

  /** Runs what belongs to a job or to a step, where a listener has `within`. */
  within<Result>(what: Within, run: () => Promise<Result>): Promise<Result> {
    let next = run
    for (const listener of this.#everywhere.values()) {
      const inner = next
      next = () => this.#within(listener, what, inner)
    }
    return next()
  }

  #within<Result>(listener: Listener, what: Within, run: () => Promise<Result>): Promise<Result> {
    let running: Promise<Result> | undefined
    const once = (): Promise<Result> => (running ??= run())
    try {
      return listener.within?.(what, once) ?? once()
    } catch (error) {
      this.#report(listener, error)
      return once()
    }
  }

  #isHeard(listener: Listener, event: FactName | 'within'): boolean {
    if (event === 'within') return listener.within !== undefined
    if (listener.on[event] === undefined) return false
    try {
      return listener.hears?.(event) ?? true
    } catch (error) {
      this.#report(listener, error)
      return false
    }
  }

  #tell<Name extends FactName>(listener: Listener, event: Name, fact: Facts[Name]): void {
    if (!this.#isHeard(listener, event)) return
    try {
      listener.on[event]?.(fact, this.#namespace)
    } catch (error) {
      this.#report(listener, error)
    }
  }

  #report(listener: Listener, error: unknown): void {
    if (this.#broken.has(listener)) return
    this.#broken.add(listener)
    this.#threw(error)
  }
}
