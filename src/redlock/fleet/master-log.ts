/**
 * What is logged of the masters. A change of state is logged once. A state that repeats, such as
 * every failed attempt to connect, is logged at most once a minute, with how often it occurred.
 * Masters that begin a quarantine within a moment share one line.
 */
import type { Clock, Timer } from '../../clock.ts'
import type { EventLog } from '../../event-log.ts'
import type { Master, MasterState } from '../wire/master.ts'
import { Repeats } from '../../repeats.ts'

const GATHER_MS = 250

export class MasterLog {
  readonly #log: EventLog
  readonly #clock: Clock
  readonly #repeats: Repeats<Master>
  #quarantined: { readonly masters: string[]; votesInMs: number } | undefined
  #timer: Timer | undefined

  constructor(log: EventLog, clock: Clock) {
    this.#log = log
    this.#clock = clock
    this.#repeats = new Repeats(clock)
  }

  /** `votesInMs` is what is left of a quarantine. */
  entered(master: Master, state: MasterState, votesInMs: number): void {
    if (state.status === 'enrolling' || state.status === 'closed') return
    const status = state.status === 'enrolled' && votesInMs > 0 ? 'quarantined' : state.status
    const times = this.#repeats.due(master, status)
    if (times === undefined) return
    const fields = { master: master.name, ...(times > 1 && { times }) }
    if (state.status === 'refused') {
      this.#log.event('master:refused', fields, { problem: state.problem, fix: state.fix })
    } else if (state.status === 'connecting') {
      this.#log.event('master:connecting', fields, { detail: state.detail })
    } else if (votesInMs === 0) this.#log.event('master:enrolled', { master: master.name })
    else this.#gather(master.name, votesInMs)
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #gather(name: string, votesInMs: number): void {
    this.#quarantined ??= { masters: [], votesInMs: 0 }
    this.#quarantined.masters.push(name)
    this.#quarantined.votesInMs = Math.max(this.#quarantined.votesInMs, votesInMs)
    this.#timer ??= this.#clock.after(GATHER_MS, () => {
      this.#timer = undefined
      const { masters, votesInMs: longestMs } = this.#quarantined ?? { masters: [], votesInMs: 0 }
      this.#quarantined = undefined
      this.#log.event('master:quarantined', { masters, votesInMs: longestMs })
    })
  }
}
