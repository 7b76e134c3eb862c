/**
 * What is told of the masters. A change of state, or of its reason, is told once. What repeats,
 * such as every failed attempt to connect, is told at most once a minute, with how often it
 * occurred. Masters that begin a quarantine within a moment share one line.
 */
import type { Clock, Timer } from '../../clock.ts'
import type { Channel } from '../../channel.ts'
import type { Master } from '../wire/master.ts'
import { Repeats, withoutNumbers } from '../../repeats.ts'
import type { Silence } from './voter.ts'

const GATHER_MS = 250

export class MasterLog {
  readonly #channel: Channel
  readonly #clock: Clock
  /** The status that was told last, and its reasons. */
  readonly #told = new Map<Master, { readonly status: string; readonly reasons: Repeats<string> }>()
  readonly #silenceOf: (master: Master) => Silence | undefined
  readonly #quarantined = new Set<Master>()
  #timer: Timer | undefined
  /** Nothing is told: its fleet is not yet, or no longer, in use. */
  isSilent = false
  /** A master was told of that does not vote. */
  #isDegraded = false

  constructor(channel: Channel, clock: Clock, silenceOf: (master: Master) => Silence | undefined) {
    this.#silenceOf = silenceOf
    this.#channel = channel
    this.#clock = clock
  }

  /**
   * It is silent for another reason now, or for none. A clock that jumped is told by itself. Until
   * a quorum has answered, every clock is out of line.
   */
  entered(master: Master, why: Silence | undefined): void {
    // rule: start-of-a-client-is-no-outage
    const silence = why?.status === 'suspended' ? undefined : why
    const status = silence?.status ?? 'voting'
    if (this.isSilent || status === 'enrolling' || status === 'closed') return
    const times = this.#due(master, status, silence?.reason ?? '')
    if (times === undefined) return
    if (silence !== undefined) this.#isDegraded = true
    const fields = { master: master.name, ...(times > 1 && { times }) }
    if (silence === undefined) this.#channel.tell('master:enrolled', { master: master.name })
    else if (silence.status === 'quarantined') this.#gather(master)
    else if (silence.status === 'refused') {
      const { problem, fix } = silence
      this.#channel.tell('master:refused', { ...fields, problem, fix })
    } else if (silence.status === 'connecting') {
      this.#channel.tell('master:connecting', { ...fields, detail: silence.detail })
    }
  }

  /** All masters vote. It is told where it was not so before. */
  allVote(masters: number): void {
    if (this.isSilent || !this.#isDegraded) return
    this.#isDegraded = false
    this.#channel.tell('fleet:votes', { voting: masters, masters })
  }

  /** @see Repeats.due */
  #due(master: Master, status: string, reason: string): number | undefined {
    let told = this.#told.get(master)
    if (told?.status !== status) {
      told = { status, reasons: new Repeats(this.#clock) }
      this.#told.set(master, told)
    }
    return told.reasons.due(withoutNumbers(reason), status)
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #gather(master: Master): void {
    this.#quarantined.add(master)
    this.#timer ??= this.#clock.after(GATHER_MS, () => {
      this.#timer = undefined
      const masters: string[] = []
      let votesInMs = 0
      for (const one of this.#quarantined) {
        // It may vote by now: an operator has said that its fleet is new.
        // rule: told-quarantine-is-still-on
        const now = this.#silenceOf(one)
        if (now?.status !== 'quarantined') continue
        masters.push(one.name)
        votesInMs = Math.max(votesInMs, now.votesInMs)
      }
      this.#quarantined.clear()
      if (masters.length > 0) this.#channel.tell('master:quarantined', { masters, votesInMs })
    })
  }
}
