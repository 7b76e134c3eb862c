/**
 * Masters that answer and refuse what a lease needs. They are asked like all others, so one that is
 * right again counts with its next answer. This is only what is told of them: after an error a
 * trial says whether the master refuses every lease, and the next ones when that is over.
 */
import type { Clock, Timer } from '../../clock.ts'
import { callMaster, type Master, type Refusal } from '../wire/master.ts'
import { refusalBy, trialCall } from '../wire/trial.ts'

/** Between two trials of a master that refuses. */
const TRIAL_MS = 1_000

export interface RefusalsOptions {
  readonly clock: Clock
  readonly timeoutMs: number
  /** It refuses something else now, or nothing any more. */
  changed(master: Master): void
}

export class Refusals {
  readonly #options: RefusalsOptions
  readonly #known = new Map<Master, Refusal>()
  readonly #trials = new Map<Master, Timer | undefined>()

  constructor(options: RefusalsOptions) {
    this.#options = options
  }

  of(master: Master): Refusal | undefined {
    return this.#known.get(master)
  }

  /** It answered a question with an error. */
  suspect(master: Master): void {
    if (!this.#trials.has(master)) void this.#try(master)
  }

  /** Its enrolment says anew what it is. */
  forget(master: Master): void {
    this.#trials.get(master)?.cancel()
    this.#trials.delete(master)
    this.#known.delete(master)
  }

  async #try(master: Master): Promise<void> {
    const { clock, timeoutMs } = this.#options
    const { state } = master
    this.#trials.set(master, undefined)
    const result = await callMaster(master, clock, trialCall, timeoutMs)
    if (master.state !== state || !this.#trials.has(master)) return
    const known = this.#known.get(master)
    const refusal = result.ok
      ? undefined
      : result.reason === 'error'
        ? refusalBy(result.detail)
        : known
    if (refusal === undefined) this.forget(master)
    else {
      this.#known.set(master, refusal)
      const again = (): void => void this.#try(master)
      this.#trials.set(master, clock.after(TRIAL_MS, again))
    }
    if (refusal?.problem !== known?.problem) this.#options.changed(master)
  }
}
