/**
 * Watches what holders are told and judges it. It knows the true time and sees every holder at
 * once, which nobody in the real world does.
 *
 *   ME     two leases on a resource are never both trusted, each by its own holder's clocks
 *   MONO   a lease has a larger token than every lease that was granted before it
 *   UNIQ   no two leases on a resource share a token
 *   STORE  a store that refuses smaller tokens takes no write of a lease after one of a later lease
 *   CONT   a lease that is extended was not granted to anybody else before that extension began
 *   LAPSE  a lease is trusted when it is handed out, and once it is over it stays over
 */
import type { Lease } from '../../src/lock/lease.ts'
import type { VirtualClock } from './virtual-clock.ts'
import type { VirtualTime } from './virtual-time.ts'

export type Property =
  'ME' | 'MONO' | 'UNIQ' | 'STORE' | 'CONT' | 'LAPSE' | 'WAIT' | 'SETTLE' | 'CLEAN'

export interface Violation {
  readonly property: Property
  readonly at: number
  readonly detail: string
}

/** One granted lease, as the referee follows it. */
export interface Holding {
  readonly client: string
  readonly clock: VirtualClock
  readonly lease: Lease
  readonly resources: readonly string[]
  /** True time at which the first command of the attempt left. */
  readonly attemptAt: number
  readonly grantedAt: number
  readonly firstTrustedUntil: number
  lastTrustedUntil: number
  releasedAt: number | undefined
  /** It was seen untrusted, which is for good. */
  over: boolean
  /**
   * Its own extend rounds, as the shift of the trust that each asks for, with the true time it
   * began.
   */
  readonly rounds: { readonly shiftMs: number; readonly at: number }[]
  readonly startedAtMono: number
}

export interface RefereeOptions {
  readonly time: VirtualTime
  /** Which properties the clocks of this run allow to hold. */
  readonly judged: ReadonlySet<Property>
  readonly trace: (line: () => string) => void
}

interface Terms {
  readonly closing?: boolean
  readonly fleet?: string
  readonly believed?: readonly string[]
}

interface Attempt {
  readonly at: number
  readonly mono: number
}

/** A lease is looked at this long after its end, because a late reply may revive it wrongly. */
const WATCHED_MS = 5_000
const MAX_VIOLATIONS = 20

export class Referee {
  readonly violations: Violation[] = []
  leases = 0
  /** Of these, how many went on under the keys of the one before. */
  passedOn = 0
  extensions = 0
  writesAccepted = 0
  writesRefused = 0
  readonly #options: RefereeOptions
  readonly #attempts = new Map<string, Attempt>()
  readonly #holdings = new Map<string, Holding>()
  readonly #histories = new Map<string, History>()
  readonly #reported = new Set<string>()

  constructor(options: RefereeOptions) {
    this.#options = options
  }

  /** The first acquire command of an attempt leaves. */
  attempted(token: string, clock: VirtualClock): void {
    if (this.#attempts.has(token)) return
    this.#attempts.set(token, { at: this.#options.time.now, mono: clock.now() })
  }

  extendRoundBegins(token: string, clock: VirtualClock): void {
    const holding = this.#holdings.get(token)
    if (holding === undefined) return
    const shiftMs = clock.now() - holding.startedAtMono
    if (holding.rounds.at(-1)?.shiftMs === shiftMs) return
    holding.rounds.push({ shiftMs, at: this.#options.time.now })
  }

  /** `believed` is what the holder relies on, where that is not what the lease names. */
  granted(
    client: string,
    clock: VirtualClock,
    lease: Lease,
    { closing = false, fleet = '', believed = lease.resources }: Terms = {},
  ): Holding {
    const { time } = this.#options
    const attempt = this.#attempts.get(lease.token)
    const until = lease.trustedUntil
    const holding: Holding = {
      client,
      clock,
      lease,
      resources: believed.map((resource) => fleet + resource),
      attemptAt: attempt?.at ?? time.now,
      grantedAt: time.now,
      firstTrustedUntil: until,
      lastTrustedUntil: until,
      releasedAt: undefined,
      over: false,
      rounds: [],
      startedAtMono: attempt?.mono ?? clock.now(),
    }
    if (!closing && lease.remainingMs() <= 0) {
      this.#violated('LAPSE', `${describe(holding)} was over when it was handed out`)
    }
    this.leases++
    this.#holdings.set(lease.token, holding)
    for (const history of holding.resources.map((resource) => this.#history(resource))) {
      this.#judgeTokens(history, holding)
      history.add(holding)
      this.#judgeExclusion(history)
    }
    return holding
  }

  released(holding: Holding): void {
    holding.releasedAt ??= this.#options.time.now
  }

  /**
   * Looks at every lease that may still be trusted; called on every event of a holder and now and
   * then.
   */
  look(): void {
    for (const history of this.#histories.values()) {
      for (const holding of history.watched) {
        this.#judgeExtension(holding)
        this.#judgeLapse(holding)
      }
      this.#judgeExclusion(history)
      history.forgetBefore(this.#options.time.now - WATCHED_MS)
    }
  }

  /** A write reaches the store that compares fencing tokens. */
  write(holding: Holding): void {
    for (const resource of holding.resources) this.#write(holding, this.#history(resource))
  }

  #write(holding: Holding, history: History): void {
    const { fencingToken } = holding.lease
    if (fencingToken < history.storedToken) {
      this.writesRefused++
      return
    }
    this.writesAccepted++
    history.storedToken = fencingToken
    if (history.newestWriterAttemptAt > holding.grantedAt) {
      this.#violated('STORE', `${describe(holding)} wrote after a later lease had written`)
    }
    history.newestWriterAttemptAt = Math.max(history.newestWriterAttemptAt, holding.attemptAt)
  }

  report(property: Property, detail: string): void {
    this.#violated(property, detail)
  }

  #judgeTokens(history: History, holding: Holding): void {
    const { fencingToken } = holding.lease
    const duplicate = history.byToken.get(fencingToken)
    if (duplicate !== undefined) {
      this.#violated('UNIQ', `${describe(holding)} shares its token with ${describe(duplicate)}`)
    }
    const before = history.largest
    if (before !== undefined && before.lease.fencingToken > fencingToken) {
      this.#violated('MONO', `${describe(holding)} was granted after ${describe(before)}`)
    }
  }

  #judgeExclusion(history: History): void {
    let trusted: Holding | undefined
    for (const holding of history.watched) {
      if (!isTrusted(holding)) continue
      if (trusted !== undefined) {
        this.#violated('ME', `${describe(trusted)} and ${describe(holding)} are both trusted`)
      }
      trusted = holding
    }
  }

  #judgeLapse(holding: Holding): void {
    if (holding.clock.state === 'crashed' || holding.clock.state === 'suspended') return
    if (holding.lease.remainingMs() <= 0) holding.over = true
    else if (holding.over) this.#violated('LAPSE', `${describe(holding)} was over and came back`)
  }

  #judgeExtension(holding: Holding): void {
    if (holding.clock.state === 'crashed') return
    const until = holding.lease.trustedUntil
    if (until <= holding.lastTrustedUntil) return
    holding.lastTrustedUntil = until
    this.extensions++
    const shiftMs = until - holding.firstTrustedUntil
    const round = holding.rounds.find((each) => Math.abs(each.shiftMs - shiftMs) < 1e-3)
    if (round === undefined) return
    const histories = holding.resources.map((resource) => this.#history(resource))
    for (const other of histories.flatMap(({ watched }) => watched)) {
      const between = other.grantedAt > holding.grantedAt && other.grantedAt < round.at
      if (!between || other.lease.fencingToken <= holding.lease.fencingToken) continue
      const detail = `${describe(holding)} was extended from ${round.at.toFixed(2)} although ${describe(other)}`
      this.#violated('CONT', `${detail} was granted in between`)
    }
  }

  #violated(property: Property, detail: string): void {
    const { time, judged, trace } = this.#options
    if (!judged.has(property) || this.#reported.has(detail)) return
    this.#reported.add(detail)
    trace(() => `VIOLATION ${property}: ${detail}`)
    if (this.violations.length < MAX_VIOLATIONS) {
      this.violations.push({ property, at: time.now, detail })
    }
  }

  #history(resource: string): History {
    const known = this.#histories.get(resource)
    if (known !== undefined) return known
    const history = new History()
    this.#histories.set(resource, history)
    return history
  }
}

/** Everything that was granted on one resource. */
class History {
  readonly byToken = new Map<number, Holding>()
  watched: Holding[] = []
  storedToken = 0
  newestWriterAttemptAt = -1
  /** With the largest token so far. */
  largest: Holding | undefined

  add(holding: Holding): void {
    this.byToken.set(holding.lease.fencingToken, holding)
    this.watched.push(holding)
    if (this.largest === undefined || isLarger(holding, this.largest)) this.largest = holding
  }

  forgetBefore(at: number): void {
    this.watched = this.watched.filter((holding) => {
      if (holding.grantedAt >= at) return true
      if (holding.releasedAt !== undefined) return holding.releasedAt >= at
      return holding.lease.trustedUntil > holding.clock.now() - WATCHED_MS
    })
  }
}

function isLarger({ lease }: Holding, { lease: other }: Holding): boolean {
  return lease.fencingToken > other.fencingToken
}

/** A suspended or dead holder does nothing with its trust; one that is paused may be about to. */
function isTrusted({ clock, lease }: Holding): boolean {
  return clock.state !== 'crashed' && clock.state !== 'suspended' && lease.remainingMs() > 0
}

function describe({ client, lease, attemptAt, grantedAt }: Holding): string {
  const when = `attempt ${attemptAt.toFixed(2)}, granted ${grantedAt.toFixed(2)}`
  const which = `${lease.fencingToken} (${lease.token.slice(0, 8)}) on ${lease.resource}`
  return `${client}'s lease ${which} (${when})`
}
