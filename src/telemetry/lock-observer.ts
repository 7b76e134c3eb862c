/**
 * What a lock tells its observers. The lock does not wait for an observer, gives it nothing that it
 * could change, and goes on as before if it throws: with and without one, the same commands leave
 * in the same order.
 */

/** What a master was asked. */
export type Question = 'acquire' | 'confirm' | 'extend' | 'heal' | 'release'

/** What an attempt came to. */
export type AttemptStatus = 'granted' | 'taken' | 'split' | 'unreachable'

/** One master as `redlock.status()` shows it. */
export interface MasterStatus {
  readonly name: string
  readonly state:
    'voting' | 'quarantined' | 'suspended' | 'connecting' | 'enrolling' | 'refused' | 'closed'
  /** Why it does not vote, and what to do. */
  readonly reason?: string
  /** Milliseconds until a quarantined or suspended master votes again. */
  readonly votesInMs?: number
  /** The server's clock minus ours when it was enrolled. */
  readonly clockOffsetMs?: number
}

/** A lock from its construction to its close. */
export interface ObservedLock {
  readonly namespace: string
  readonly quorum: number
  status(): { readonly masters: readonly MasterStatus[]; readonly leases: number }
}

export interface ObservedAttempt {
  readonly resources: readonly string[]
  readonly status: AttemptStatus
  /** It continues a lease that its holder has given up. */
  readonly handOver: boolean
  /** Where it was granted. */
  readonly fencingToken: number | undefined
  readonly durationMs: number
}

/** A lease, as far as an observer may know it: its token is secret. */
export interface ObservedLease {
  readonly resources: readonly string[]
  readonly fencingToken: number
}

export type LossReason = 'lapsed' | 'majority-gone' | 'max-hold' | 'max-extensions' | 'closed'
export type LeaseEnd = 'released' | 'handed-over' | 'lost'

/**
 * What there is to tell of one lock. Every method is called synchronously, after the fact, in the
 * asynchronous context of its user.
 */
export interface LockObserver {
  closed?(): void
  /**
   * False while nothing would come of what it is told: then an attempt and its votes are not told.
   */
  listens?(): boolean
  /** A master answered, or failed to: then `outcome` is the reason. */
  voted?(master: string, question: Question, outcome: VoteOutcome): void
  attempted?(attempt: ObservedAttempt): void
  /** An `acquire` has been granted, or has given up, after all its attempts. */
  waited?(resources: readonly string[], granted: boolean, waitMs: number): void
  extended?(lease: ObservedLease, outcome: ExtendResult, tookMs: number): void
  /** The lease is over; `heldMs` counts from before the first command of its attempt. */
  ended?(lease: ObservedLease, how: LeaseEnd, heldMs: number): void
  lost?(lease: ObservedLease, reason: LossReason): void
  /** A quorum has confirmed the release, or one `masterTimeoutMs` is over. */
  released?(lease: ObservedLease, tookMs: number): void
}

export interface Observer {
  opened(lock: ObservedLock): LockObserver
}

export type ExtendResult = 'extended' | 'limit' | 'unreachable' | 'lost'

/** How a master answered, or why it did not. */
export type VoteOutcome =
  | ('granted' | 'taken' | 'quarantined' | 'skewed' | 'abandoned' | 'suspended')
  | ('counter' | 'lost' | 'extended' | 'healed' | 'missing' | 'released')
  | ('not-ready' | 'timeout' | 'closed' | 'error' | 'malformed' | 'unenrolled')
