/**
 * What is told of the masters. A change of state, or of its reason, is told once. What repeats,
 * such as every failed attempt to connect, is told at most once a minute, with how often it
 * occurred. Masters that begin a quarantine within a moment share one line.
 */
import type { Clock, Timer } from '../../clock.ts'
import type { Channel } from '../../channel.ts'
import { Repeats, withoutNumbers } from '../../repeats.ts'
import type { Voter } from './voter.ts'

type LoggedVoter = Pick<Voter, 'master' | 'silence'>

const GATHER_MS = 250

export class MasterLog {
  readonly #channel: Channel
  readonly #clock: Clock
  /** The status that was told last, and its reasons. */
  readonly #told = new Map<LoggedVoter, { status: string; reasons: Repeats<string> }>()
  readonly #quarantined = new Set<LoggedVoter>()
  #timer: Timer | undefined
  /** Nothing is told: its fleet is not yet, or no longer, in use. */
  isSilent = false
  /** A master was told of that does not vote. */
  #isDegraded = false

  constructor(channel: Channel, clock: Clock) {
    this.#channel = channel
    this.#clock = clock
  }

  /**
   * It is silent for another reason now, or for none. A clock that jumped is told by itself. Until
   * a quorum has answered, every clock is out of line.
   */
  entered(voter: LoggedVoter): void {
    const why = voter.silence
    // rule: start-of-a-client-is-no-outage
    const silence = why?.status === 'suspended' ? undefined : why
    const status = silence?.status ?? 'voting'
    if (this.isSilent || status === 'enrolling' || status === 'closed') return
    const times = this.#due(voter, status, silence?.reason ?? '')
    if (times === undefined) return
    if (silence !== undefined) this.#isDegraded = true
    const master = voter.master.name
    const fields = { master, ...(times > 1 && { times }) }
    if (silence === undefined) this.#channel.tell('master:enrolled', { master })
    else if (silence.status === 'quarantined') this.#gather(voter)
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
  #due(voter: LoggedVoter, status: string, reason: string): number | undefined {
    let told = this.#told.get(voter)
    if (told?.status !== status) {
      told = { status, reasons: new Repeats(this.#clock) }
      this.#told.set(voter, told)
    }
    return told.reasons.due(withoutNumbers(reason), status)
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #gather(voter: LoggedVoter): void {
    this.#quarantined.add(voter)
    this.#timer ??= this.#clock.after(GATHER_MS, () => {
      this.#timer = undefined
      const masters: string[] = []
      let votesInMs = 0
      for (const { master, silence } of this.#quarantined) {
        // It may vote by now: an operator has said that its fleet is new.
        // rule: told-quarantine-is-still-on
        if (silence?.status !== 'quarantined') continue
        masters.push(master.name)
        votesInMs = Math.max(votesInMs, silence.votesInMs)
      }
      this.#quarantined.clear()
      if (masters.length > 0) this.#channel.tell('master:quarantined', { masters, votesInMs })
    })
  }
}
