/**
 * What is told of the masters. A change of state is told once. A state that repeats, such as every
 * failed attempt to connect, is told at most once a minute, with how often it occurred.
 * Masters that begin a quarantine within a moment share one line.
 */
import type { Clock, Timer } from '../../clock.ts'
import type { Channel } from '../../channel.ts'
import type { Master } from '../wire/master.ts'
import { Repeats } from '../../repeats.ts'
import type { Silence } from './silence.ts'

const GATHER_MS = 250

export class MasterLog {
  readonly #channel: Channel
  readonly #clock: Clock
  readonly #repeats: Repeats<Master>
  #quarantined: { readonly masters: string[]; votesInMs: number } | undefined
  #timer: Timer | undefined
  /** Nothing is told: its fleet is not yet, or no longer, in use. */
  isSilent = false
  /** A master was told of that does not vote. */
  #isDegraded = false

  constructor(channel: Channel, clock: Clock) {
    this.#channel = channel
    this.#clock = clock
    this.#repeats = new Repeats(clock)
  }

  /**
   * It is silent for another reason now, or for none. A clock that jumped is told by itself. Until
   * a quorum has answered, every clock is out of line.
   */
  entered(master: Master, why: Silence | undefined): void {
    // rule: start-of-a-client-is-no-outage
    const silence = why?.state === 'suspended' ? undefined : why
    const state = silence?.state
    if (this.isSilent || state === 'enrolling' || state === 'closed') return
    const times = this.#repeats.due(master, state ?? 'voting')
    if (times === undefined) return
    if (silence !== undefined) this.#isDegraded = true
    const fields = { master: master.name, ...(times > 1 && { times }) }
    if (silence?.state === 'refused') {
      const { problem, fix } = silence
      this.#channel.tell('master:refused', { ...fields, problem, fix })
    } else if (silence?.state === 'connecting') {
      this.#channel.tell('master:connecting', { ...fields, detail: silence.detail })
    } else if (silence?.state === 'quarantined') this.#gather(master.name, silence.votesInMs)
    else if (state === undefined) this.#channel.tell('master:enrolled', { master: master.name })
  }

  /** All masters vote. It is told where it was not so before. */
  allVote(masters: number): void {
    if (this.isSilent || !this.#isDegraded) return
    this.#isDegraded = false
    this.#channel.tell('fleet:votes', { voting: masters, masters })
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
      this.#channel.tell('master:quarantined', { masters, votesInMs: longestMs })
    })
  }
}
