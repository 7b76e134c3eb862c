/** The facts that locks and workers tell on the channel, and what a listener may know of each. */

/** What a master was asked. */
export type Question = 'acquire' | 'confirm' | 'extend' | 'heal' | 'release'

/** How a master answered, or why it did not. */
export type VoteOutcome =
  | ('granted' | 'taken' | 'quarantined' | 'skewed' | 'abandoned' | 'suspended')
  | ('counter' | 'lost' | 'extended' | 'healed' | 'missing' | 'released')
  | ('not-ready' | 'timeout' | 'closed' | 'error' | 'malformed' | 'unenrolled')

/** What an attempt came to. */
export type AttemptStatus = 'granted' | 'taken' | 'split' | 'unreachable'

/** What an extension came to. */
export type ExtendResult = 'extended' | 'limit' | 'unreachable' | 'lost'

/** How a lease ended. */
export type LeaseEnd = 'released' | 'handed-over' | 'lost'

/**
 * Why a lease was lost: its time was over, a majority of the masters no longer had it, a limit was
 * reached, or its client was closed.
 */
export type LossReason = 'lapsed' | 'majority-gone' | 'max-hold' | 'max-extensions' | 'closed'

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
export interface ToldLock {
  /** The prefix of its keys. */
  readonly namespace: string
  /** How many masters must grant a lease. */
  readonly quorum: number
  /** Its masters, and how many leases it holds now. */
  status(): { readonly masters: readonly MasterStatus[]; readonly leases: number }
}

/** How many lines a queue has, and how many jobs sleep in them. */
export interface LineCensus {
  /** Lines in which jobs sleep. */
  readonly lines: number
  /** Jobs that sleep. */
  readonly parked: number
  /** Jobs that sleep in the longest line. */
  readonly longest: number
  /** Resources for which a pause, slots or a rate is set. */
  readonly limited: number
  /** Tenants with jobs that may start. */
  readonly tenants: number
  /** Adds that full lines have refused. */
  readonly refused: number
  /** Jobs that full lines have dropped for new ones. */
  readonly dropped: number
  /** Jobs that run, or that a free worker could start at once. */
  readonly runnable: number
  /** How long the oldest job has waited; 0 where none waits. */
  readonly oldestMs: number
}

/** A worker from its construction to its close. */
export interface ToldWorker {
  /** The name of its queue. */
  readonly queue: string
  /** BullMQ's prefix: several queues may have one name. */
  readonly prefix: string
  /** It fetches nothing, because no lease can be granted. */
  breakerOpen(): boolean
  /** Undefined where the worker keeps no lines, or the queue's Redis does not answer in time. */
  readonly census: (() => Promise<LineCensus | undefined>) | undefined
}

/** A lease, as far as a listener may know it: its token is secret. */
export interface ToldLease {
  /** Its label. */
  readonly resource: string
  /** What the lease covers, sorted. */
  readonly resources: readonly string[]
  /** Larger than that of every earlier lease on the resources. */
  readonly fencingToken: number
  /** Milliseconds for which it may still be trusted. */
  remainingMs(): number
}

/** A job, as far as a listener may know it. */
export interface ToldJob {
  /** BullMQ's id of the job. */
  readonly id?: string | undefined
  /** The queue that has it. */
  readonly queueName: string
  /** Where BullMQ carries the trace of its producer. */
  readonly opts: { readonly telemetry?: { readonly metadata?: string } }
}

interface OfJob {
  readonly job: ToldJob
  readonly lease: Pick<ToldLease, 'resource' | 'fencingToken'>
}

/** Every fact, by its name. Durations are milliseconds. */
export interface Facts {
  /** A lock was made. */
  'lock:opened': ToldLock
  /** A lock was closed. */
  'lock:closed': ToldLock
  /** A master does not vote. */
  'master:connecting': { readonly master: string; readonly detail: string; readonly times?: number }
  /** A master votes. */
  'master:enrolled': { readonly master: string }
  /** New or restarted masters grant nothing yet. */
  'master:quarantined': { readonly masters: readonly string[]; readonly votesInMs: number }
  /** A master cannot be used. */
  'master:refused': {
    readonly master: string
    readonly problem: string
    readonly fix: string
    readonly times?: number
  }
  /** The clock of a master jumped. */
  'master:clock-jump': { readonly master: string; readonly jumpedMs: number }
  /** The clocks of a master and of this machine differ. */
  'master:clock-skew': { readonly master: string; readonly clockOffsetMs: number }
  /** The fleet was resized, and the client has followed it. */
  'fleet:resized': { readonly masters: number; readonly maxLeaseMs: number }
  /** All masters vote, after some did not. */
  'fleet:votes': { readonly voting: number; readonly masters: number }
  /** The fleet has an even number of masters. */
  'fleet:even': { readonly masters: number }
  /** A master answered, or failed to. */
  'master:voted': {
    readonly master: string
    readonly question: Question
    readonly outcome: VoteOutcome
  }
  /** One attempt has ended; `durationMs` counts from before its first command. */
  'lease:attempted': {
    readonly resources: readonly string[]
    readonly status: AttemptStatus
    readonly durationMs: number
    /** It continues a lease that its holder has ended. */
    readonly handOver: boolean
    /** Where it was granted. */
    readonly fencingToken: number | undefined
  }
  /** An `acquire` was granted, or gave up, after all its attempts. */
  'lease:waited': {
    readonly resources: readonly string[]
    readonly granted: boolean
    readonly waitMs: number
  }
  /** `slots`: how many holders each of its resources may have at once. */
  'lease:granted': {
    readonly lease: ToldLease
    readonly slots: number | Readonly<Record<string, number>>
  }
  /** It was extended, or it was not. */
  'lease:extended': {
    readonly lease: ToldLease
    readonly outcome: ExtendResult
    readonly tookMs: number
  }
  /** Its holder stops, before the masters hear of it. */
  'lease:ended': {
    readonly lease: ToldLease
    readonly how: LeaseEnd
    /** Of a lost one. */
    readonly reason: LossReason | undefined
    /** From before the first command of its attempt. */
    readonly heldMs: number
  }
  /** A quorum has confirmed the release, or one `masterTimeoutMs` is over. */
  'lease:freed': { readonly lease: ToldLease; readonly tookMs: number }
  /** A worker was made. */
  'worker:opened': ToldWorker
  /** A worker was closed. */
  'worker:closed': ToldWorker
  /** The queue's Redis is a lock master too. */
  'queue:is-master': { readonly queue: string; readonly master: string }
  /** A worker fetches no jobs: no lease can be granted. */
  'breaker:open': { readonly queue: string; readonly reason: string }
  /** A worker fetches jobs again. */
  'breaker:closed': { readonly queue: string }
  /** A job runs under its lease. */
  'job:started': OfJob & {
    readonly attempt: number
    /** Since it could first have run; undefined for a later attempt. */
    readonly waitedMs: number | undefined
    /** Since the job before it on this worker had done its work. */
    readonly handOffMs: number | undefined
  }
  /** The processor has ended. */
  'job:ended': OfJob & { readonly outcome: 'done' | 'failed'; readonly tookMs: number }
  /** BullMQ has moved it. */
  'job:finished': {
    readonly queue: string
    readonly outcome: 'completed' | 'failed' | 'retried'
  }
  /** A job may not run yet. */
  'job:requeued': {
    readonly job: ToldJob
    readonly why: {
      readonly status: string
      readonly resource: string
      readonly delayMs: number
      readonly reason: string
    }
    readonly tookMs: number
  }
  /** A job could not run here. */
  'job:given-back': { readonly job: ToldJob }
  /** A server refused a command of a job, which is sent again. */
  'job:server-refused': { readonly job: string | undefined; readonly reason: string }
  /** A job lost its lease while it ran. */
  'job:lease-lost': OfJob & { readonly error: { readonly reason: string } }
  /** A job lost BullMQ's lock while it ran. */
  'job:lock-lost': OfJob
  /** A batch begins, with this job as its first. */
  'batch:started': { readonly job: ToldJob }
  /** A step begins. */
  'step:started': OfJob & { readonly step: string }
  /** A step has ended. */
  'step:ended': OfJob & {
    readonly step: string
    readonly outcome: 'done' | 'failed'
    readonly tookMs: number
  }
}

/** The name of a fact. */
export type FactName = keyof Facts
