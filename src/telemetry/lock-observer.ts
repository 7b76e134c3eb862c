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
  /** `host:port`. */
  readonly name: string
  /** Only a master that is `voting` can grant a lease. */
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
  /** The prefix of its keys. */
  readonly namespace: string
  /** How many masters must grant a lease. */
  readonly quorum: number
  /** Its masters, and how many leases it holds now. */
  status(): { readonly masters: readonly MasterStatus[]; readonly leases: number }
}

/** One attempt to get a lease. */
export interface ObservedAttempt {
  /** What the attempt asked for, sorted. */
  readonly resources: readonly string[]
  /** What it came to. */
  readonly status: AttemptStatus
  /** It continues a lease that its holder has given up. */
  readonly handOver: boolean
  /** Where it was granted. */
  readonly fencingToken: number | undefined
  /** From before its first command to its outcome. */
  readonly durationMs: number
}

/** A lease, as far as an observer may know it: its token is secret. */
export interface ObservedLease {
  /** What the lease covers, sorted. */
  readonly resources: readonly string[]
  /** Larger than that of every earlier lease on the resources. */
  readonly fencingToken: number
}

/**
 * Why a lease was lost: its time was over, a majority of the masters no longer had it, a limit was
 * reached, or its client was closed.
 */
export type LossReason = 'lapsed' | 'majority-gone' | 'max-hold' | 'max-extensions' | 'closed'
/** How a lease ended. */
export type LeaseEnd = 'released' | 'handed-over' | 'lost'

/**
 * What there is to tell of one lock. Every method is called synchronously, after the fact, in the
 * asynchronous context of its user.
 */
export interface LockObserver {
  /** The lock was closed. */
  closed?(): void
  /**
   * False while nothing would come of what it is told: then no attempt, vote, or end of a lease is
   * told.
   */
  listens?(): boolean
  /** A master answered, or failed to: then `outcome` is the reason. */
  voted?(master: string, question: Question, outcome: VoteOutcome): void
  /** An attempt has ended. */
  attempted?(attempt: ObservedAttempt): void
  /** An `acquire` has been granted, or has given up, after all its attempts. */
  waited?(resources: readonly string[], granted: boolean, waitMs: number): void
  /** A lease was extended, or was not. */
  extended?(lease: ObservedLease, outcome: ExtendResult, tookMs: number): void
  /** The lease is over; `heldMs` counts from before the first command of its attempt. */
  ended?(lease: ObservedLease, how: LeaseEnd, heldMs: number): void
  /** A lease was lost before its release. */
  lost?(lease: ObservedLease, reason: LossReason): void
  /** A quorum has confirmed the release, or one `masterTimeoutMs` is over. */
  released?(lease: ObservedLease, tookMs: number): void
}

/** Told of everything that a lock does. It can neither slow nor change it. */
export interface Observer {
  /** Called once for each lock, when it is constructed. */
  opened(lock: ObservedLock): LockObserver
}

/** What an extension came to. */
export type ExtendResult = 'extended' | 'limit' | 'unreachable' | 'lost'

/** How a master answered, or why it did not. */
export type VoteOutcome =
  | ('granted' | 'taken' | 'quarantined' | 'skewed' | 'abandoned' | 'suspended')
  | ('counter' | 'lost' | 'extended' | 'healed' | 'missing' | 'released')
  | ('not-ready' | 'timeout' | 'closed' | 'error' | 'malformed' | 'unenrolled')
