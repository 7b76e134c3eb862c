/**
 * The delayed restart, as this client counts it. A master stores what is left of its quarantine and
 * cannot count it down, because its wall clock may be set. Clients do, on their monotonic clocks,
 * and tell it: now and then, at the end, and before they close. So a quarantine also ends where no
 * client lives long enough to see all of it.
 */
import type { Clock, Timer } from '../../clock.ts'
import type { Master } from '../wire/master.ts'
import { waitedScript } from './enrol-scripts.ts'

/** How often a client tells the master, as a fraction of a whole quarantine. */
const REPORTS = 4

interface Quarantine {
  /** Another one after every loss of memory. */
  readonly name: string
  /** On `Clock.now()`. */
  until: number
  timer: Timer | undefined
}

export class Quarantines {
  readonly #clock: Clock
  readonly #reportMs: number
  readonly #masterKey: string
  readonly #ended: () => void
  readonly #open = new Map<Master, Quarantine>()
  #closed = false

  /** @param ended is called when a quarantine is over. */
  constructor(clock: Clock, lengthMs: number, masterKey: string, ended: () => void) {
    this.#ended = ended
    this.#clock = clock
    this.#reportMs = lengthMs / REPORTS
    this.#masterKey = masterKey
  }

  /** What a master just said; `leftMs` is 0 where no quarantine is on. */
  reported(master: Master, name: string, leftMs: number): void {
    const known = this.#open.get(master)
    known?.timer?.cancel()
    this.#open.delete(master)
    if (leftMs <= 0 && known !== undefined) this.#ended()
    if (leftMs <= 0 || this.#closed) return
    const reportedUntil = this.#clock.now() + leftMs
    const until = known?.name === name ? Math.min(known.until, reportedUntil) : reportedUntil
    const quarantine: Quarantine = { name, until, timer: undefined }
    this.#open.set(master, quarantine)
    this.#reportIn(Math.min(this.#reportMs, this.#leftOf(quarantine)), master, quarantine)
  }

  leftMs(master: Master): number {
    const quarantine = this.#open.get(master)
    return quarantine === undefined ? 0 : this.#leftOf(quarantine)
  }

  /** Tells every master what was counted until now. */
  async report(): Promise<void> {
    await Promise.all([...this.#open].map(([master, open]) => this.#report(master, open)))
  }

  close(): void {
    this.#closed = true
    for (const { timer } of this.#open.values()) timer?.cancel()
    this.#open.clear()
  }

  #reportIn(delayMs: number, master: Master, quarantine: Quarantine): void {
    quarantine.timer?.cancel()
    quarantine.timer = this.#clock.after(delayMs, () => {
      void this.#report(master, quarantine)
    })
  }

  async #report(master: Master, quarantine: Quarantine): Promise<void> {
    // Before it asks: a report that is never answered is not the last one.
    this.#reportIn(this.#reportMs, master, quarantine)
    const args = [quarantine.name, this.#leftOf(quarantine)]
    const leftMs = await master.eval(waitedScript, [this.#masterKey], args).catch(() => undefined)
    if (leftMs === undefined || this.#open.get(master) !== quarantine) return
    this.reported(master, quarantine.name, leftMs as number)
  }

  #leftOf({ until }: Quarantine): number {
    // rule: quarantine-on-a-monotonic-clock
    return Math.max(0, Math.ceil(until - this.#clock.now()))
  }
}
