/** Whether to report a state that repeats: when it changes, then once a minute with a count. */
import type { Clock } from './clock.ts'

const REPEAT_MS = 60_000
/** Subjects that are remembered; the oldest is forgotten first. */
const MAX_SUBJECTS = 1_000

export class Repeats<Subject> {
  readonly #clock: Clock
  readonly #last = new Map<
    Subject,
    { readonly state: string; readonly at: number; times: number }
  >()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How often the state occurred since its last report; undefined when no report is due. */
  due(subject: Subject, state: string): number | undefined {
    const last = this.#last.get(subject)
    const at = this.#clock.now()
    if (last?.state === state && at - last.at < REPEAT_MS) {
      last.times++
      return undefined
    }
    this.#last.delete(subject)
    this.#last.set(subject, { state, at, times: 0 })
    const [oldest] = this.#last.keys()
    if (this.#last.size > MAX_SUBJECTS && oldest !== undefined) this.#last.delete(oldest)
    return last?.state === state ? last.times + 1 : 1
  }
}

/** What texts that repeat have in common: their numbers count or measure. */
export function withoutNumbers(text: string): string {
  return text.replace(/\d+/g, '#')
}
